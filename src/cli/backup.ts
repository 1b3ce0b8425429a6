// `postrider backup`, `restore` and `verify`: a consistent copy of the whole data directory in one zip file, made while the server runs;
// put back into an empty place; and a look at whether everything is whole.
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import yauzl, { type Entry, type ZipFile as Archive } from 'yauzl'
import { ZipFile } from 'yazl'
import { codeOf, OperatorError } from '../base/errors.ts'
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
  const place = mkdtempSync(join(dirname(target), `.${basename(target)}-`))
  try {
    await store.copyTo(join(place, DATABASE))
    const zip = new ZipFile()
    let count = 0
    const add = (path: string, name: string): void => {
      zip.addFile(path, name)
      count++
    }
    add(join(place, DATABASE), DATABASE)
    for (const name of FILES) if (existsSync(join(data_dir, name))) add(join(data_dir, name), name)
    const spool = join(data_dir, 'spool')
    for (const name of existsSync(spool) ? readdirSync(spool) : [])
      if (!name.endsWith('.part')) add(join(spool, name), `spool/${name}`)
    zip.end()
    await pipeline(
      zip.outputStream as unknown as NodeJS.ReadableStream,
      createWriteStream(target, { mode: 0o600, flags: 'wx' }),
    )
    return count
  } catch (thrown) {
    rmSync(target, { force: true })
    throw thrown
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

async function putBack(file: string, dataDir: string): Promise<number> {
  if (existsSync(join(dataDir, DATABASE)))
    throw new OperatorError(`${dataDir} holds a database; move it away first, or restore into another data_dir.`)
  mkdirSync(join(dataDir, 'spool'), { recursive: true, mode: 0o700 })
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`A server uses ${dataDir}; stop it first.`)
  const written: string[] = []
  // Erasures that happened since the backup are not forgotten with it.
  const ledger = join(dataDir, LEDGER)
  const known = existsSync(ledger) ? readFileSync(ledger, 'utf8') : ''
  try {
    const archive = await open(file)
    for await (const entry of entriesOf(archive)) {
      if (!SAFE.test(entry.fileName))
        throw new OperatorError(`${file} is no backup of Postrider: it holds ${entry.fileName}.`)
      written.push(join(dataDir, entry.fileName))
      await extract(archive, entry, written.at(-1)!)
    }
    if (!existsSync(join(dataDir, DATABASE)))
      throw new OperatorError(`${file} is no backup of Postrider: it holds no database.`)
    const old = existsSync(ledger) ? readFileSync(ledger, 'utf8') : ''
    const lines = [...new Set([...old.split('\n'), ...known.split('\n')])].filter((line) => line !== '')
    if (lines.length > 0) writeFileSync(ledger, `${lines.join('\n')}\n`, { mode: 0o600 })
    return written.length
  } catch (thrown) {
    // Half a backup is none: the next attempt finds the directory as this one did.
    for (const path of written) rmSync(path, { force: true })
    if (known !== '') writeFileSync(ledger, known, { mode: 0o600 })
    if (thrown instanceof OperatorError || !(thrown instanceof Error) || /^E[A-Z]+$/.test(codeOf(thrown))) throw thrown
    throw new OperatorError(`${file} is damaged or no backup of Postrider (${thrown.message}).`, { cause: thrown })
  } finally {
    release()
  }
}

function open(file: string): Promise<Archive> {
  return new Promise((done, fail) =>
    yauzl.open(file, { lazyEntries: true }, (error, archive) => {
      if (error || !archive)
        fail(new OperatorError(`${file} cannot be read as a zip file (${codeOf(error) || error?.message || 'empty'}).`))
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
  await pipeline(stream, createWriteStream(target, { mode: 0o600 }))
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
