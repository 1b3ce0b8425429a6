// Confirmations of actions that cannot be undone, in a dialog of the page. The button names the action, and the other
// one has the focus. Browsers without scripts get a page with the same question.

const make = <Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  text: string,
  look = '',
): HTMLElementTagNameMap[Name] => {
  const element = document.createElement(name)
  element.textContent = text
  element.className = look
  return element
}

/** Opens the dialog. Resolves to whether the user confirms. */
export function ask(title: string, question: string, yes: string): Promise<boolean> {
  const dialog = document.createElement('dialog')
  const heading = make('h2', title)
  heading.id = 'question'
  dialog.setAttribute('aria-labelledby', heading.id)
  const no = make('button', 'Cancel', 'plain')
  const sure = make('button', yes, 'sure')
  const row = make('div', '', 'row')
  row.append(no, sure)
  dialog.append(heading, make('p', question), row)
  document.body.append(dialog)
  return new Promise((resolve) => {
    no.addEventListener('click', () => dialog.close())
    sure.addEventListener('click', () => dialog.close('yes'))
    dialog.addEventListener('close', () => {
      resolve(dialog.returnValue === 'yes')
      dialog.remove()
    })
    dialog.showModal()
    no.focus()
  })
}
