// Links that only the recipient of an email may use: to confirm a sign-up, to unsubscribe, to the recipient's data, and
// to the copy of it. What is sent has them. Whoever else reads the email does not see their tokens: a reader of the
// account must not confirm a sign-up, or open the data of a recipient.
import { HIDDEN } from './return-path.ts'
import type { WrittenBody } from './stored-body.ts'

// The host can be any, because a token stays valid when this server's public URL changes. A token is at least 76 bytes
// long, which the short links of other websites are not. The first unsubscribe tokens can be shorter: JSON that begins
// with "[" and a digit follows 12 bytes. A link can be a parameter of another one.
const TOKEN =
  /(?<=(?:\/|%2f)(?:c|me|u)(?:\/|%2f))[\w-]{100,}|(?<=(?:\/|%2f)u(?:\/|%2f))[\w-]{16}Wz[AEIMQUYcgk][\w-]{15,}|(?<=(?:\/|%2f)exports(?:\/|%2f))[\da-f-]{36}(?:\/|%2f)\d+(?:\/|%2f)[\w-]{22}/gi

/** The text without the tokens of such links. */
export const hideLinks = (text: string): string => text.replaceAll(TOKEN, HIDDEN)

type Hidden = Pick<WrittenBody, 'headers' | 'unsubscribe'> & { html: string | null; text: string | null }

/** The body of an email as everybody but its recipient sees it. Files and submitted bytes are the sender's own. */
export const hideInBody = <Body extends Hidden>(body: Body): Body => ({
  ...body,
  html: body.html && hideLinks(body.html),
  text: body.text && hideLinks(body.text),
  ...(body.headers && { headers: body.headers.map(([name, value]) => [name, hideLinks(value)]) }),
  ...(body.unsubscribe && { unsubscribe: { ...body.unsubscribe, uris: body.unsubscribe.uris.map(hideLinks) } }),
})
