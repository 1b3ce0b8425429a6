// What the values of a recipient make of the email that a batch shares: short texts are filled in, and the size follows
// from the lengths of the values.
import { hasControls } from '../../base/clean-text.ts'
import { type Problem, type Refusal } from '../../base/errors.ts'
import { isBlank } from '../../message/compose.ts'
import { headerFault } from '../../message/headers.ts'
import { isUnsubscribeUri } from '../../message/list-unsubscribe.ts'
import { encodedSize, MAX_MESSAGE } from '../../message/size.ts'
import type { WrittenBody } from '../../message/stored-body.ts'
import { countPlaceholders, htmlForm, shortLine, type Syntax } from '../../message/variables.ts'
import type { NewEmail } from './admit.ts'
import { tooLarge } from './submit.ts'

/** The email that all recipients get. */
export type SharedEmail = Omit<NewEmail, 'to' | 'cc' | 'bcc' | 'message_id' | 'idempotency_key'>

export interface BatchRecipient {
  to: string
  variables: Readonly<Record<string, string>>
  metadata?: Readonly<Record<string, string>> | null | undefined
  message_id?: string | undefined
  /** The idempotency key of a repeat with the same Message-ID on a day (UTC). */
  repeatKey?: ((day: number) => string) | undefined
}

const MAX_SUBJECT = 998
const TOO_LONG = { code: 'too_long', message: 'has a value that is too long' } as const
/** The most bytes that a byte of a value becomes in an email, as in `encodedSize`. */
const MOST_ENCODED = 3.2

/** Makes the check of a recipient's values: the subject, header fields and links with them, and the size. */
export function checkOf(syntax: Syntax, email: SharedEmail, body: WrittenBody) {
  const { attachments = [], headers = [], html, text, unsubscribe } = body
  const size = encodedSize({ html, text, headers, attachments })
  const inHtml = countPlaceholders(syntax, html)
  const inText = countPlaceholders(syntax, text ?? '')
  // The text part is made from the html.
  const copies = text === null || isBlank(text) ? 2 : 1
  const varied = headers.filter(([, value]) => countPlaceholders(syntax, value).size > 0)
  const form = htmlForm(syntax)
  return (given: BatchRecipient) => {
    const { metadata: own, variables: values } = given
    const problems: Problem[] = []
    const fault = (code: Problem['code'], member: string, detail: string): void =>
      void problems.push({ code, detail, source: { pointer: `/data/attributes/${member}` } })
    const subject = shortLine(syntax, email.subject, values)
    if (subject === undefined || Buffer.byteLength(subject) > MAX_SUBJECT)
      fault('too_long', 'variables', `The subject with these values is longer than ${MAX_SUBJECT} bytes.`)
    else if (hasControls(subject))
      fault('invalid', 'variables', 'The subject with these values has control characters. Remove them.')
    for (const [name, value] of varied) {
      const filled = shortLine(syntax, value, values)
      const problem = filled === undefined ? TOO_LONG : headerFault(name, filled)
      if (problem) fault(problem.code, 'variables', `With these values, the header "${name}" ${problem.message}.`)
    }
    const uris = unsubscribe?.uris.map((uri) => shortLine(syntax, uri, values) ?? '') ?? []
    if (!uris.every(isUnsubscribeUri))
      fault(
        'invalid',
        'variables',
        'With these values, "unsubscribe" has a link that is not an https, http or mailto URI.',
      )
    else if (unsubscribe?.one_click && !uris.some((uri) => /^https:/i.test(uri)))
      fault('invalid', 'variables', 'With these values, "unsubscribe" has no https URI, which "one_click" requires.')
    let added = 0
    for (const [name, value] of Object.entries(values)) {
      const times = inHtml.get(name)
      if (times !== undefined) added += times * copies * Buffer.byteLength(form(value))
      added += (inText.get(name) ?? 0) * Buffer.byteLength(value)
    }
    const whole = size + added * MOST_ENCODED
    if (whole >= MAX_MESSAGE) problems.push(...atVariables(tooLarge(whole)))
    const metadata = own ? { ...email.metadata, ...own } : (email.metadata ?? null)
    if (own && (Object.keys(metadata ?? {}).length > 50 || Buffer.byteLength(JSON.stringify(metadata)) > 4096))
      fault(
        'too_long',
        'metadata',
        '"metadata" with that of the email must be at most 50 members and 4096 bytes as JSON.',
      )
    return { metadata, problems, subject: subject ?? '' }
  }
}

const atVariables = ({ problems }: Refusal): Problem[] =>
  problems.map((problem) => ({ ...problem, source: { pointer: '/data/attributes/variables' } }))
