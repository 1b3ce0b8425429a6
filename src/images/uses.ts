// Which campaigns use a picture: those whose HTML names its address. A campaign that was sent uses it for ever, also
// after it was removed: the mail that went out still loads it.
import type { Reader, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** The path of pictures, below the public address. */
export const IMAGES_PATH = '/images'
const NAMED = new RegExp(`${IMAGES_PATH}/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\\.`, 'g')

/** The ids of pictures whose addresses stand in HTML, whoever's they are. */
export const namedIn = (html: string): Set<string> => new Set(Array.from(html.matchAll(NAMED), ([, id = '']) => id))

/** Notes the pictures that a campaign's HTML names, in place of those that it named before. */
export function noteUses(tx: Tx, campaign: { key: number; user_key: number }, html: string): void {
  const ids = namedIn(html)
  tx.run(raw('delete from image_uses where campaign_key = ?', [campaign.key]))
  if (ids.size === 0) return
  tx.run(
    raw(
      `insert into image_uses (image_key, campaign_key)
       select i.key, ? from json_each(?) j join images i on i.id = j.value where i.user_key = ?`,
      [campaign.key, JSON.stringify([...ids]), campaign.user_key],
    ),
  )
}

/** SQL for what keeps a picture: every campaign but a draft that was removed. */
const KEEPS = 'from image_uses u join campaigns c on c.key = u.campaign_key'
const COUNTS = 'not (c.deleted_at is not null and c.started_at is null)'

/** SQL that holds for pictures that a campaign uses. */
export const IS_USED = `exists (select 1 ${KEEPS} where u.image_key = images.key and ${COUNTS})`

export interface ImageUse {
  id: string
  name: string
  status: string
  /** The campaign was removed; the mail that it has sent is not. */
  removed: boolean
}

/** How many campaigns use a picture, and the newest of them. */
export function usesOf(reader: Reader, imageKey: number, most: number): { count: number; newest: ImageUse[] } {
  const where = `${KEEPS} where u.image_key = ? and ${COUNTS}`
  const { count } = reader.one(raw<{ count: number }>(`select count(*) as count ${where}`, [imageKey]))
  const newest = reader.all(
    raw<Omit<ImageUse, 'removed'> & { removed: 0 | 1 }>(
      `select c.id, c.name, c.status, c.deleted_at is not null as removed ${where} order by c.key desc limit ?`,
      [imageKey, most],
    ),
  )
  return { count, newest: newest.map((each) => ({ ...each, removed: each.removed === 1 })) }
}
