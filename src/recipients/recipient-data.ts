// What an account stores about a recipient, for the recipient's own page: subscriptions, details, consents and numbers.
import type { Keyring } from '../base/keyring.ts'
import { jsonOf, isObject } from '../base/json.ts'
import { consentsOf, GRANTED, type Consent } from '../campaigns/consents.ts'
import type { Contact } from '../campaigns/contacts.ts'
import { isOneOf } from '../base/one-of.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { about } from '../store/erasing.ts'
import type { DataHolder } from './data-link.ts'

export interface RecipientData {
  subscriptions: { title: string | null; status: Contact['status']; since: number; language: string | null }[]
  /** Names with their values, as the account entered them. */
  details: (readonly [name: string, value: string])[]
  consents: Consent[]
  numbers: Record<'emails' | 'opens' | 'clicks' | 'bounces', number>
}

export function dataOf(
  { keyring, store }: { keyring: Keyring; store: Reader },
  { domain, email }: DataHolder,
): RecipientData {
  const contacts = store.all(
    db
      .selectFrom('contacts')
      .innerJoin('audiences', 'audiences.key', 'contacts.audience_key')
      .selectAll('contacts')
      .select('audiences.title')
      .where('contacts.user_key', '=', domain.user_key)
      .where('contacts.email', '=', email)
      .where('audiences.deleted_at', 'is', null)
      .orderBy('contacts.key'),
  )
  const details = contacts.flatMap(({ custom_fields, name, preferences }) => [
    ...(name === null ? [] : [['', name] as const]),
    ...membersOf(custom_fields),
    ...membersOf(preferences),
  ])
  return {
    subscriptions: contacts.map(({ language, status, status_at, subscribed_at, title }) => ({
      title,
      status,
      since: (status === 'subscribed' ? subscribed_at : null) ?? status_at,
      language,
    })),
    details: [...new Map(details.map((each) => [each.join('\n'), each])).values()],
    consents: consentsOf(store, keyring, domain.user_key, email).filter(({ state }) => isOneOf(GRANTED, state)),
    numbers: numbersOf(store, domain.user_key, email),
  }
}

/** The members of a JSON object as texts. */
function membersOf(json: string | null): (readonly [string, string])[] {
  const value = json === null ? undefined : jsonOf(json)
  if (!isObject(value)) return []
  return Object.entries(value).map(([name, each]) => [name, typeof each === 'string' ? each : JSON.stringify(each)])
}

const numbersOf = (reader: Reader, userKey: number, email: string): RecipientData['numbers'] =>
  reader.one(
    about(
      `select count(*) as emails, count(e.first_opened_at) as opens, count(e.first_clicked_at) as clicks,
         count(iif(d.status = 'bounced', 1, null)) as bounces
       from deliveries d join outbound_emails e on e.key = d.email_key
       where lower(d.address) = asked.address and e.user_key = asked.user`,
      userKey,
      email,
    ),
  )
