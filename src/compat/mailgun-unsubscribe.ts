// The unsubscribe links of a message: "h:List-Unsubscribe" of Mailgun as the attribute "unsubscribe".
import { invalid, type CompatAttributes } from './kit.ts'

/** Placeholders for this server's own unsubscribe address. */
const OWN_ADDRESS = /^(?:mailto:)?%(?:tag_)?unsubscribe_email%$/

/** The URIs of the sender come first: the reader's choice belongs to the list that the sender keeps. */
export function unsubscribeOf(text: string, post: boolean, isBatch: boolean): CompatAttributes {
  const all = [...text.matchAll(/<([^<>]+)>/g)].map(([, uri = '']) => uri.trim())
  if (all.length === 0)
    throw invalid(
      'h:List-Unsubscribe',
      '"h:List-Unsubscribe" must contain URIs in angle brackets, such as <https://example.org/u/1>.',
    )
  const uris = all.filter((uri) => !OWN_ADDRESS.test(uri))
  const oneClick = post && uris.some((uri) => /^(?:https:|%)/i.test(uri))
  return {
    unsubscribe: { uris, one_click: oneClick, mail: uris.length < all.length },
    ...(isBatch && { stream: 'bulk' }),
  }
}

/** A value of a recipient as text. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** One click needs an https link. Without it, as on a site that has only http, the links remain. */
export function withReachableOneClick(
  texts: CompatAttributes,
  recipients: readonly { variables: Record<string, unknown> }[],
): CompatAttributes {
  const { unsubscribe } = texts as { unsubscribe?: { uris: string[]; one_click: boolean } }
  if (!unsubscribe?.one_click) return texts
  const isHttps = (uri: string, values: Record<string, unknown>): boolean =>
    /^https:/i.test(
      uri.replace(/^%recipient\.([^%]+)%/, (placeholder, key: string) =>
        Object.hasOwn(values, key) ? textOf(values[key] ?? '') : placeholder,
      ),
    )
  const one_click = recipients.every(({ variables }) => unsubscribe.uris.some((uri) => isHttps(uri, variables)))
  return { ...texts, unsubscribe: { ...unsubscribe, one_click } }
}
