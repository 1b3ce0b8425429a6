// The fault layer of a server in this process: below the store, the files, the sockets and the worker threads. It is
// installed when this module is loaded, which must be before any module of src/.
import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import { createRequire } from 'node:module'
import threads, { type Worker } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { layFiles } from './files.ts'
import { Control, type Kind } from './plan.ts'
import { laySockets, Ports } from './sockets.ts'
import { temporaryDirectory } from '../kit/directory.ts'

/** The root of all data directories of this process. */
export const ROOT = temporaryDirectory('faults')

const memory = Control.memory()
export const control = new Control(memory)
export const files = layFiles(control, ROOT)

const portMemory = Ports.memory()
export const ports = new Ports(portMemory)

laySqlite()
laySockets(control, ports)
layThreads()
syncBuiltinESMExports()

// --- SQLite ---

type Statement = Database.Statement & { source: string; database: Database.Database; readonly: boolean }
type Method = (this: unknown, ...given: unknown[]) => unknown

function laySqlite(): void {
  const require = createRequire(import.meta.url)
  const file = require.resolve('better-sqlite3')
  const Original = require('better-sqlite3') as typeof Database
  const CODES: Partial<Record<Kind, [string, string]>> = {
    ioerr: ['SQLITE_IOERR_WRITE', 'disk I/O error'],
    full: ['SQLITE_FULL', 'database or disk is full'],
    nomem: ['SQLITE_NOMEM', 'out of memory'],
    busy: ['SQLITE_BUSY', 'database is locked'],
    cantopen: ['SQLITE_CANTOPEN', 'unable to open database file'],
    late: ['SQLITE_IOERR_FSYNC', 'disk I/O error'],
  }
  const errorOf = (kind: Kind): Error => {
    const [code, text] = CODES[kind]!
    return new Original.SqliteError(text, code)
  }
  // These do not use the disk in WAL mode, because data that was not committed is in memory.
  const INNER = /^\s*(?:rollback|savepoint|release)/i
  const kindsOf = (sql: string, writes: boolean, open: boolean): Kind[] => {
    if (INNER.test(sql)) return []
    if (/^\s*begin/i.test(sql)) return ['ioerr', 'nomem', 'busy']
    if (/^\s*commit/i.test(sql)) return ['ioerr', 'full', 'nomem', 'late']
    return ['ioerr', 'nomem', ...(writes ? (['full'] as const) : []), ...(writes && !open ? (['busy'] as const) : [])]
  }
  const shown = (sql: string): string => sql.replace(/\s+/g, ' ').trim().slice(0, 70)
  const { exec } = Original.prototype as unknown as { exec: Method }
  /** The failure of a call on a database. Undoes the same work that SQLite undoes. */
  const fail = (kind: Kind, sql: string, database: Database.Database, run: () => unknown): never => {
    if (kind === 'late') run()
    const whole = kind === 'ioerr' || kind === 'full' || /^\s*commit/i.test(sql)
    if (whole && database.inTransaction) exec.call(database, 'rollback')
    throw errorOf(kind)
  }
  const scratch = new Original(':memory:')
  const statements = Object.getPrototypeOf(scratch.prepare('select 1')) as Record<string, Method>
  scratch.close()
  for (const name of ['run', 'get', 'all']) {
    const method = statements[name]!
    statements[name] = function (this: Statement, ...given) {
      const { database, readonly, source } = this
      if (database.memory) return method.apply(this, given)
      const kind = control.fails('sqlite', shown(source), kindsOf(source, !readonly, database.inTransaction))
      if (kind) fail(kind, source, database, () => method.apply(this, given))
      return method.apply(this, given)
    } as Method
  }
  const databases = Original.prototype as unknown as Record<string, Method>
  databases['exec'] = function (this: Database.Database, sql) {
    const text = String(sql)
    const kind = control.fails('sqlite', `exec ${shown(text)}`, kindsOf(text, true, this.inTransaction))
    if (kind) fail(kind, text, this, () => exec.call(this, sql))
    return exec.call(this, sql)
  } as Method
  const pragma = databases['pragma']!
  databases['pragma'] = function (this: Database.Database, source, options) {
    const text = String(source)
    const writes = /checkpoint|journal_mode|user_version =/.test(text)
    const kind = control.fails('sqlite', `pragma ${text}`, kindsOf(`pragma ${text}`, writes, this.inTransaction))
    if (kind) fail(kind, text, this, () => undefined)
    return control.quiet(() => pragma.call(this, source, options))
  } as Method
  for (const name of ['backup', 'serialize']) {
    const method = databases[name]!
    databases[name] = function (this: Database.Database, ...given) {
      const kind = control.fails('sqlite', name, name === 'backup' ? ['ioerr', 'full', 'nomem', 'cantopen'] : ['nomem'])
      if (!kind) return method.apply(this, given)
      if (name === 'backup') return Promise.reject(errorOf(kind))
      throw errorOf(kind)
    } as Method
  }
  const Laid = new Proxy(Original, {
    construct(target, given: [string]) {
      const kind = control.fails('sqlite', 'open', ['cantopen', 'ioerr', 'nomem'])
      if (kind) throw errorOf(kind)
      return new target(...given)
    },
  })
  require.cache[file]!.exports = Laid
}

