// The editor's merge tags: those that contacts of the chosen audience have, and warnings for tags that some contacts
// lack.
import { counted } from '../views/html/widgets.ts'
import { number, text, type Thing, type Visit } from '../views/html/visit.ts'
import { audienceFields, MOST_CONTACTS } from './api-fields.ts'
import { contentApart } from './content-apart.ts'
import { partOf } from './content-checks.ts'
import { COMMON } from './render.ts'

export interface Tags {
  /** The names of merge tags, the usual ones first. */
  names: string[]
  /** A sentence with the number of sampled contacts, or '' without an audience. */
  reach: string
  fields: readonly Thing<typeof audienceFields>[]
}

const NONE: Tags = { names: ['name', 'email', 'unsubscribe_url'], reach: '', fields: [] }

export async function tagsOfAudience(visit: Visit, audience: string | undefined): Promise<Tags> {
  if (audience === undefined || audience === '') return NONE
  const fields = await visit.all(audienceFields, `/audiences/${encodeURIComponent(audience)}/fields`, 200)
  const [first] = fields
  const asked = first ? number(first, 'sampled') : 0
  return {
    names: [...new Set([...NONE.names, ...fields.map((each) => text(each, 'name'))])],
    reach: asked === 0 ? 'No subscribed contacts yet.' : `${counted(asked, 'subscribed contact')}.`,
    fields,
  }
}

/** The suggested fallback for a missing value. */
const wordFor = (tag: string): string => (tag === 'name' ? 'friend' : 'there')

/** The warnings about a campaign's merge tags. Empty if every tag has a value for all sampled contacts. */
export async function tagWarnings(
  content: { subject: string; body_html: string; body_text: string | null },
  { fields }: Pick<Tags, 'fields'>,
): Promise<string[]> {
  const [first] = fields
  const asked = first ? number(first, 'sampled') : 0
  const { bare, broken } = await contentApart('tags', content)
  return [
    ...(broken.length === 0 ? [] : [`Not a merge tag, sent as typed: ${broken.slice(0, 3).join(', ')}`]),
    ...bare.flatMap((tag) => {
      if (asked === 0 || (COMMON.includes(tag) && tag !== 'name')) return []
      const known = fields.find((each) => text(each, 'name') === tag)
      const having = known ? number(known, 'contacts') : 0
      const instead = `{{${tag}|${wordFor(tag)}}}`
      if (having === 0) return [`No contact has a value for {{${tag}}}. Add a fallback: ${instead}`]
      return having === asked
        ? []
        : [`${partOf(asked - having, asked, asked < MOST_CONTACTS)} no ${tag}. Add a fallback: ${instead}`]
    }),
  ].slice(0, 20)
}
