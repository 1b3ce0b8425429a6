// Stores and deletes the images of an account. The file is on disk before its row exists, and the row is committed
// before the response. A file that a crash left without a row is quarantined at the next start.
import { hash as digestOf } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { forLine } from '../base/clean-text.ts'
import type { Config } from '../base/config.ts'
import { codeOf, refuse, refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { IMAGES_PATH } from '../message/html-tokens.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import { BadImage } from './bytes.ts'
import { readImage, TYPES } from './read.ts'
import { isLogo, usesOf } from './uses.ts'

export type StoredImage = RowOf<'images'>

export interface ImageDeps {
  store: Store
  spool: Spool
  clock: Clock
  config: Pick<Config, 'images'>
}

/** The maximum number of images of an account. */
const MOST = 10_000
/** The number of campaigns that an error names. */
const MOST_NAMED = 3
const MB = 1024 * 1024

const megabytes = (bytes: number): string => `${(bytes / MB).toFixed(1).replace(/\.0$/, '')} MB`

/** The public URL of an image. */
export const addressOf = (publicUrl: string, { content_type, id }: Pick<StoredImage, 'id' | 'content_type'>): string =>
  `${publicUrl}${IMAGES_PATH}/${id}.${TYPES[content_type]}`

/** Reads an image. Throws 422 if it is not acceptable. */
function acceptable({ config }: ImageDeps, bytes: Buffer): ReturnType<typeof readImage> {
  const { max_bytes: most } = config.images
  if (bytes.length > most)
    throw refuseAttribute(
      'too_long',
      'content',
      `The image is ${megabytes(bytes.length)}; the limit is ${megabytes(most)}. Make it smaller: 1200 pixels in width are enough for email.`,
    )
  try {
    return readImage(bytes)
  } catch (thrown) {
    if (thrown instanceof BadImage) throw refuseAttribute('invalid', 'content', `The image ${thrown.message}.`)
    throw thrown
  }
}

const sameOf = statement<{ user: number; hash: Uint8Array }>()((arg) =>
  db.selectFrom('images').selectAll().where('user_key', '=', arg.user).where('hash', '=', arg.hash),
)

/** Throws 422 if an account has no space for an image. */
function refuseBeyondQuota(reader: Reader, { config }: ImageDeps, userKey: number, size: number): void {
  const { count, bytes } = reader.one(
    raw<{ count: number; bytes: number }>(
      'select count(*) as count, coalesce(sum(size), 0) as bytes from images where user_key = ?',
      [userKey],
    ),
  )
  const { account_bytes: quota } = config.images
  if (bytes + size > quota)
    throw refuse(
      'quota_exceeded',
      `The images of this account use ${megabytes(bytes)} of ${megabytes(quota)}. Delete images that no campaign uses.`,
    )
  if (count >= MOST) throw refuse('quota_exceeded', `An account can have at most ${MOST} images. Delete some first.`)
}

/**
 * Stores an image. If the account has the same image, returns that. Throws 422 if the image is not acceptable, or the
 * account has no space for it.
 */
export async function addImage(
  deps: ImageDeps,
  userKey: number,
  { bytes, name }: { bytes: Buffer; name: string },
): Promise<StoredImage> {
  const { height, stored, type, width } = acceptable(deps, bytes)
  const { clock, spool, store } = deps
  const hash = digestOf('sha256', stored, 'buffer')
  const known = store.first(sameOf({ user: userKey, hash }))
  if (known) return known
  refuseBeyondQuota(store, deps, userKey, stored.length)
  const now = clock.now()
  const id = newId(now)
  const file = await spool.put(id, stored)
  const insert = (tx: Tx): StoredImage => {
    const same = tx.first(sameOf({ user: userKey, hash }))
    if (same) return same
    refuseBeyondQuota(tx, deps, userKey, stored.length)
    const values = { id, user_key: userKey, name, content_type: type, width, height, size: stored.length, hash }
    return tx.one(
      db
        .insertInto('images')
        .values({ ...values, spool: file, created_at: now, updated_at: now })
        .returningAll(),
    )
  }
  try {
    const image = await store.write(insert)
    if (image.spool !== file) await spool.remove(file)
    return image
  } catch (thrown) {
    // A commit whose sync failed can exist after a restart, and then needs the file. Otherwise the file is quarantined.
    if (!codeOf(thrown).startsWith('SQLITE_IOERR')) await spool.remove(file)
    throw thrown
  }
}

/** Deletes an image. Throws 422 if a campaign or the brand uses it, unless `force` is set. */
export async function removeImage(
  deps: Pick<ImageDeps, 'spool' | 'store'>,
  { key }: Pick<StoredImage, 'key'>,
  force: boolean,
): Promise<void> {
  await deps.store.write((tx) => {
    const { count, newest } = usesOf(tx, key, MOST_NAMED)
    if (!force && isLogo(tx, key))
      throw refuse(
        'in_use',
        'This image is the logo of your brand. Choose another logo first. To delete it anyway, repeat the request with "?force=true".',
      )
    if (count > 0 && !force) throw refuse('in_use', inUse(count, newest))
    tx.run(db.deleteFrom('images').where('key', '=', key))
  })
  await removeGone(deps)
}

/** Deletes the files of deleted images. */
export async function removeGone({ spool, store }: Pick<ImageDeps, 'spool' | 'store'>): Promise<void> {
  const files = store.all(db.selectFrom('images_gone').select('spool')).map((gone) => gone.spool)
  for (const file of files) await spool.remove(file)
  if (files.length === 0) return
  const removed = 'delete from images_gone where spool in (select value from json_each(?))'
  await store.writeSoon((tx) => tx.run(raw(removed, [JSON.stringify(files)])))
}

function inUse(count: number, newest: readonly { name: string }[]): string {
  const names = newest.map(({ name }) => `“${forLine(name)}”`).join(', ')
  const more = count > newest.length ? ` and ${count - newest.length} more` : ''
  return `${names}${more} ${count === 1 ? 'uses' : 'use'} this image. If you delete it, the image is missing in emails already sent. To delete it anyway, repeat the request with "?force=true".`
}

const byId = statement<{ id: string }>()((arg) =>
  db.selectFrom('images').select(['id', 'name', 'content_type', 'size', 'spool']).where('id', '=', arg.id),
)

/** Returns an image of any account by its public id. */
export const imageById = (reader: Reader, id: string) => reader.first(byId({ id }))

/** Whether a file in the spool belongs to an image. Its name starts with the id of the image. */
export const ownsFile = (reader: Reader, name: string): boolean =>
  imageById(reader, name.slice(0, 36))?.spool === name ||
  // A file that could not be removed yet.
  reader.first(db.selectFrom('images_gone').select('spool').where('spool', '=', name)) !== undefined
