// What the editor says of merge tags: those that contacts of the chosen audience have, and which say nothing for some.
import { count, counted } from '../webui/widgets.ts'
import { number, text, type Thing, type Visit } from '../webui/visit.ts'
import { audienceFields } from './api-fields.ts'
import { bareTags, brokenTags, COMMON } from './render.ts'

export interface Tags {
  /** The names of merge tags, the usual ones first. */
  names: string[]
  /** How many subscribed contacts were looked at, as a sentence; '' without an audience. */
  reach: string
  fields: readonly Thing<typeof audienceFields>[]
}

const NONE: Tags = { names: ['name', 'email', 'unsubscribe_url'], reach: '', fields: [] }

/** The merge tags of an audience. */
export async function tagsOfAudience(visit: Visit, audience: string | undefined): Promise<Tags> {
  if (audience === undefined || audience === '') return NONE
  const fields = await visit.all(audienceFields, `/audiences/${encodeURIComponent(audience)}/fields`, 200)
  const [first] = fields
  const asked = first ? number(first, 'asked') : 0
  return {
    names: [...new Set([...NONE.names, ...fields.map((each) => text(each, 'name'))])],
    reach: asked === 0 ? 'It has no subscribed contact yet.' : `${counted(asked, 'subscribed contact')}.`,
    fields,
  }
}

/** A word in place of a value that a contact lacks. */
const wordFor = (tag: string): string => (tag === 'name' ? 'friend' : 'there')

/** The sentences about a campaign's merge tags; none when every tag says something to everybody. */
export function tagWarnings(
  content: { subject: string; body_html: string; body_text: string | null },
  { fields }: Pick<Tags, 'fields'>,
): string[] {
  const [first] = fields
  const asked = first ? number(first, 'asked') : 0
  const broken = brokenTags(content)
  return [
    ...(broken.length === 0
      ? []
      : [`${broken.slice(0, 3).join(', ')}: this is not a merge tag, and is sent as it is.`]),
    ...bareTags(content).flatMap((tag) => {
      if (asked === 0 || (COMMON.includes(tag) && tag !== 'name')) return []
      const known = fields.find((each) => text(each, 'name') === tag)
      const having = known ? number(known, 'contacts') : 0
      const instead = `{{${tag}|${wordFor(tag)}}}`
      if (having === 0)
        return [`No contact has a value for {{${tag}}}: nothing stands there. ${instead} gives it a text.`]
      return having === asked
        ? []
        : [
            `${count(asked - having)} of ${counted(asked, 'contact')} have no ${tag}: write ${instead} to say something else to them.`,
          ]
    }),
  ].slice(0, 20)
}
