// The dialogue about one mail on an open session: one transaction, and further transactions for the recipients beyond
// the server's limit.
import { SECOND, type Clock } from '../../base/clock.ts'
import type { Keyring } from '../../base/keyring.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import { envelopeOf } from './letter.ts'
import type { Delivery } from '../results/settle.ts'
import type { LetterJob, MailTransaction } from '../queue/transaction.ts'
import type { Sending, WorkerSession } from './workers.ts'
import { pairs } from '../../base/lists.ts'
import { must } from '../../base/errors.ts'

/** RFC 5321 §4.5.3.1.10: 452, or 552 from older servers. */
const tooMany = ({ code, enhanced, stage, text }: Verdict): boolean =>
  stage === 'rcpt' && ((code === 452 && enhanced !== '4.2.2') || (code === 552 && /too many recipients/i.test(text)))

/** After this time (ms) without an answer, the source of a mail is told that the exchanger has all octets (D25). */
const PATIENCE = 2 * SECOND

export interface SendDeps {
  clock: Clock
  keyring: Keyring
}

/**
 * One transaction, and further transactions for the recipients beyond the server's limit. Rejects when the mail cannot
 * be composed, or when its thread has ended.
 */
export async function sendToAll(
  { clock, keyring }: SendDeps,
  session: WorkerSession,
  work: MailTransaction,
  letter: LetterJob,
): Promise<Verdict[]> {
  const { source } = work
  const verdicts = new Map<Delivery, Verdict>()
  let rest = work.deliveries
  for (;;) {
    const tried = rest
    const sending = session.send(letter, envelopeOf({ ...work, deliveries: tried }, keyring))
    const told =
      source.handed &&
      watch(clock, sending, (taken) => source.handed?.(tried.filter((_, index) => taken.includes(index))))
    const answers = await sending.verdicts.finally(told)
    const answered = pairs(rest, answers)
    for (const [delivery, answer] of answered) {
      verdicts.set(delivery, answer)
      work.place?.answered(delivery, answer)
    }
    const left = answered.flatMap(([delivery, answer]) => (tooMany(answer) ? delivery : []))
    if (left.length === 0 || left.length === rest.length || !session.usable) break
    rest = left
  }
  return work.deliveries.map((delivery) => must(verdicts.get(delivery), 'The verdict of a recipient'))
}

/** Calls `tell` when the exchanger has the octets and has not answered yet; checks every PATIENCE until the answer. */
function watch(clock: Clock, sending: Sending, tell: (taken: readonly number[]) => void): () => void {
  let over = false
  const later = () =>
    clock.wake(clock.now() + PATIENCE, () => {
      // A thread that has ended gives no answer; the mail has its verdict then.
      sending.handed().then(
        (taken) => {
          if (over) return
          if (taken.length > 0) tell(taken)
          else cancel = later()
        },
        () => undefined,
      )
    })
  let cancel = later()
  return () => {
    over = true
    cancel()
  }
}
