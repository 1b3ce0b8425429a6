// The dialogue about one mail on an open session: one transaction, and further ones for recipients that were too many
// for it.
import { SECOND, type Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { SmtpSession } from '../smtp/client.ts'
import type { Verdict } from '../smtp/verdict.ts'
import type { Store } from '../store/database.ts'
import type { Consignment } from './claim.ts'
import { envelopeOf } from './letter.ts'
import { emailOf, moveEmail, type Delivery } from './settle.ts'

export interface SendDeps {
  store: Store
  clock: Clock
  log: Log
  keyring: Keyring
}

/** RFC 5321 §4.5.3.1.10: 452, or 552 from older servers. */
const tooMany = ({ code, enhanced, stage, text }: Verdict): boolean =>
  stage === 'rcpt' && ((code === 452 && enhanced !== '4.2.2') || (code === 552 && /too many recipients/i.test(text)))

/** So long an answer to the final dot may take until the mail is called sent. */
const PATIENCE = 2 * SECOND

/**
 * The octets are with the exchanger, and what it makes of them takes its time: the mail is sent, which its owner may
 * know (D25). A campaign's mails are many, and their owner looks at the whole.
 */
function noteHanded({ clock, log, store }: SendDeps, deliveries: readonly Delivery[]): void {
  const primary = deliveries.find(({ role }) => role === 'to')
  if (!primary) return
  store
    .writeSoon((tx) => {
      const email = tx.first(emailOf({ key: primary.email_key }))
      if (email?.campaign_key === null) moveEmail(tx, email, 'handed', clock.now(), primary)
    })
    .catch((thrown: unknown) => void log.fault('a mail that was handed over', thrown))
}

/** One transaction, and further ones for recipients that were one too many for it. */
export async function sendToAll(
  desk: SendDeps,
  session: SmtpSession,
  work: Consignment,
  wire: Buffer,
): Promise<Verdict[]> {
  const verdicts = new Map<Delivery, Verdict>()
  let rest = work.deliveries
  for (;;) {
    const tried = rest
    const answers = await session.send(envelopeOf({ ...work, deliveries: tried }, desk.keyring), wire, (taken) =>
      desk.clock.wake(desk.clock.now() + PATIENCE, () =>
        noteHanded(
          desk,
          taken.map((index) => tried[index]!),
        ),
      ),
    )
    for (const [index, delivery] of rest.entries()) verdicts.set(delivery, answers[index]!)
    const left = rest.filter((_, index) => tooMany(answers[index]!))
    if (left.length === 0 || left.length === rest.length || !session.usable) break
    rest = left
  }
  return work.deliveries.map((delivery) => verdicts.get(delivery)!)
}
