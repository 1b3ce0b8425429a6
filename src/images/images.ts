// The pictures of an account: taken in, kept once each, and removed. The file is on the disk before its row names it,
// and the row is committed before anybody is answered; what a crash leaves without a row goes into quarantine.
import { hash as digestOf } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { forLine } from '../base/clean-text.ts'
import type { Config } from '../base/config.ts'
import { codeOf, refuse, refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import { BadPicture } from './octets.ts'
import { readPicture, TYPES } from './read.ts'
import { IMAGES_PATH, usesOf } from './uses.ts'

export type StoredImage = RowOf<'images'>

export interface ImageDeps {
  store: Store
  spool: Spool
  clock: Clock
  config: Pick<Config, 'images'>
}

/** The most pictures of an account, however small they are. */
const MOST = 10_000
/** The campaigns that a refusal names. */
const MOST_NAMED = 3
const MB = 1024 * 1024

const megabytes = (octets: number): string => `${(octets / MB).toFixed(1).replace(/\.0$/, '')} MB`

/** The address of a picture, as mail names it. */
export const addressOf = (publicUrl: string, { content_type, id }: Pick<StoredImage, 'id' | 'content_type'>): string =>
  `${publicUrl}${IMAGES_PATH}/${id}.${TYPES[content_type]}`

/** Reads a picture. Throws 422 when it is none that is taken. */
function judge({ config }: ImageDeps, bytes: Buffer): ReturnType<typeof readPicture> {
  const { max_bytes: most } = config.images
  if (bytes.length > most)
    throw refuseAttribute(
      'too_long',
      'content',
      `The picture has ${megabytes(bytes.length)}; at most ${megabytes(most)} are taken. Make it smaller: mail needs no more than about 1200 pixels in width.`,
    )
  try {
    return readPicture(bytes)
  } catch (thrown) {
    if (thrown instanceof BadPicture) throw refuseAttribute('invalid', 'content', `The picture ${thrown.message}.`)
    throw thrown
  }
}

const sameOf = statement<{ user: number; hash: Uint8Array }>()((arg) =>
  db.selectFrom('images').selectAll().where('user_key', '=', arg.user).where('hash', '=', arg.hash),
)

/** Throws 422 when an account has no room for a picture. */
function refuseBeyondQuota(reader: Reader, { config }: ImageDeps, userKey: number, size: number): void {
  const { count, octets } = reader.one(
    raw<{ count: number; octets: number }>(
      'select count(*) as count, coalesce(sum(size), 0) as octets from images where user_key = ?',
      [userKey],
    ),
  )
  const { account_bytes: quota } = config.images
  if (octets + size > quota)
    throw refuse(
      'quota_exceeded',
      `The pictures of this account have ${megabytes(octets)} of ${megabytes(quota)}: delete some that nothing uses.`,
    )
  if (count >= MOST) throw refuse('quota_exceeded', `An account has at most ${MOST} pictures: delete some.`)
}

/**
 * Stores a picture; the same octets again are the picture that is there. Throws 422 when it is none that is taken, or
 * the account has no room for it.
 */
export async function addImage(
  deps: ImageDeps,
  userKey: number,
  { bytes, name }: { bytes: Buffer; name: string },
): Promise<StoredImage> {
  const { height, octets, type, width } = judge(deps, bytes)
  const { clock, spool, store } = deps
  const hash = digestOf('sha256', octets, 'buffer')
  const known = store.first(sameOf({ user: userKey, hash }))
  if (known) return known
  refuseBeyondQuota(store, deps, userKey, octets.length)
  const now = clock.now()
  const id = newId(now)
  const file = await spool.put(id, octets)
  const insert = (tx: Tx): StoredImage => {
    const same = tx.first(sameOf({ user: userKey, hash }))
    if (same) return same
    refuseBeyondQuota(tx, deps, userKey, octets.length)
    const values = { id, user_key: userKey, name, content_type: type, width, height, size: octets.length, hash }
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
    // A commit whose sync failed may exist after a restart, and then needs the file; else it goes into quarantine.
    if (!codeOf(thrown).startsWith('SQLITE_IOERR')) await spool.remove(file)
    throw thrown
  }
}

/** Removes a picture. Throws 422 when a campaign uses it, unless it is removed all the same. */
export async function removeImage(
  deps: Pick<ImageDeps, 'spool' | 'store'>,
  { key }: Pick<StoredImage, 'key'>,
  allTheSame: boolean,
): Promise<void> {
  await deps.store.write((tx) => {
    const { count, newest } = usesOf(tx, key, MOST_NAMED)
    if (count > 0 && !allTheSame) throw refuse('in_use', inUse(count, newest))
    tx.run(db.deleteFrom('images').where('key', '=', key))
  })
  await removeGone(deps)
}

/** Removes the files of pictures that are gone. */
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
  return `${names}${more} ${count === 1 ? 'uses' : 'use'} this picture: mail that was sent would show a gap. To remove it all the same, send DELETE to its address with /forced.`
}

const byId = statement<{ id: string }>()((arg) =>
  db.selectFrom('images').select(['id', 'name', 'content_type', 'size', 'spool']).where('id', '=', arg.id),
)

/** A picture by its public id, whoever's it is. */
export const imageById = (reader: Reader, id: string) => reader.first(byId({ id }))

/** Whether a file of the spool belongs to a picture; its name begins with the picture's id. */
export const ownsFile = (reader: Reader, name: string): boolean => imageById(reader, name.slice(0, 36))?.spool === name
