// Domains by their key and by their name.
import { must } from '../base/errors.ts'
import type { Reader } from '../store/database.ts'
import { storedName } from '../message/address.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type Domain = RowOf<'domains'>

/** A domain that is not removed, by its key. */
export function domainByKey(reader: Reader, key: number): Domain | undefined {
  return reader.first(db.selectFrom('domains').selectAll().where('key', '=', key).where('deleted_at', 'is', null))
}

/** A domain that is sure to be there, by its key. */
export const knownDomain = (reader: Reader, key: number): Domain => must(domainByKey(reader, key), 'The domain')

/** A domain by its public id, even when it is removed. */
export const domainById = (reader: Reader, id: string): Domain | undefined =>
  reader.first(db.selectFrom('domains').selectAll().where('id', '=', id))

/** The domains of all users that are not removed. `name` filters by the domain name. */
export function listDomains(reader: Reader, name?: string): (Domain & { email: string })[] {
  const all = db
    .selectFrom('domains')
    .innerJoin('users', 'users.key', 'domains.user_key')
    .selectAll('domains')
    .select('users.email')
    .where('domains.deleted_at', 'is', null)
    .orderBy('domains.key')
  return reader.all(name === undefined ? all : all.where('domains.name', '=', storedName(name)))
}

/** The keys of the domains under a warning. */
export function warnedDomains(reader: Reader): Set<number> {
  const warned = db.selectFrom('domain_reputations').select('domain_key').where('warned_at', 'is not', null)
  return new Set(reader.all(warned).map(({ domain_key }) => domain_key))
}
