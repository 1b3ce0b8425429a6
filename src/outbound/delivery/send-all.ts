// The dialogue about one mail on an open session: one transaction, and further ones for recipients that were too many
// for it.
import type { Keyring } from '../../base/keyring.ts'
import type { SmtpSession } from '../../smtp/client.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import { envelopeOf } from './letter.ts'
import type { Delivery } from './settle.ts'
import type { MailTransaction } from './transaction.ts'

/** RFC 5321 §4.5.3.1.10: 452, or 552 from older servers. */
const tooMany = ({ code, enhanced, stage, text }: Verdict): boolean =>
  stage === 'rcpt' && ((code === 452 && enhanced !== '4.2.2') || (code === 552 && /too many recipients/i.test(text)))

/** One transaction, and further ones for recipients that were one too many for it. */
export async function sendToAll(
  { keyring }: { keyring: Keyring },
  session: SmtpSession,
  work: MailTransaction,
  wire: Buffer,
): Promise<Verdict[]> {
  const { source } = work
  const verdicts = new Map<Delivery, Verdict>()
  let rest = work.deliveries
  for (;;) {
    const tried = rest
    const handed = (taken: number[]): (() => void) => source.handed!(taken.map((index) => tried[index]!))
    const envelope = envelopeOf({ ...work, deliveries: tried }, keyring)
    const answers = await session.send(envelope, wire, source.handed && handed)
    for (const [index, delivery] of rest.entries()) verdicts.set(delivery, answers[index]!)
    const left = rest.filter((_, index) => tooMany(answers[index]!))
    if (left.length === 0 || left.length === rest.length || !session.usable) break
    rest = left
  }
  return work.deliveries.map((delivery) => verdicts.get(delivery)!)
}
