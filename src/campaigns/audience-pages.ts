// Reads the contacts of an audience page by page, each with its standing. A suppression of the domain counts more than
// the status: an exported list must not call a person "subscribed" to whom no mail may be sent.
import { db, raw } from '../store/query.ts'
import type { Reader } from '../store/database.ts'
import type { Audience } from './audiences.ts'
import type { Contact } from './contacts.ts'
import { graver, type Standing } from './import-with-status.ts'

const PAGE = 500

export type AudienceContact = Pick<Contact, 'key' | 'email' | 'name' | 'status' | 'custom_fields' | 'preferences'> & {
  /**
   * Suppressed by hand or by an import, without an end: 2 for all mail, 1 for campaigns; 0: neither.
   * Other reasons show in `status`.
   */
  kept_away: 0 | 1 | 2
}

export function contactsAfter(reader: Reader, { domain_key, key }: Audience, after: number): AudienceContact[] {
  return reader.all(
    db
      .selectFrom('contacts as c')
      .select(['c.key', 'c.email', 'c.name', 'c.status', 'c.custom_fields', 'c.preferences'])
      .select((eb) =>
        eb
          .selectFrom('suppressions as s')
          .select((inner) =>
            inner.fn
              .coalesce(inner.fn.max(inner.case().when('s.scope', '=', 'all').then(2).else(1).end()), inner.lit(0))
              .as('kept'),
          )
          .whereRef('s.email', '=', 'c.email')
          .where('s.domain_key', '=', domain_key)
          .where('s.reason', 'in', ['manual', 'list_import'])
          .where('s.expires_at', 'is', null)
          .as('kept_away'),
      )
      .where('c.audience_key', '=', key)
      .where('c.key', '>', after)
      .orderBy('c.key')
      .limit(PAGE),
  ) as AudienceContact[]
}

export function standing({ kept_away, status }: AudienceContact): Standing {
  const kept: Standing = kept_away === 2 ? 'blocked' : kept_away === 1 ? 'unsubscribed' : 'subscribed'
  return graver(status, kept)
}

/** Names of custom fields with text values, in alphabetical order; at most `most`. */
export function fieldsOf(reader: Reader, audienceKey: number, most: number): string[] {
  const found = raw<{ key: string }>(
    `select distinct j.key as key from contacts c, json_each(c.custom_fields) j
     where c.audience_key = ? and c.custom_fields is not null and j.type = 'text' order by j.key limit ?`,
    [audienceKey, most],
  )
  return reader.all(found).map(({ key }) => key)
}
