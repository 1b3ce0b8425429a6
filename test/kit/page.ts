// The forms of a page, read from its HTML.

export interface PageForm {
  action: string | undefined
  hidden: Record<string, string>
  buttons: string[]
}

/** What escaped text in HTML says. */
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
