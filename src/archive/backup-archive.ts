// Reads, verifies and unpacks the zip file of a backup.
import { closeSync, fsync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'
import yauzl, { type Entry, type ZipFile } from 'yauzl'
import { z } from 'zod'
import { makeDirectory } from '../base/durable.ts'
import { codeOf, messageOf, OperatorError, failedCall } from '../base/errors.ts'
import { fileFaultOf, whyUnread } from '../base/file-faults.ts'
import { jsonOf } from '../base/json.ts'
import { openPlain } from '../base/plain-file.ts'
import { KEY_FILE } from '../base/keyring.ts'
import { bufferCollector } from '../base/native.ts'
import { proofOf } from '../base/spooled.ts'
import { counted } from '../base/text.ts'
import { LEDGER } from '../privacy/ledger.ts'
import { DATABASE } from '../store/open.ts'
import type { Transfer } from './transfer.ts'
import type { UnpackSpace } from './unpack-space.ts'

/** The longest name that file systems accept. */
const MOST_NAME = 255

/** The public keys of `postrider backup key`. */
export const RECIPIENTS = 'backup.recipients'
export type Archive = ZipFile

/** The start of the names of spool files. */
export const SPOOL = 'spool/'
/** The pages in which the database differs from the whole one, as SQLite's write-ahead log. */
export const LOG = `${DATABASE}-wal`
/** The description of a backup in its own object. */
export const CONTENTS = 'contents.json'

const contentsFile = z.object({
  /** The digest of the database with its log applied. */
  database: z.string().regex(/^[0-9a-f]{64}$/),
  /** The other objects of the backup. For each, the files in it that the backup does not contain. */
  objects: z.record(z.string().max(200), z.array(z.string().max(MOST_NAME + SPOOL.length))),
})

export type BackupContents = z.output<typeof contentsFile>

/** Parses `contents.json`. Returns undefined if it is invalid. */
export const parseContents = (text: string): BackupContents | undefined => contentsFile.safeParse(jsonOf(text)).data

/** Files of a backup in addition to the database and the spool. */
export const FILES = [KEY_FILE, 'smtp-certificate.pem', LEDGER, RECIPIENTS]
const SAFE =
  /^(?:postrider\.db(?:-wal)?|contents\.json|instance\.key|smtp-certificate\.pem|erasures\.ledger|backup\.recipients|spool\/[\w.~-]+)$/

/** The largest small file. */
const MOST_SMALL = 1024 * 1024
const MOST_LEDGER = 256 * 1024 * 1024

const mostOf = (name: string): number =>
  name === DATABASE || name === LOG || name.startsWith(SPOOL)
    ? Infinity
    : name === LEDGER || name === CONTENTS
      ? MOST_LEDGER
      : MOST_SMALL

/** The contents of an archive by its directory. */
export interface Contents {
  entries: Entry[]
  /** The total size of the files in bytes. */
  bytes: number
  /** Their size in the archive. */
  packed: number
}

/**
 * The contents of an object of a backup: its own one, or a shared one without the files `left`. Throws an OperatorError
 * if it contains other files than a backup or a file twice, or if the own one lacks the database or the key.
 */
export async function contentsOf(archive: Archive, file: string, left?: readonly string[]): Promise<Contents> {
  const isLeft = new Set(left)
  const entries: Entry[] = []
  const seen = new Set<string>()
  let bytes = 0
  let packed = 0
  try {
    for await (const entry of entriesOf(archive)) {
      const { fileName: name, uncompressedSize: size } = entry
      if (!SAFE.test(name) || name.length > MOST_NAME || seen.has(name) || /\/\.+$/.test(name))
        throw notABackup(file, `it contains "${name.slice(0, 100)}"${seen.has(name) ? ' twice' : ''}`)
      if (size > mostOf(name) || size > (proofOf(name)?.octets ?? Infinity))
        throw notABackup(file, `its ${name.slice(0, 100)} would have ${counted(size, 'byte')}`)
      seen.add(name)
      if (isLeft.has(name)) continue
      entries.push(entry)
      bytes += size
      packed += entry.compressedSize
    }
  } catch (thrown) {
    throw thrown instanceof OperatorError ? thrown : damaged(file, thrown)
  }
  const needed = left ? [] : [KEY_FILE, ...(seen.has(CONTENTS) ? [] : [DATABASE])]
  for (const name of needed) if (!seen.has(name)) throw notABackup(file, `it does not contain ${name}`)
  // The database first, because its first bytes are verified.
  entries.sort((one, other) => Number(other.fileName === DATABASE) - Number(one.fileName === DATABASE))
  // Entries can overlap.
  return { entries, bytes, packed: Math.min(packed, archive.fileSize) }
}

const notABackup = (file: string, what: string): OperatorError =>
  new OperatorError(`${file} is not a Postrider backup (${what}); use another file.`)

const damaged = (file: string, thrown: unknown): OperatorError =>
  new OperatorError(
    `${file} is corrupt or not a Postrider backup (${codeOf(thrown) || causeText(thrown)}); use another backup.`,
  )

interface Unpacked {
  archive: Archive
  /** The name of the backup in messages. */
  shown: string
  space: UnpackSpace
  transfer: Transfer
}

/**
 * Unpacks an object into a folder without its files, durably. Throws an OperatorError if it is corrupt or the disk is
 * full.
 */
export async function unpack({ entries }: Contents, { archive, shown, space, transfer }: Unpacked): Promise<void> {
  const { folder } = space
  const collect = bufferCollector()
  try {
    makeDirectory(join(folder, SPOOL))
    using files = new SyncedFiles()
    for (const entry of entries) {
      const hear = entry.fileName === DATABASE ? demandDatabase(shown, entry.uncompressedSize) : undefined
      const file = await files.create(join(folder, entry.fileName))
      await pour(archive, entry, writerOf(file), (chunk) => {
        hear?.(chunk)
        transfer.add(chunk.length)
        collect(chunk.length)
      })
    }
    await files.sync()
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw thrown
    // The folder could not be written, but the backup itself may be intact.
    if (failedCall(thrown).path?.startsWith(folder) || isWrite(thrown)) {
      const fault = fileFaultOf(thrown)
      throw new OperatorError(
        `The backup cannot be unpacked to ${dirname(folder)} (${codeOf(thrown)}): ${fault?.what ?? messageOf(thrown)}; ${fault?.fix ?? 'check its disk'}. No error was found in ${shown} so far.`,
      )
    }
    throw damaged(shown, thrown)
  } finally {
    transfer.end()
  }
}

/**
 * Verifies the start of a database while it is unpacked. Throws if it is another file, or larger than its header states
 * (https://sqlite.org/fileformat2.html, 1.3).
 */
function demandDatabase(shown: string, size: number): (chunk: Buffer) => void {
  let head = Buffer.alloc(0)
  return (chunk) => {
    if (head.length >= HEAD) return
    head = Buffer.concat([head, chunk.subarray(0, HEAD - head.length)])
    if (head.length < Math.min(HEAD, size)) return
    if (head.length < HEAD || head.toString('latin1', 0, MAGIC.length) !== MAGIC)
      throw new OperatorError(
        `${shown} is not a Postrider backup, because its ${DATABASE} is not a database; use another file.`,
      )
    // The size is only valid when the two counters are equal.
    if (head.readUInt32BE(24) !== head.readUInt32BE(92)) return
    const page = head.readUInt16BE(16)
    const stated = (page === 1 ? 65_536 : page) * head.readUInt32BE(28)
    if (stated > 0 && size > stated)
      throw new OperatorError(
        `${shown} is not a valid backup, because its ${DATABASE} has ${counted(size, 'byte')} instead of the ${stated} in its header; use another file.`,
      )
  }
}

const HEAD = 100
const MAGIC = 'SQLite format 3\0'

const isWrite = (thrown: unknown): boolean => /^(?:write|fsync)/.test(failedCall(thrown).syscall ?? '')

const causeText = (thrown: unknown): string => messageOf(thrown).replace(/[.\s]+$/, '')

/** `shown` is its name in messages. */
export function openArchive(file: string, shown = file): Promise<Archive> {
  return new Promise((done, fail) => {
    const refused = (thrown: unknown): void =>
      fail(
        new OperatorError(
          `${shown} cannot be read as a zip file (${whyUnread(thrown) || causeText(thrown ?? 'empty')}); use a file that "postrider backup" created.`,
        ),
      )
    try {
      const handle = openPlain(file, { links: true })
      yauzl.fromFd(handle, { lazyEntries: true, autoClose: false }, (error, archive) => {
        if (!error && archive) return done(archive)
        closeSync(handle)
        refused(error)
      })
    } catch (thrown) {
      refused(thrown)
    }
  })
}

async function* entriesOf(archive: Archive): AsyncIterable<Entry> {
  for (;;) {
    const entry = await new Promise<Entry | undefined>((done, fail) => {
      archive.once('entry', done)
      archive.once('end', () => done(undefined))
      archive.once('error', fail)
      archive.readEntry()
    })
    archive.removeAllListeners('entry').removeAllListeners('end').removeAllListeners('error')
    if (!entry) return
    yield entry
  }
}

const nowhere: Sink = async (chunks) => {
  for await (const _ of chunks);
}

/** Reads every entry of a zip and checks its checksum. Throws when one differs. */
export async function readThrough(file: string): Promise<void> {
  const archive = await openArchive(file)
  const collect = bufferCollector()
  try {
    for await (const entry of entriesOf(archive)) await pour(archive, entry, nowhere, ({ length }) => collect(length))
  } finally {
    archive.close()
  }
}

/** Writes synchronously, because the page cache is faster than a thread per piece. */
const writerOf =
  (file: number): Sink =>
  async (chunks) => {
    for await (const chunk of chunks)
      for (let rest = chunk; rest.length > 0;) rest = rest.subarray(writeSync(file, rest))
  }

type Sink = (chunks: AsyncIterable<Buffer>) => Promise<void>

/** Pipes an entry to a sink and verifies its checksum. */
async function pour(archive: Archive, entry: Entry, sink: Sink, hear: (chunk: Buffer) => void): Promise<void> {
  const stream = await new Promise<NodeJS.ReadableStream>((done, fail) =>
    archive.openReadStream(entry, (error, opened) =>
      error || !opened ? fail(error ?? new Error('empty')) : done(opened),
    ),
  )
  let sum = 0
  const heard = async function* (chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
    for await (const chunk of chunks) {
      hear(chunk)
      sum = crc32(chunk, sum)
      yield chunk
    }
  }
  await pipeline(stream, heard, sink)
  if (sum !== entry.crc32) throw new Error(`${entry.fileName} differs from what was stored`)
}

/** The most open files, far below the limit of a process. */
const MOST_OPEN = 256

/**
 * New files that are synced together, which is much faster than one by one. Each file is synced by the descriptor that
 * wrote it, so that every write error is seen.
 */
export class SyncedFiles implements Disposable {
  #files: number[] = []

  /** Creates a file, to be written before the next one is created. Throws the errors of earlier files, too. */
  async create(path: string): Promise<number> {
    if (this.#files.length >= MOST_OPEN) await this.sync()
    const file = openSync(path, 'wx', 0o600)
    this.#files.push(file)
    return file
  }

  /** Throws if a file is not durable. */
  async sync(): Promise<void> {
    const synced = promisify(fsync)
    // All are synced before any is closed.
    for (const end of await Promise.allSettled(this.#files.map((file) => synced(file))))
      if (end.status === 'rejected') throw end.reason
    for (const file of this.#files.splice(0)) closeSync(file)
  }

  [Symbol.dispose](): void {
    for (const file of this.#files.splice(0)) {
      try {
        closeSync(file)
      } catch {
        // Another error led here.
      }
    }
  }
}
