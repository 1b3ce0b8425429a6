// What merge tags can say: the fields of an audience's contacts, and how many have a value (D147).
import { parentOf } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION, words } from '../jsonapi/fields.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { audiences } from './api-audiences.ts'

/** The newest contacts that are looked at, and the most fields that are told. */
const MOST_CONTACTS = 5000
const MOST_FIELDS = 200

interface FieldCount {
  name: string
  contacts: number
}

/** The newest subscribed contacts: the others get no campaign. */
const NEWEST = `select name, custom_fields from contacts
  where audience_key = ? and status = 'subscribed' order by key desc limit ${MOST_CONTACTS}`

function fieldsWithValues(reader: Reader, audience: number): { asked: number; fields: FieldCount[] } {
  const [all] = reader.all(
    raw<{ asked: number; named: number }>(
      `select count(*) as asked, count(nullif(name, '')) as named from (${NEWEST})`,
      [audience],
    ),
  )
  const own = reader.all(
    raw<FieldCount>(
      `select j.key as name, count(*) as contacts from (${NEWEST}) c, json_each(c.custom_fields) j
       where c.custom_fields is not null and j.type in ('text', 'integer', 'real', 'true', 'false') and j.value <> ''
       group by j.key order by contacts desc, name limit ${MOST_FIELDS}`,
      [audience],
    ),
  )
  const { asked, named } = all ?? { asked: 0, named: 0 }
  return { asked, fields: [{ name: 'name', contacts: named }, ...own.filter(({ name }) => name !== 'name')] }
}

export const audienceFields = define('audience-fields', {
  table: 'audiences',
  about: `Fields of an audience’s contacts, each a merge tag. ${EXTENSION}`,
  attributes: {
    name: words('The name of the field, and of its merge tag.'),
    contacts: count('How many of these contacts have a value.'),
    asked: count(`How many contacts were looked at: the newest subscribed ones, at most ${MOST_CONTACTS}.`),
  },
  actions: [
    {
      kind: 'view',
      path: '/audiences/:audience/fields',
      within: { type: 'audiences', column: 'audience_key' },
      params: ['page'],
      id: 'listAudienceFields',
      scope: 'contacts:read',
      about: `The fields that merge tags of a campaign to this audience can have, the commonest first. ${EXTENSION}`,
      run(call) {
        const { asked, fields } = fieldsWithValues(call.parts.store, parentOf(audiences, call).key)
        return fields.map((each, at) => ({ key: at + 1, id: `field-${at + 1}`, ...each, asked }))
      },
    },
  ],
})
