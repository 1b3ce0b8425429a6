// The fields of an audience's contacts and forms for merge tags, and how many contacts have a value (D147).
import { parentOf } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { count, words } from '../jsonapi/fields.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { audiences } from './api-audiences.ts'

/** How many of the newest contacts are sampled, and the maximum number of returned fields. */
export const MOST_CONTACTS = 5000
const MOST_FIELDS = 200

interface FieldCount {
  name: string
  contacts: number
}

/** The newest subscribed contacts: the others get no campaign. */
const NEWEST = `select name, custom_fields from contacts
  where audience_key = ? and status = 'subscribed' order by key desc limit ${MOST_CONTACTS}`

function fieldsWithValues(reader: Reader, audience: number): { sampled: number; fields: FieldCount[] } {
  const [all] = reader.all(
    raw<{ sampled: number; named: number }>(
      `select count(*) as sampled, count(nullif(name, '')) as named from (${NEWEST})`,
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
  const asked = reader.all(
    raw<FieldCount>(
      `select distinct json_extract(j.value, '$.key') as name, 0 as contacts from forms f, json_each(f.fields) j
       where f.audience_key = ? and f.deleted_at is null order by name`,
      [audience],
    ),
  )
  const { sampled, named } = all ?? { sampled: 0, named: 0 }
  const fields = [{ name: 'name', contacts: named }, ...own, ...asked]
  return { sampled, fields: fields.filter(({ name }, at) => fields.findIndex((each) => each.name === name) === at) }
}

export const audienceFields = define('audience-fields', {
  table: 'audiences',
  scope: 'contacts',
  about: 'Custom fields of the contacts in an audience, and of its forms. Each is available as a merge tag.',
  extension: true,
  attributes: {
    name: words('Name of the field and of its merge tag.'),
    contacts: count('Number of contacts in the sample that have a value for this field.'),
    sampled: count(`Number of contacts in the sample: the newest subscribed contacts, at most ${MOST_CONTACTS}.`),
  },
  actions: [
    {
      kind: 'view',
      path: '/audiences/:audience/fields',
      within: { type: 'audiences', column: 'audience_key' },
      params: ['page'],
      id: 'listAudienceFields',
      about:
        'List the custom fields of an audience, most frequent first. This includes fields of its forms. Campaigns can use them as merge tags.',
      run(call) {
        const { sampled, fields } = fieldsWithValues(call.parts.store, parentOf(audiences, call).key)
        return fields.map((each, at) => ({ key: at + 1, id: `field-${at + 1}`, ...each, sampled }))
      },
    },
  ],
})
