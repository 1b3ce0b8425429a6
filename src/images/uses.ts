// Which campaigns use an image: those whose HTML contains its URL. A campaign that was sent uses it permanently, even
// after it was deleted, because its emails still load the image.
import { IMAGES_PATH } from '../message/html-tokens.ts'
import type { Reader, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

const NAMED = new RegExp(`${IMAGES_PATH}/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\\.`, 'g')

/** The ids of images of any account whose URLs are in the HTML. */
export const namedIn = (html: string): Set<string> => new Set(Array.from(html.matchAll(NAMED), ([, id = '']) => id))

/** Records the images in the HTML of a campaign, and removes the previous ones. */
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

/** SQL for the campaigns that use an image: all except deleted drafts. */
const KEEPS = 'from image_uses u join campaigns c on c.key = u.campaign_key'
const COUNTS = 'not (c.deleted_at is not null and c.started_at is null)'

/** SQL condition for images that are the logo of the brand. */
const IS_LOGO = `exists (select 1 from brands b where b.user_key = images.user_key and instr(b.logo, '/' || images.id || '.') > 0)`

/** SQL condition for images that a campaign or the brand uses. */
export const IS_USED = `(${IS_LOGO} or exists (select 1 ${KEEPS} where u.image_key = images.key and ${COUNTS}))`

export const isLogo = (reader: Reader, imageKey: number): boolean =>
  reader.first(raw(`select 1 from images where key = ? and ${IS_LOGO}`, [imageKey])) !== undefined

export interface ImageUse {
  id: string
  name: string
  status: string
  /** Whether the campaign was deleted. The emails that it sent still use the image. */
  removed: boolean
}

/** Returns the number of campaigns that use an image, and the newest of them. */
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