// --- worker threads ---

/**
 * Loading a worker's module takes most of a second, so a released worker without work waits for the next server of this
 * process.
 */
function layThreads(): void {
  interface Known {
    worker: Worker
    ready: boolean
    /** The thread that it works for, or undefined if it waits. */
    thread: Thread | undefined
  }
  const spare = new Map<string, Known[]>()
  const Original = threads.Worker
  class Thread extends EventEmitter {
    readonly #source: string
    readonly #known: Known
    #jobs = 0
    #over = false

    constructor(source: URL, options: object) {
      super()
      if (control.fails('worker', `hire ${source.pathname.split('/').at(-1)}`, ['hire']))
        throw Object.assign(new Error('Worker initialization failure: EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
      this.#source = source.href
      this.#known = spare.get(source.href)?.pop() ?? make(source, options)
      this.#known.thread = this
      if (this.#known.ready) setImmediate(() => this.emit('message', { ready: true }))
    }

    /** Handles a message or event of the worker. */
    hear(event: string, given: unknown): void {
      if (Array.isArray(given)) this.#jobs -= given.length
      if (event === 'exit') this.#over = true
      this.emit(event, given)
    }

    postMessage(message: { jobs?: unknown[] }): void {
      this.#jobs += message.jobs?.length ?? 0
      if (message.jobs && control.fails('worker', 'a job', ['die'])) void this.#known.worker.terminate()
      else this.#known.worker.postMessage(message)
    }

    ref(): void {
      this.#known.worker.ref()
    }

    unref(): void {
      this.#known.worker.unref()
    }

    async terminate(): Promise<number> {
      if (this.#over || this.#jobs > 0) return this.#known.worker.terminate()
      this.#over = true
      this.#known.thread = undefined
      this.#known.worker.unref()
      spare.set(this.#source, [...(spare.get(this.#source) ?? []), this.#known])
      this.emit('exit', 0)
      return 0
    }
  }
  function make(source: URL, options: object): Known {
    const execArgv = ['--import', new URL('thread.ts', import.meta.url).href]
    const worker = new Original(source, { ...options, execArgv, workerData: { memory, root: ROOT, ports: portMemory } })
    const known: Known = { worker, ready: false, thread: undefined }
    worker.on('message', (message: object) => {
      if ('ready' in message) known.ready = true
      known.thread?.hear('message', message)
    })
    worker.on('error', (error) => known.thread?.hear('error', error))
    worker.on('exit', (code) => known.thread?.hear('exit', code))
    return known
  }
  ;(threads as unknown as Record<string, unknown>)['Worker'] = Thread
}
