// `postrider backup`, `restore` and `verify`: a consistent copy of the whole data directory in one zip file, made while the server runs;
// put back into an empty place; and a look at whether everything is whole.
import {
  copyFileSync,
  createWriteStream,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { crc32 } from 'node:zlib'
import type { Command } from 'commander'
import yauzl, { type Entry, type ZipFile as Archive } from 'yauzl'
import { ZipFile } from 'yazl'
import { codeOf, messageOf, OperatorError, unwritable } from '../base/errors.ts'
import { LEDGER } from '../privacy/ledger.ts'
import { takeLock } from '../store/lock.ts'
import { db } from '../store/query.ts'
import { filesOf } from '../outbound/body.ts'
import { configOf, withDesk, type Desk, type Invocation } from './open.ts'
import { answer } from './terminal.ts'

const DATABASE = 'postrider.db'
/** What a backup holds beside the database and the spool. */
const FILES = ['instance.key', 'smtp-certificate.pem', LEDGER]
const SAFE = /^(?:postrider\.db|instance\.key|smtp-certificate\.pem|erasures\.ledger|spool\/[\w.-]+)$/

export function backupCommands(program: Command, invocation: () => Invocation): void {
  program
    .command('backup <file>')
    .description('a consistent copy of database, spool and keys in one zip file')
    .action((file: string) =>
      withDesk(invocation(), async (desk) => {
        const target = resolve(file)
        if (existsSync(target)) throw new OperatorError(`${target} exists; choose another file.`)
        const count = await backUp(desk, target)
        answer(
          invocation().terminal,
          { file: target, files: count },
          () => `${count} files are in ${target}. It holds the keys: keep it as safe as the server.`,
        )
      }),
    )
  program
    .command('restore <file>')
    .description('put a backup into the data directory, which must hold no database')
    .action(async (file: string) => {
      const { data_dir } = configOf(invocation())
      const count = await putBack(resolve(file), data_dir)
      answer(
        invocation().terminal,
        { data_dir, files: count },
        () =>
          `${count} files are in ${data_dir}. Start the server: what was erased since the backup is erased again then.`,
      )
    })
  program
    .command('verify')
    .description('check that the database is sound and every file of the spool is there')
    .action(() =>
      withDesk(invocation(), (desk) => {
        const faults = [...desk.store.verify(), ...missingFiles(desk)]
        answer(invocation().terminal, { sound: faults.length === 0, faults }, () =>
          faults.length === 0 ? 'Database and spool are sound.' : faults.join('\n'),
        )
        if (faults.length > 0) process.exitCode = 1
      }),
    )
}

/** Writes the zip; returns how many files it holds. */
async function backUp({ config, store }: Desk, target: string): Promise<number> {
  const { data_dir } = config
  // Beside the target: the copy of the database may be large.
  const place = asideOf(target)
  try {
    const spool = join(data_dir, 'spool')
    const kept = join(place, 'spool')
    mkdirSync(kept, { mode: 0o700 })
    // Before and after the database: a file that it names may go, or have come, while it is copied.
    keepFiles(spool, kept)
    await store.copyTo(join(place, DATABASE))
    keepFiles(spool, kept)
    const zip = new ZipFile()
    const ended = Promise.withResolvers<never>()
    zip.on('error', ended.reject)
    let count = 0
    const add = (path: string, name: string): void => {
      zip.addFile(path, name)
      count++
    }
    add(join(place, DATABASE), DATABASE)
    for (const name of FILES) if (existsSync(join(data_dir, name))) add(join(data_dir, name), name)
    for (const name of readdirSync(kept)) add(join(kept, name), `spool/${name}`)
    zip.end()
    const written = pipeline(
      zip.outputStream as unknown as NodeJS.ReadableStream,
      createWriteStream(target, { mode: 0o600, flags: 'wx' }),
    )
    await Promise.race([written, ended.promise])
    return count
  } catch (thrown) {
    if (codeOf(thrown) !== 'EEXIST') rmSync(target, { force: true })
    throw unwritable(target, thrown)
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/** A folder of our own beside a file to be. Throws an OperatorError. */
function asideOf(target: string): string {
  try {
    return mkdtempSync(join(dirname(target), `.${basename(target)}-`))
  } catch (thrown) {
    throw unwritable(target, thrown)
  }
}

/** Holds on to every file of the spool, by a second name where the disk is the same. */
function keepFiles(spool: string, kept: string): void {
  for (const name of existsSync(spool) ? readdirSync(spool) : []) {
    if (name.endsWith('.part') || existsSync(join(kept, name))) continue
    try {
      linkSync(join(spool, name), join(kept, name))
    } catch (thrown) {
      if (codeOf(thrown) === 'ENOENT') continue
      try {
        copyFileSync(join(spool, name), join(kept, name))
      } catch (failed) {
        // Gone meanwhile: sent, or deleted.
        if (codeOf(failed) !== 'ENOENT') throw failed
      }
    }
  }
}

/** Puts a backup in place whole, or leaves everything as it was. */
async function putBack(file: string, dataDir: string): Promise<number> {
  if (existsSync(join(dataDir, DATABASE)))
    throw new OperatorError(`${dataDir} holds a database; move it away first, or restore into another data_dir.`)
  const archive = await open(file)
  const made = mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  let done = false
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`A server uses ${dataDir}; stop it first.`)
  const place = mkdtempSync(join(dataDir, '.restore-'))
  try {
    const count = await unpack(archive, file, place)
    // Erasures that happened since the backup are not forgotten with it.
    const ledger = join(place, LEDGER)
    const lines = [ledger, join(dataDir, LEDGER)].flatMap((path) =>
      existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [],
    )
    const entries = [...new Set(lines)].filter((line) => line !== '')
    if (entries.length > 0) writeFileSync(ledger, `${entries.join('\n')}\n`, { mode: 0o600 })
    mkdirSync(join(dataDir, 'spool'), { recursive: true, mode: 0o700 })
    for (const name of readdirSync(join(place, 'spool')))
      renameSync(join(place, 'spool', name), join(dataDir, 'spool', name))
    // The database last: with it the restore is done.
    for (const name of [...FILES, DATABASE])
      if (existsSync(join(place, name))) renameSync(join(place, name), join(dataDir, name))
    done = true
    return count
  } finally {
    rmSync(place, { recursive: true, force: true })
    release()
    if (!done && made !== undefined) rmSync(made, { recursive: true, force: true })
  }
}

/** Unpacks a backup into an empty place; returns how many files. Throws an OperatorError for anything that is none. */
async function unpack(archive: Archive, file: string, place: string): Promise<number> {
  mkdirSync(join(place, 'spool'), { mode: 0o700 })
  const seen = new Set<string>()
  try {
    for await (const entry of entriesOf(archive)) {
      if (!SAFE.test(entry.fileName) || seen.has(entry.fileName) || /\/\.+$/.test(entry.fileName))
        throw new OperatorError(`${file} is no backup of Postrider: it holds "${entry.fileName}".`)
      seen.add(entry.fileName)
      await extract(archive, entry, join(place, entry.fileName))
    }
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw thrown
    throw new OperatorError(`${file} is damaged or no backup of Postrider (${codeOf(thrown) || said(thrown)}).`)
  } finally {
    archive.close()
  }
  for (const name of [DATABASE, 'instance.key'])
    if (!seen.has(name)) throw new OperatorError(`${file} is no backup of Postrider: it holds no ${name}.`)
  return seen.size
}

const said = (thrown: unknown): string => messageOf(thrown).replace(/[.\s]+$/, '')

function open(file: string): Promise<Archive> {
  return new Promise((done, fail) =>
    yauzl.open(file, { lazyEntries: true }, (error, archive) => {
      if (error || !archive)
        fail(new OperatorError(`${file} cannot be read as a zip file (${codeOf(error) || said(error ?? 'empty')}).`))
      else done(archive)
    }),
  )
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

async function extract(archive: Archive, entry: Entry, target: string): Promise<void> {
  const stream = await new Promise<NodeJS.ReadableStream>((done, fail) =>
    archive.openReadStream(entry, (error, opened) =>
      error || !opened ? fail(error ?? new Error('empty')) : done(opened),
    ),
  )
  let sum = 0
  stream.on('data', (chunk: Buffer) => (sum = crc32(chunk, sum)))
  await pipeline(stream, createWriteStream(target, { mode: 0o600, flags: 'wx' }))
  if (sum !== entry.crc32) throw new Error(`${entry.fileName} is not what was put in`)
}

/** Rows whose file of the spool is not there. */
function missingFiles({ spool, store }: Desk): string[] {
  const bodies = store.all(db.selectFrom('outbound_bodies').select('spool').where('spool', 'is not', null))
  const messages = store.all(db.selectFrom('inbound_messages').select('spool').where('spool', 'is not', null))
  const named = [...bodies.flatMap((row) => filesOf(row.spool)), ...messages.map((row) => row.spool!)]
  return named
    .filter((name) => !existsSync(spool.path(name)))
    .map((name) => `The file ${name} of the spool is missing.`)
}
