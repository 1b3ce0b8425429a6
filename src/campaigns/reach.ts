// How many contacts of an audience get a campaign, and how many do not and why, before it starts. It goes through the
// contacts as the runner does (walk.ts), a few thousand at a time, so that a list of a million delays nothing else.
// The result is kept until a contact or a suppression changes.
import type { Keyring } from '../base/keyring.ts'
import { count } from '../base/maps.ts'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import { LEFT_OUT, lastContact, nextContacts, type LeftOut, type WalkOf } from './walk.ts'

export type Reach = Record<LeftOut, number> & {
  contacts: number
  /** The recipients. */
  gets: number
  /** The first contacts that are subscribed and suppressed, by their keys. */
  suppressed_contacts: number[]
  /** The recipients by their domains. */
  domains: Map<string, number>
}

interface KeptReach {
  /** The state of the tables from which it was counted. */
  from: string
  at: number
  counted: Promise<Reach>
  /** While it is being counted, others wait for the same result. */
  running: boolean
}

/** Contacts that are read at once, before other work can run. */
const AT_ONCE = 5000
/** The most suppressed contacts that are named. */
const MAX_NAMED = 1000
/** The most audiences whose counts are kept. */
const MAX_KEPT = 100
/** How long a count is kept: a suppression may have expired. */
const KEPT = MINUTE

const kept = new WeakMap<Reader, Map<number, KeptReach>>()

interface ReachDeps {
  store: Reader
  clock: Clock
  keyring: Keyring
}

/** Whom a campaign to this audience would reach, if it started now. */
export async function reachOf(
  { clock, keyring, store }: ReachDeps,
  { audience_key, domain_key }: Pick<WalkOf, 'audience_key' | 'domain_key'>,
): Promise<Reach> {
  const known = kept.get(store) ?? new Map<number, KeptReach>()
  kept.set(store, known)
  const now = clock.now()
  const from = ['contacts', 'suppressions'].map((table) => store.generation(table as 'contacts', 'changed')).join(' ')
  const last = known.get(audience_key)
  if (last && (last.running || (last.from === from && now - last.at < KEPT))) return last.counted
  if (known.size >= MAX_KEPT) known.clear()
  const walk = { audience_key, domain_key, started_at: now, last_contact: lastContact(store, audience_key) }
  const entry = { from, at: now, counted: countReach(store, keyring, walk), running: true }
  known.set(audience_key, entry)
  try {
    return await entry.counted
  } catch (thrown) {
    known.delete(audience_key)
    throw thrown
  } finally {
    entry.running = false
  }
}

/** Counts the recipients of a walk; other work can run meanwhile. */
export async function countReach(reader: Reader, keyring: Keyring, walk: WalkOf): Promise<Reach> {
  const none = Object.fromEntries(LEFT_OUT.map((reason) => [reason, 0])) as Record<LeftOut, number>
  const reach: Reach = { ...none, contacts: 0, gets: 0, suppressed_contacts: [], domains: new Map() }
  for (let from = 0; ;) {
    const rows = nextContacts(reader, keyring, walk, { from, limit: AT_ONCE })
    for (const { email, key, left_out } of rows) {
      reach.contacts++
      if (left_out === null) {
        reach.gets++
        count(reach.domains, email.slice(email.lastIndexOf('@') + 1), 1)
      } else reach[left_out]++
      if (left_out === 'suppressed' && reach.suppressed_contacts.length < MAX_NAMED) reach.suppressed_contacts.push(key)
    }
    if (rows.length < AT_ONCE) return reach
    from = rows.at(-1)?.key ?? from
    await new Promise((resolve) => void setImmediate(resolve))
  }
}
