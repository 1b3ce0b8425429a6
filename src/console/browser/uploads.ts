// Uploads files one by one, as soon as they are chosen or dropped, and shows the reason for each rejected file. Without
// this script the form sends them together.

interface Uploaded {
  stored: string[]
  refused: string[]
}

const WORDS: Record<number, string> = {
  401: 'Your session has expired. Sign in again in another tab, then retry.',
  403: 'This page was open for too long. Reload it and try again.',
  413: 'The file is too large to upload.',
}

/** Sends one file. Returns the errors, or an empty list if it is stored. */
async function send(form: HTMLFormElement, file: File): Promise<string[]> {
  const body = new FormData()
  for (const name of ['proof', 'action'])
    body.set(name, form.querySelector<HTMLInputElement>(`input[name=${name}]`)?.value ?? '')
  body.set('file', file)
  const headers = { accept: 'application/json' }
  const response = await fetch(location.pathname, { method: 'POST', headers, body }).catch(() => undefined)
  if (response?.status === 201) return []
  if (response?.status === 422) return ((await response.json()) as { errors: string[] }).errors
  return [`“${file.name}”: ${WORDS[response?.status ?? 0] ?? 'The upload failed. Try again.'}`]
}

/** Reloads the list of images. */
async function showAgain(): Promise<void> {
  const answer = await fetch(location.href)
  const now = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('gallery')
  if (now) document.getElementById('gallery')?.replaceWith(now)
}

function say(place: HTMLElement, { refused, stored }: Uploaded): void {
  const line = (text: string, look: string): HTMLElement => {
    const element = document.createElement('p')
    element.className = look
    element.textContent = text
    return element
  }
  const [first, ...more] = stored
  const good =
    first === undefined ? [] : [more.length === 0 ? `Uploaded “${first}”.` : `Uploaded ${stored.length} images.`]
  place.replaceChildren(...good.map((text) => line(text, 'good')), ...refused.map((text) => line(text, 'bad')))
}

async function upload(box: HTMLElement, form: HTMLFormElement, files: readonly File[]): Promise<void> {
  const status = box.querySelector<HTMLElement>('[role=status]')
  if (!status || files.length === 0) return
  const done: Uploaded = { stored: [], refused: [] }
  for (const [at, file] of files.entries()) {
    status.textContent = `Uploading ${at + 1} of ${files.length} …`
    const refusal = await send(form, file)
    if (refusal.length === 0) done.stored.push(file.name)
    done.refused.push(...refusal)
  }
  form.reset()
  if (done.stored.length > 0) await showAgain()
  say(status, done)
}

/** Makes every form for files upload the chosen and dropped files. */
export function takeUploads(): void {
  for (const box of document.querySelectorAll<HTMLElement>('[data-upload]')) {
    const form = box.querySelector('form')
    const input = box.querySelector<HTMLInputElement>('input[type=file]')
    if (!form || !input) continue
    form.querySelector('button')?.setAttribute('hidden', '')
    input.addEventListener('change', () => void upload(box, form, [...(input.files ?? [])]))
    for (const name of ['dragover', 'dragleave', 'drop'] as const)
      box.addEventListener(name, (event) => {
        event.preventDefault()
        box.classList.toggle('over', name === 'dragover')
        if (name === 'drop') void upload(box, form, [...(event.dataTransfer?.files ?? [])])
      })
  }
}
