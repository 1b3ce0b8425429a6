// Email that was being processed when the process ended (D200). Its claims are counted (queue/claim.ts). After two such
// ends it is composed alone at the next start, before other email is claimed, because only composing grows with the
// size of an email. A mark is on the disk until then. If the process ends again, the email is the reason, and it fails.
// Other email costs no write.
import { SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { ownVerdict } from '../smtp/verdict.ts'
import { db, raw } from '../store/query.ts'
import type { Store } from '../store/database.ts'
import { takeAll } from '../store/move.ts'
import { deliveryMachine } from '../store/states/delivery.ts'
import { signingKeyOf } from '../domains/keys.ts'
import { letterFor, type AttemptDeps } from './attempt.ts'
import { ENDED, lapse, mailWith } from './queue/claim.ts'
import { emailOf, type Delivery, type Settling } from './results/settle.ts'
import { isWithdrawal, sourceFor, type MailTransaction, type Sources } from './queue/transaction.ts'
import { isVerdict } from './wire/connect.ts'

export interface AloneDeps extends AttemptDeps {
  store: Store
  clock: Clock
  log: Log
  sources: Sources
  config: AttemptDeps['config'] & Settling['config']
}

/** How often the process may end while it processes an email before the email is composed alone. */
const MOST_ENDS = 2
/** The value in place of a lease while the email is composed alone. No lease ends so early. */
const ALONE = 1
/** The longest time (ms) that other email waits for these emails. After it, the rest of them is sent as usual. */
const PATIENCE = 10 * SECOND

const FAILED = ownVerdict('failed', '5.3.0', 'This server crashed three times while composing the email.', {
  stage: 'compose',
})

/** An email that was being processed at two ends: the keys of its deliveries on one lane. */
export type SuspectKeys = readonly number[]

const suspected = raw<{ keys: string }>(
  `select json_group_array(key) as keys from deliveries where status = 'active' and attempts - ${ENDED} >= ${MOST_ENDS}
   group by email_key, lane order by random()`,
)

/**
 * Call it at start, before claimed email is released. Fails the email that ended the process alone. Returns the
 * suspects.
 */
export async function findSuspects({ clock, config, log, sources, store }: AloneDeps): Promise<SuspectKeys[]> {
  const marked = store.all(
    db.selectFrom('deliveries').selectAll().where('status', '=', 'active').where('leased_until', '=', ALONE),
  )
  if (marked.length > 0)
    await store.write((tx) => {
      for (const delivery of marked) {
        const email = tx.first(emailOf({ key: delivery.email_key }))
        if (email) sourceFor(sources, email).settle(tx, { delivery, email, verdict: FAILED, now: clock.now(), config })
      }
    })
  for (const { email_key } of marked)
    log.error('email_crashed_process', { id: emailId(store, email_key), error: FAILED.text })
  return store.all(suspected).map(({ keys }) => JSON.parse(keys) as number[])
}

/** Composes these emails alone, one after the other, and takes them out of the list. No other email may be claimed. */
export async function composeSuspects(deps: AloneDeps, suspects: SuspectKeys[], stops: () => boolean): Promise<void> {
  const ends = deps.clock.now() + PATIENCE
  for (let keys = suspects.pop(); keys; keys = suspects.pop())
    if (deps.clock.now() < ends && !stops()) await composeAlone(deps, keys)
}

/** Composes an email once, with the mark on the disk, without sending it. */
async function composeAlone(deps: AloneDeps, keys: SuspectKeys): Promise<void> {
  const { clock, log, store, workers } = deps
  const deliveries = await store.write((tx) =>
    takeAll<Delivery>(tx, deliveryMachine, 'claim', {
      set: `leased_until = ${ALONE}, next_attempt_at = null`,
      where: 'key in (select value from json_each(?))',
      parameters: [JSON.stringify(keys)],
    }),
  )
  const [first] = deliveries
  const letter = first && letterOf(deps, first, deliveries)
  if (letter && !isVerdict(letter)) {
    log.warn('email_composed_alone', { id: emailId(store, first.email_key) })
    // An error that ends the thread here recurs in the usual attempt, which reports it.
    await workers.compose(letter).catch(() => undefined)
  }
  await store.write((tx) => lapse(tx, `leased_until = ${ALONE}`, clock.now()))
}

/** The job to compose an email from, or undefined if it is not to be sent. */
function letterOf(
  deps: AloneDeps,
  first: Delivery,
  deliveries: readonly Delivery[],
): ReturnType<typeof letterFor> | undefined {
  const { sources, store } = deps
  const mail = mailWith(store, first.email_key, deliveries)
  if (!mail) return undefined
  const work: MailTransaction = {
    ...mail,
    lane: first.lane,
    source: sourceFor(sources, mail.email),
    known: { generation: -1, stops: [], removals: -1 },
    signingKey: signingKeyOf(store, first.domain_key),
  }
  const wanted = work.source.look(work)
  return isWithdrawal(wanted) ? undefined : letterFor(deps, work, wanted.job)
}

const emailId = (store: Store, key: number): string | undefined =>
  store.first<{ id: string }>(raw('select id from outbound_emails where key = ?', [key]))?.id
