// Links that only the recipient of an email may use: to confirm a sign-up, to unsubscribe, to the recipient's data, and
// to the copy of it. What is sent has them. Whoever else reads the email does not see their tokens: a reader of the
// account must not confirm a sign-up, or open the data of a recipient.
import { HIDDEN } from './return-path.ts'

// The host can be any, because a token stays valid when this server's public URL changes. A token is at least 76 bytes
// long, which the short links of other websites are not. A link can be a parameter of another one.
const TOKEN =
  /(?<=(?:\/|%2f)(?:c|me|u)(?:\/|%2f))[\w-]{100,}|(?<=(?:\/|%2f)exports(?:\/|%2f))[\da-f-]{36}(?:\/|%2f)\d+(?:\/|%2f)[\w-]{22}/gi

/** The text without the tokens of such links. */
export const hideLinks = (text: string): string => text.replaceAll(TOKEN, HIDDEN)
