// Unpacks a backup into a folder and verifies it, for a restore and for a test of one: whether its database and its key
// are usable, whether its data is consistent, and whether it matches its manifest. Anyone with write access to a
// destination can rename a backup or replace its manifest.
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { HOUR, iso } from '../base/clock.ts'
import { messageOf, OperatorError } from '../base/errors.ts'
import { KEY_FILE, openKeyring, type Keyring } from '../base/keyring.ts'
import { readPlain } from '../base/plain-file.ts'
import { counted } from '../base/text.ts'
import { fingerprintOf, isMark, LEDGER, readContent } from '../privacy/ledger.ts'
import { migrations } from '../store/schema/migrations.ts'
import { countsIn, schemaIn, standAlone, withCopy, writerOfCopy } from '../store/copy.ts'
import { keyFits } from '../store/instance.ts'
import { DATABASE } from '../store/open.ts'
import { foreignSchema } from '../store/integrity.ts'
import { CONTENTS, contentsOf, LOG, parseContents, unpack, type BackupContents } from './backup-archive.ts'
import { readName, tooNew, type Manifest, type SentObject } from './catalog.ts'
import { faultsOfCopy, listed } from './integrity.ts'
import { digestsOf, rootOf } from './pages.ts'
import type { Source, RestoreDeps } from './source.ts'
import { transferOn } from './transfer.ts'
import { demandRatio, demandSpace, type UnpackSpace } from './unpack-space.ts'

export interface UnpackedBackup {
  files: number
  /** The corrupt data, in sentences. Empty without `force`. */
  faults: string[]
}

/** Throws an OperatorError if the backup is incomplete or corrupt, or if the disk is too small. */
export async function unpackBackup(deps: RestoreDeps, source: Source, space: UnpackSpace): Promise<UnpackedBackup> {
  const { manifest, shown } = source
  if (manifest) demandTotal(space, shown, [manifest, ...manifest.objects])
  const own = await unpackObject(deps, source, space)
  const contents = own.includes(CONTENTS) ? contentsIn(space.folder, shown) : undefined
  const files = own.filter((name) => name !== CONTENTS && name !== LOG)
  for (const [name, left] of Object.entries(contents?.objects ?? {}))
    files.push(...(await unpackObject(deps, source, space, { name, left }).catch(leftOut(name, space))))
  if (manifest && files.length !== manifest.files && !space.force)
    throw new OperatorError(
      `${shown} contains ${counted(files.length, 'file')} instead of the ${manifest.files} in its manifest; use another backup.`,
    )
  if (contents) await applyLog(space.folder, shown, contents)
  const faults = await verify(space, shown)
  if (manifest) demandManifest(space.folder, shown, manifest)
  return { files: files.length, faults }
}

/** Throws an OperatorError if the disk has no space for the contents of these objects and the largest zip. */
function demandTotal(space: UnpackSpace, shown: string, objects: readonly SentObject[]): void {
  for (const { name, plain, size } of objects) demandRatio(space, name, size, plain)
  const sizes = objects.map(({ plain }) => plain)
  const total = sizes.reduce((sum, each) => sum + each)
  demandSpace(space, shown, total + Math.max(...sizes))
}

/** An object that backups share, and the files in it that the backup does not contain. */
interface SharedObject {
  name: string
  left: readonly string[]
}

/** Fetches and unpacks a shared object, or the backup's own one. Returns the names of its files. */
async function unpackObject(
  { clock, terminal }: RestoreDeps,
  { manifest, open, shown: backup }: Source,
  space: UnpackSpace,
  shared?: SharedObject,
): Promise<string[]> {
  const archive = await open(space, shared?.name)
  try {
    const shown = shared?.name ?? backup
    const contents = await contentsOf(archive, shown, shared?.left)
    const { entries, bytes, packed } = contents
    const { plain = Infinity } = (shared ? manifest?.objects.find(({ name }) => name === shared.name) : manifest) ?? {}
    if (bytes > plain)
      throw new OperatorError(
        `${shown} contains ${counted(bytes, 'byte')}, more than the ${plain} in its manifest; use another backup.`,
      )
    demandRatio(space, shown, packed, bytes)
    demandSpace(space, shown, bytes)
    await unpack(contents, { archive, shown, space, transfer: transferOn(terminal, clock, bytes, 'unpacked') })
    return entries.map(({ fileName }) => fileName)
  } finally {
    archive.close()
  }
}

/** Handles an object that cannot be read: with `force`, its spool files are left out. */
const leftOut =
  (name: string, { force }: UnpackSpace) =>
  (thrown: unknown): string[] => {
    if (!(thrown instanceof OperatorError) || readName(name)?.shared !== 'files') throw thrown
    if (force) return []
    throw new OperatorError(
      `${thrown.message.replace(/\.$/, '')}, or add --force to restore without the spool files in ${name}.`,
    )
  }

