// A subscriber as a link in an email names them: an address, the audience of the email, and the sending domain. It
// works when the contact, the audience and the email are deleted (D45).
import { comparable } from '../base/recipient-hash.ts'
import { leaveAudience, rejoinAudience, setLanguage, type Contact } from '../campaigns/contacts.ts'
import { hasLeft, leave, rejoin, type LeaveDeps, type Leaving } from '../campaigns/unsubscribe.ts'
import { livingDomain } from '../suppressions/suppressions.ts'
import { stopsOf } from '../suppressions/stops.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RecipientLanguage } from './languages.ts'

/** What an unsubscribe link can end: the audience of the email, or all campaigns of the domain. */
export type LeavingScope = 'audience' | 'domain'

export interface Subscriber {
  leaving: Leaving
  /** The address in the form in which contacts have it. */
  email: string
  /** The sending domain, or undefined if it is not known any more. */
  domain: { key: number; name: string; user_key: number } | undefined
  /** The name of the audience for subscribers, or null. */
  title: string | null
  /** The languages that are known. */
  contact: string | null
  audience: string | null
  /** Whether the address unsubscribed from all campaigns of the domain. */
  leftDomain: boolean
  /** Whether the contact unsubscribed from the audience alone. Undefined if it is not in the audience. */
  leftAudience: boolean | undefined
  /** In how many audiences of the domain the address is. */
  audiences: number
  /** Whether the address receives campaigns to the audience of the link, or to any audience of the domain. */
  receives: Record<LeavingScope, boolean>
  /** Whether a suppression that the recipient cannot undo blocks campaigns. */
  isBlocked: boolean
}

export function subscriberOf(deps: LeaveDeps, leaving: Leaving): Subscriber {
  const { clock, keyring, store } = deps
  const email = comparable(leaving.email)
  const domain = store.first(
    db.selectFrom('domains').select(['key', 'name', 'user_key']).where('key', '=', livingDomain(store, leaving.domain)),
  )
  const contacts = contactsOf(store, domainsOf(store, leaving), email)
  const here = contacts.find(({ audience_key }) => audience_key === leaving.audience)
  const [stop] = domain
    ? stopsOf(store, keyring, [{ domain_key: domain.key, address: email }], clock.now(), 'marketing')
    : []
  const reached = domain && !stop ? contacts.filter(({ status }) => status === 'subscribed') : []
  const audience = store.first(
    db.selectFrom('audiences').select(['title', 'language']).where('key', '=', leaving.audience),
  )
  return {
    leaving,
    email,
    domain,
    title: audience?.title ?? null,
    contact: (here ?? contacts[0])?.language ?? null,
    audience: audience?.language ?? null,
    leftDomain: hasLeft(deps, leaving),
    leftAudience: here && here.left_audience === 1,
    audiences: contacts.length,
    receives: { audience: reached.some(({ key }) => key === here?.key), domain: reached.length > 0 },
    isBlocked: stop !== undefined && stop.reason !== 'unsubscribe',
  }
}

/** The sending domain of a link, under its old key and under that of the domain that replaced it. */
const domainsOf = (reader: Reader, { domain }: Leaving): number[] => [domain, livingDomain(reader, domain)]

const contactsOf = (reader: Reader, domains: readonly number[], email: string): Contact[] =>
  reader.all(
    db
      .selectFrom('contacts')
      .innerJoin('audiences', 'audiences.key', 'contacts.audience_key')
      .selectAll('contacts')
      .where('contacts.email', '=', email)
      .where('audiences.domain_key', 'in', domains)
      .where('audiences.deleted_at', 'is', null)
      .orderBy('contacts.key'),
  )

/** Unsubscribes. A contact that is not in the audience any more needs no change. */
export async function unsubscribeFrom(deps: LeaveDeps, leaving: Leaving, scope: LeavingScope): Promise<void> {
  if (scope === 'domain') return void (await leave(deps, leaving))
  const { clock, store } = deps
  await store.write((tx) => {
    const here = inAudience(tx, leaving)
    if (here) leaveAudience(tx, here, clock.now())
  })
}

/** Undoes `unsubscribeFrom` with the same scope. */
export async function subscribeAgain(deps: LeaveDeps, leaving: Leaving, scope: LeavingScope): Promise<void> {
  if (scope === 'domain') return rejoin(deps, leaving)
  const { clock, store } = deps
  await store.write((tx) => {
    const here = inAudience(tx, leaving)
    if (here) rejoinAudience(tx, { domain_key: livingDomain(tx, leaving.domain) }, here, clock.now())
  })
}

const inAudience = (reader: Reader, { audience, email }: Leaving): Contact | undefined =>
  reader.first(
    db.selectFrom('contacts').selectAll().where('audience_key', '=', audience).where('email', '=', comparable(email)),
  )

/** Stores the language that a subscriber chose. */
export const chooseLanguage = (
  { clock, store }: LeaveDeps,
  leaving: Leaving,
  lang: RecipientLanguage,
): Promise<unknown> =>
  store.write((tx) => setLanguage(tx, domainsOf(tx, leaving), comparable(leaving.email), lang, clock.now()))
