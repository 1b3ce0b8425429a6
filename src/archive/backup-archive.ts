// A backup as a zip file: its contents, and the code that reads and checks it.
import { closeSync, mkdirSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { crc32 } from 'node:zlib'
import yauzl, { type Entry, type ZipFile } from 'yauzl'
import { codeOf, messageOf, OperatorError, failedCall } from '../base/errors.ts'
import { fileFaultOf, whyUnread } from '../base/file-faults.ts'
import { openPlain } from '../base/plain-file.ts'
import { KEY_FILE } from '../base/keyring.ts'
import { bufferCollector } from '../base/native.ts'
import { asCallerAt } from '../base/ownership.ts'
import { proofOf } from '../base/spooled.ts'
import { LEDGER } from '../privacy/ledger.ts'
import { DATABASE } from '../store/open.ts'
import type { Room } from './room.ts'
import { SyncedLot } from './synced-lot.ts'
import type { Transfer } from './transfer.ts'

/** The public keys that `postrider backup key` made. */
export const RECIPIENTS = 'backup.recipients'
export type Archive = ZipFile

/** Files of a backup in addition to the database and the spool. */
export const FILES = [KEY_FILE, 'smtp-certificate.pem', LEDGER, RECIPIENTS]
const SAFE =
  /^(?:postrider\.db|instance\.key|smtp-certificate\.pem|erasures\.ledger|backup\.recipients|spool\/[\w.~-]+)$/

/** The most characters of a name: a file system takes 255 in a folder, and ours are shorter. */
const MOST_NAME = 255

/** The most octets of the small files. */
const MOST_SMALL = 1024 * 1024
const MOST_LEDGER = 256 * 1024 * 1024

const mostOf = (name: string): number =>
  name === DATABASE || name.startsWith('spool/') ? Infinity : name === LEDGER ? MOST_LEDGER : MOST_SMALL

/** What an archive says that it holds: nothing of it was read. */
export interface Contents {
  entries: Entry[]
  /** Octets of all files. */
  octets: number
}

/**
 * What a backup holds, by its own directory, before any of it is unpacked: only files of a backup, each once, the
 * database and the key among them. Throws an OperatorError.
 */
export async function contentsOf(archive: Archive, file: string): Promise<Contents> {
  const refused = (what: string): OperatorError => new OperatorError(`${file} is not a backup of Postrider: ${what}.`)
  const entries: Entry[] = []
  const seen = new Set<string>()
  let octets = 0
  try {
    for await (const entry of entriesOf(archive)) {
      const { fileName: name, uncompressedSize: size } = entry
      if (!SAFE.test(name) || name.length > MOST_NAME || seen.has(name) || /\/\.+$/.test(name))
        throw refused(`it holds "${name.slice(0, 100)}"${seen.has(name) ? ' twice' : ''}`)
      if (size > mostOf(name) || size > (proofOf(name)?.octets ?? Infinity))
        throw refused(`its ${name.slice(0, 100)} would have ${size} octets`)
      seen.add(name)
      entries.push(entry)
      octets += size
    }
  } catch (thrown) {
    throw thrown instanceof OperatorError ? thrown : damaged(file, thrown)
  }
  for (const name of [DATABASE, KEY_FILE]) if (!seen.has(name)) throw refused(`it holds no ${name}`)
  // The database first: it is known by its beginning, and the spool can be large.
  entries.sort((one, other) => Number(other.fileName === DATABASE) - Number(one.fileName === DATABASE))
  return { entries, octets }
}

const damaged = (file: string, thrown: unknown): OperatorError =>
  new OperatorError(
    `${file} is damaged or no backup of Postrider (${codeOf(thrown) || said(thrown)}); use another backup.`,
  )

interface Unpacked {
  archive: Archive
  /** Names the backup in sentences. */
  shown: string
  room: Room
  transfer: Transfer
}

/**
 * Unpacks a backup into an empty folder. Throws an OperatorError when it is damaged, and when its disk has no room for
 * it.
 */
export async function unpack({ entries }: Contents, { archive, room, shown, transfer }: Unpacked): Promise<void> {
  const { folder } = room
  const collect = bufferCollector()
  try {
    mkdirSync(join(folder, 'spool'), { mode: 0o700 })
    using lot = new SyncedLot()
    for (const entry of entries) {
      const hear = entry.fileName === DATABASE ? demandDatabase(shown, entry.uncompressedSize) : undefined
      const file = await lot.create(join(folder, entry.fileName))
      await pour(archive, entry, writerOf(file), (chunk) => {
        hear?.(chunk)
        transfer.add(chunk.length)
        collect(chunk.length)
      })
    }
    await lot.sync()
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw thrown
    // The folder could not be written; the backup itself may be intact.
    if (failedCall(thrown).path?.startsWith(folder) || isWrite(thrown)) {
      const fault = fileFaultOf(thrown)
      throw new OperatorError(
        `${dirname(folder)} cannot take what is in the backup (${codeOf(thrown)}): ${fault?.what ?? messageOf(thrown)}; ${fault?.fix ?? 'see to its disk'}. Nothing is wrong with ${shown} so far.`,
      )
    }
    throw damaged(shown, thrown)
  } finally {
    transfer.end()
  }
}

/**
 * Hears a database while it is unpacked, and throws at its beginning when it is another file, or larger than its own
 * header says (https://sqlite.org/fileformat2.html, 1.3).
 */
function demandDatabase(shown: string, size: number): (chunk: Buffer) => void {
  let head = Buffer.alloc(0)
  return (chunk) => {
    if (head.length >= HEAD) return
    head = Buffer.concat([head, chunk.subarray(0, HEAD - head.length)])
    if (head.length < Math.min(HEAD, size)) return
    if (head.length < HEAD || head.toString('latin1', 0, MAGIC.length) !== MAGIC)
      throw new OperatorError(`${shown} is not a backup of Postrider: its ${DATABASE} is not a database.`)
    // The size is only valid when the two counters are equal.
    if (head.readUInt32BE(24) !== head.readUInt32BE(92)) return
    const page = head.readUInt16BE(16)
    const promised = (page === 1 ? 65_536 : page) * head.readUInt32BE(28)
    if (promised > 0 && size > promised)
      throw new OperatorError(
        `${shown} is not a backup of Postrider: its ${DATABASE} has ${size} octets, and its own header says ${promised}.`,
      )
  }
}

const HEAD = 100
const MAGIC = 'SQLite format 3\0'

const isWrite = (thrown: unknown): boolean => /^(?:write|fsync)/.test(failedCall(thrown).syscall ?? '')

const said = (thrown: unknown): string => messageOf(thrown).replace(/[.\s]+$/, '')

/** `shown` names it in sentences. */
export function openArchive(file: string, shown = file): Promise<Archive> {
  return new Promise((done, fail) => {
    const refused = (thrown: unknown): void =>
      fail(
        new OperatorError(
          `${shown} cannot be read as a zip file (${whyUnread(thrown) || said(thrown ?? 'empty')}); name a file that a backup of Postrider wrote.`,
        ),
      )
    try {
      const handle = asCallerAt(file, () => openPlain(file, { links: true }))
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

/** A piece is written to the cache of the system at once: to wait for a thread for each takes longer. */
const writerOf =
  (file: number): Sink =>
  async (chunks) => {
    for await (const chunk of chunks)
      for (let rest = chunk; rest.length > 0;) rest = rest.subarray(writeSync(file, rest))
  }

type Sink = (chunks: AsyncIterable<Buffer>) => Promise<void>

/** Gives the octets of an entry to a sink, and holds them against their checksum. */
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
  if (sum !== entry.crc32) throw new Error(`${entry.fileName} is not what was put in`)
}