function contentsIn(folder: string, shown: string): BackupContents {
  const file = join(folder, CONTENTS)
  const contents = parseContents(readPlain(file).toString())
  rmSync(file)
  if (contents) return contents
  throw new OperatorError(`${shown} is corrupt (its ${CONTENTS} is invalid); use another backup.`)
}

/** Applies the pages that changed since the whole database. Throws an OperatorError if the result is another one. */
async function applyLog(folder: string, shown: string, { database }: BackupContents): Promise<void> {
  const file = join(folder, DATABASE)
  try {
    standAlone(file)
    if (rootOf(await digestsOf(file)) === database) return
  } catch (thrown) {
    throw new OperatorError(`${shown} contains a corrupt database (${messageOf(thrown)}); use another backup.`)
  }
  throw new OperatorError(`${shown} contains another database than it states; use another backup.`)
}

/** Returns the corrupt data. Throws an OperatorError if there is any without `force`, or if the backup is unusable. */
async function verify({ folder, force }: UnpackSpace, shown: string): Promise<string[]> {
  demandSchema(join(folder, DATABASE), shown)
  const keyring = keyIn(folder, shown)
  const faults = await faultsOfCopy(folder, keyring).catch((thrown: unknown) => {
    throw new OperatorError(`${shown} contains a corrupt database (${messageOf(thrown)}); use another backup.`)
  })
  if (!(await withCopy(join(folder, DATABASE), async (store) => keyFits(store, keyring))))
    throw new OperatorError(`${shown} contains a key that does not belong to its database; use another backup.`)
  if (faults.length > 0 && !force)
    throw new OperatorError(
      `${shown} contains corrupt data: ${listed(faults)}; use another backup, or add --force to restore it anyway.`,
    )
  for (const name of readdirSync(folder)) if (/-(?:wal|shm)$/.test(name)) rmSync(join(folder, name))
  return faults
}

/**
 * Throws an OperatorError for a newer schema, and even with `force` for a database with parts that Postrider did not
 * create, because it would run them.
 */
function demandSchema(database: string, shown: string): void {
  let schema: number
  let foreign: string[]
  try {
    schema = schemaIn(database).schema
    foreign = schema > migrations.length ? [] : foreignSchema(database)
  } catch {
    // Corrupt: the verification reports it.
    return
  }
  if (schema > migrations.length) throw tooNew(shown, schema)
  if (foreign.length > 0)
    throw new OperatorError(
      `${shown} contains a database that Postrider did not create: ${listed(foreign)}; use another backup.`,
    )
}

function keyIn(folder: string, shown: string): Keyring {
  try {
    return openKeyring(folder)
  } catch (thrown) {
    throw thrown instanceof OperatorError
      ? new OperatorError(`${shown} contains a corrupt ${KEY_FILE}; use another backup.`, { cause: thrown })
      : thrown
  }
}

/** The name of a backup and the mark in its erasure log have a similar time. */
const MOST_APART = HOUR

/** Throws an OperatorError if an unpacked backup differs from its manifest. */
function demandManifest(folder: string, shown: string, manifest: Manifest): void {
  const [has, states] = differenceOf(folder, manifest) ?? []
  if (has !== undefined && states !== undefined)
    throw new OperatorError(`${shown} ${has}, but its manifest states ${states}; use another backup.`)
}

function differenceOf(folder: string, manifest: Manifest): [has: string, states: string] | undefined {
  const { fingerprint, made_at, name, rows, schema, version } = manifest
  const owner = fingerprintOf(openKeyring(folder))
  if (owner !== fingerprint) return [`is from the installation ${owner}`, fingerprint]
  const found = countsIn(join(folder, DATABASE))
  if (found.schema !== schema) return [`has schema ${found.schema}`, String(schema)]
  for (const table of new Set([...Object.keys(found.rows), ...Object.keys(rows)]))
    if (found.rows[table] !== rows[table])
      return [`has ${found.rows[table] ?? 'no'} rows in ${table}`, String(rows[table] ?? 'no such table')]
  const writer = writerOfCopy(join(folder, DATABASE))
  if (writer !== undefined && isNewer(writer, version)) return [`was written by version ${writer}`, version]
  const made = Date.parse(made_at)
  const named = readName(name)?.at ?? made
  if (Math.abs(named - made) > MOST_APART) return [`is named after ${iso(named)}`, `${made_at}`]
  // Each backup starts with a mark in the log.
  const marks = readContent(join(folder, LEDGER)).lines.flatMap((line) =>
    isMark(line) && line.ledger === owner ? [Date.parse(line.at)] : [],
  )
  return marks.length > 0 && marks.every((at) => Math.abs(at - made) > MOST_APART)
    ? [`was made at ${iso(Math.max(...marks))}`, made_at]
    : undefined
}

/** Whether one version is newer than another. False if either is invalid. */
function isNewer(one: string, other: string): boolean {
  const [ones, others] = [one, other].map((version) => version.split(/[.-]/).slice(0, 3).map(Number))
  for (const [at, part] of (ones ?? []).entries()) {
    const than = others?.[at] ?? 0
    if (part !== than) return part > than
  }
  return false
}
