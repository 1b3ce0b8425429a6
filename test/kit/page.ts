// The forms of a page, read from its HTML.

export interface PageForm {
  action: string | undefined
  hidden: Record<string, string>
  buttons: string[]
}

/** Returns HTML-escaped text as plain text. */
export const plain = (attribute: string): string =>
  attribute
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')

const attribute = (tag: string, name: string): string | undefined => {
  const found = new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1]
  return found === undefined ? undefined : plain(found)
}

/** Every form with method="post", with its hidden fields and the values of its buttons. */
export function parse(text: string): PageForm[] {
  return [...text.matchAll(/<form\b[^>]*method="post"[\s\S]*?<\/form>/g)].map(([form]) => {
    const hidden: Record<string, string> = {}
    for (const [input] of form.matchAll(/<input\b[^>]*type="hidden"[^>]*>/g))
      hidden[attribute(input, 'name')!] = attribute(input, 'value') ?? ''
    const buttons = [...form.matchAll(/<button\b[^>]*>/g)].flatMap(([button]) => attribute(button, 'value') ?? [])
    return { action: attribute(/<form\b[^>]*>/.exec(form)![0], 'action'), hidden, buttons }
  })
}

/**
 * The fields that a browser sends for the form with this action, apart from hidden ones: choices, texts and text areas.
 */
export function fieldsOf(text: string, action: string): Record<string, string> | undefined {
  const form = [...text.matchAll(/<form\b[^>]*method="post"[\s\S]*?<\/form>/g)]
    .map(([each]) => each)
    .find((each) => each.includes(`name="action" value="${action}"`))
  if (form === undefined) return undefined
  const fields: Record<string, string> = {}
  for (const [all, tag] of form.matchAll(/(<select\b[^>]*>)[\s\S]*?<\/select\s*>/g)) {
    const options = [...all.matchAll(/<option\b[^>]*>/g)].map(([option]) => option)
    const chosen = options.find((option) => /\sselected/.test(option)) ?? options[0] ?? ''
    fields[attribute(tag!, 'name')!] = attribute(chosen, 'value') ?? ''
  }
  for (const [tag] of form.matchAll(/<input\b[^>]*>/g))
    if (!tag.includes('type="hidden"') && !tag.includes('type="file"'))
      fields[attribute(tag, 'name')!] = attribute(tag, 'value') ?? ''
  // The first line end of a text area is not part of its text (HTML §4.10.11).
  for (const [, tag, area] of form.matchAll(/(<textarea\b[^>]*)>\n?([\s\S]*?)<\/textarea\s*>/g))
    fields[attribute(tag!, 'name')!] = plain(area!)
  return fields
}
