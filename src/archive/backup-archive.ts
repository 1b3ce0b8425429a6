// A backup as a zip file: its contents, and the code that reads and checks it.
import { closeSync, createWriteStream, mkdirSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { crc32 } from 'node:zlib'
import yauzl, { type Entry, type ZipFile } from 'yauzl'
import { codeOf, messageOf, OperatorError, failedCall } from '../base/errors.ts'
import { KEY_FILE } from '../base/keyring.ts'
import { asCallerAt } from '../base/ownership.ts'
import { LEDGER } from '../privacy/ledger.ts'
import { DATABASE } from '../store/open.ts'

/** The public keys that `postrider backup key` made. */
export const RECIPIENTS = 'backup.recipients'
export type Archive = ZipFile

/** Files of a backup in addition to the database and the spool. */
export const FILES = [KEY_FILE, 'smtp-certificate.pem', LEDGER, RECIPIENTS]
const SAFE =
  /^(?:postrider\.db|instance\.key|smtp-certificate\.pem|erasures\.ledger|backup\.recipients|spool\/[\w.~-]+)$/

/**
 * Unpacks a backup into an empty folder; returns the number of files. Throws an OperatorError when the file is not a
 * backup.
 */
export async function unpack(archive: Archive, file: string, place: string): Promise<number> {
  mkdirSync(join(place, 'spool'), { mode: 0o700 })
  const seen = new Set<string>()
  try {
    for await (const entry of entriesOf(archive)) {
      if (!SAFE.test(entry.fileName) || seen.has(entry.fileName) || /\/\.+$/.test(entry.fileName))
        throw new OperatorError(`${file} is not a backup of Postrider: it holds "${entry.fileName}".`)
      seen.add(entry.fileName)
      await extract(archive, entry, join(place, entry.fileName))
    }
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw thrown
    // The folder could not be written; the backup itself may be intact.
    if (failedCall(thrown).path?.startsWith(place) || isWrite(thrown))
      throw new OperatorError(
        `${dirname(place)} cannot take what is in the backup (${codeOf(thrown)}); see that its disk has room. Nothing is wrong with ${file} so far.`,
      )
    throw new OperatorError(`${file} is damaged or no backup of Postrider (${codeOf(thrown) || said(thrown)}).`)
  } finally {
    archive.close()
  }
  for (const name of [DATABASE, 'instance.key'])
    if (!seen.has(name)) throw new OperatorError(`${file} is not a backup of Postrider: it holds no ${name}.`)
  return seen.size
}

const isWrite = (thrown: unknown): boolean => /^(?:write|fsync)/.test(failedCall(thrown).syscall ?? '')

const said = (thrown: unknown): string => messageOf(thrown).replace(/[.\s]+$/, '')

export function openArchive(file: string): Promise<Archive> {
  return new Promise((done, fail) => {
    const refused = (thrown: unknown): void =>
      fail(new OperatorError(`${file} cannot be read as a zip file (${codeOf(thrown) || said(thrown ?? 'empty')}).`))
    try {
      const handle = asCallerAt(file, () => openSync(file, 'r'))
      yauzl.fromFd(handle, { lazyEntries: true, autoClose: true }, (error, archive) => {
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

/** Reads every entry of a zip and checks its checksum. Throws when one differs. */
export async function readThrough(file: string): Promise<void> {
  const archive = await openArchive(file)
  try {
    for await (const entry of entriesOf(archive))
      await pour(archive, entry, () => new Writable({ write: (_chunk, _encoding, done) => done() }))
  } finally {
    archive.close()
  }
}

const extract = (archive: Archive, entry: Entry, target: string): Promise<void> =>
  pour(archive, entry, () => createWriteStream(target, { mode: 0o600, flags: 'wx', flush: true }))

/** `target` is called after the entry has been opened, so that the errors of its stream are handled. */
async function pour(archive: Archive, entry: Entry, target: () => NodeJS.WritableStream): Promise<void> {
  const stream = await new Promise<NodeJS.ReadableStream>((done, fail) =>
    archive.openReadStream(entry, (error, opened) =>
      error || !opened ? fail(error ?? new Error('empty')) : done(opened),
    ),
  )
  let sum = 0
  stream.on('data', (chunk: Buffer) => (sum = crc32(chunk, sum)))
  await pipeline(stream, target())
  if (sum !== entry.crc32) throw new Error(`${entry.fileName} is not what was put in`)
}
