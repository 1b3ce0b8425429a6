// A command as a place for backups. Its line is cut into words and no shell reads it, for the names of a shell's
// language would be octets of others, and the image has none: who needs one names it ("exec:/bin/sh -c '…'"). {name},
// {action} and {from} are filled into its words. A command without {action} only stores what comes to its stdin, and
// keeps, lists and removes by itself.
//
// Guarantees: a command ends with the process that started it. When that is killed by SIGKILL, a command sees the end
// of its stdin, but no count of octets on file descriptor 3, which follows a backup that is whole.
import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { HOUR, MINUTE, SECOND } from '../../base/clock.ts'
import { storesOnly } from '../../base/backup-target.ts'
import { forLog } from '../../base/clean-text.ts'
import { clearOnSignal } from '../../base/clear-on-signal.ts'
import { codeOf } from '../../base/errors.ts'
import { spawnAsOwner } from '../../base/ownership.ts'
import { whileMoving, type Movement } from '../../net/https.ts'
import { heldWhile } from '../octets.ts'
import { OBJECT_NAME, type Backend, type BackupObject, type PlaceDeps } from './backend.ts'
import { PlaceFault } from './place-fault.ts'

/** The most octets of a list. */
const MOST_LIST = 16 * 1024 * 1024
/** What is kept of what a command says on stderr. */
const MOST_SAID = 4096

/** How long a command may take nothing and give nothing: it may first collect all that it is given. */
const PATIENCE = HOUR

type ExecTask = 'put' | 'list' | 'get' | 'remove'

export class ExecBackend implements Backend {
  readonly title: string
  readonly writesOnly?: true
  readonly #words: readonly string[]
  readonly #patience: number

  constructor(words: readonly string[], target: string, { patience = PATIENCE }: PlaceDeps) {
    this.#words = words
    // The rest of the line may hold a secret.
    this.title = `exec:${words[0]}`
    this.#patience = patience
    if (storesOnly(target)) this.writesOnly = true
  }

  async put(name: string, octets: AsyncIterable<Uint8Array>): Promise<void> {
    let taken = false
    await this.#run({ action: 'put', name }, async (child, movement) => {
      child.stdout?.resume()
      let size = 0
      for await (const piece of heldWhile(octets, movement.held)) {
        if (!(await written(child, piece))) return
        movement.moved(piece.length)
        size += piece.length
      }
      // First the count: who has seen the end of stdin need not wait for it.
      wholeOf(child).end(`${size}\n`)
      taken = await allWritten(child)
    })
    // It ended well all the same.
    if (!taken) throw this.#fault('the command ended before it had read all of the backup')
  }

  async *entries(): AsyncIterable<BackupObject> {
    const pieces: Buffer[] = []
    let size = 0
    await this.#run({ action: 'list' }, async (child) => {
      child.stdin?.end()
      for await (const piece of octetsOf(child)) {
        size += piece.length
        if (size > MOST_LIST) throw this.#fault('its list is larger than 16 MB')
        pieces.push(piece)
      }
    })
    for (const line of Buffer.concat(pieces).toString('utf8').split('\n')) {
      const [, name, octets, seconds] = /^(\S+) (\d{1,15})(?: (\d{1,11}))?\s*$/.exec(line) ?? []
      if (name !== undefined && OBJECT_NAME.test(name))
        yield { name, size: Number(octets), at: seconds === undefined ? undefined : Number(seconds) * SECOND }
    }
  }

  async head(name: string): Promise<BackupObject | undefined> {
    for await (const found of this.entries()) if (found.name === name) return found
    return undefined
  }

  async *get(name: string, from: number): AsyncIterable<Uint8Array> {
    if (!(await this.head(name))) throw new PlaceFault('missing', this.title, `there is no ${name}`)
    const child = this.#start({ action: 'get', name, from })
    const ended = endOf(child)
    child.stdin?.end()
    try {
      const pieces = octetsOf(child)[Symbol.asyncIterator]()
      for (;;) {
        const next = await this.#timed(child, () => pieces.next())
        if (next.done) break
        yield next.value
      }
      this.#judge(await ended)
    } finally {
      kill(child)
    }
  }

  async remove(name: string): Promise<void> {
    await this.#run({ action: 'remove', name }, async (child) => {
      child.stdout?.resume()
      child.stdin?.end()
    })
  }

  async close(): Promise<void> {}

  /** Runs the command to its end; it is killed when this throws. */
  async #run(filled: Filled, talk: (child: ChildProcess, movement: Movement) => Promise<void>): Promise<void> {
    const child = this.#start(filled)
    const ended = endOf(child)
    try {
      const end = await whileMoving(this.#patience, async (signal, movement) => {
        const late = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(this.#late())))
        return await Promise.race([talk(child, movement).then(() => ended), late])
      })
      this.#judge(end)
    } finally {
      kill(child)
    }
  }

  #timed<Value>(child: ChildProcess, run: () => Promise<Value>): Promise<Value> {
    return whileMoving(this.#patience, (signal) => {
      const late = new Promise<never>((_, reject) =>
        signal.addEventListener('abort', () => {
          kill(child)
          reject(this.#late())
        }),
      )
      return Promise.race([run(), late])
    })
  }

  #late(): PlaceFault {
    return new PlaceFault('slow', this.title, `the command stood still for ${this.#patience / MINUTE} minutes`)
  }

  #start(filled: Filled): ChildProcess {
    if (this.writesOnly && filled.action !== 'put')
      throw this.#fault('the command has no {action}, so that it only stores; listing and removing are its own affair')
    const values: Record<string, string> = {
      '{action}': filled.action,
      '{name}': filled.name ?? '',
      '{from}': String(filled.from ?? 0),
    }
    const words = this.#words.map((word) => word.replace(/\{(?:action|name|from)\}/g, (mark) => values[mark] ?? mark))
    const [program = '', ...rest] = words
    // A group of its own, so that what it starts ends with it.
    const child = spawnAsOwner(program, rest, { stdio: ['pipe', 'pipe', 'pipe', 'pipe'], detached: true })
    const unheard = clearOnSignal(() => kill(child))
    child.once('close', unheard).once('error', unheard)
    // Of no use to most commands.
    wholeOf(child)
      .on('error', () => {})
      .resume()
    if (filled.action !== 'put') wholeOf(child).end()
    return child
  }

  #judge({ code, error, said, signal }: Ended): void {
    const words = forLog(said, 200)
    if (error !== undefined) {
      const why = error === 'ENOENT' ? 'it is not there' : 'it is not there, or this user may not run it'
      throw this.#fault(`the command cannot be started (${error}): ${why}`)
    }
    if (code !== 0)
      throw this.#fault(`the command ended with ${signal ?? code}${words === '' ? '' : ` and said "${words}"`}`)
  }

  #fault(what: string): PlaceFault {
    return new PlaceFault('command', this.title, what)
  }
}

interface Filled {
  action: ExecTask
  name?: string
  from?: number
}

interface Ended {
  code: number | null
  signal: string | null
  said: string
  /** The code of the error with which it could not be started. */
  error?: string
}

/** How a command ended, and what it said last on stderr. */
function endOf(child: ChildProcess): Promise<Ended> {
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-MOST_SAID)))
  // Writes into a pipe that nobody reads; the end of the command says why.
  child.stdin?.on('error', () => {})
  return new Promise((done) => {
    child.on('error', (thrown) => done({ code: null, signal: null, said, error: codeOf(thrown) }))
    child.on('close', (code, signal) => done({ code, signal, said }))
  })
}

/** File descriptor 3 of a command, which is told how many octets the backup has when all were given. */
const wholeOf = ({ stdio }: ChildProcess): Socket => stdio[3] as Socket

/** What a command says on stdout; it ends too when the command cannot be started. */
async function* octetsOf({ stdout }: ChildProcess): AsyncIterable<Buffer> {
  if (stdout) yield* stdout as AsyncIterable<Buffer>
}

/** Writes to stdin and waits until it takes more; false when the command reads no more. */
function written({ stdin }: ChildProcess, piece: Uint8Array): Promise<boolean> {
  return new Promise((done) => {
    if (!stdin?.writable) return done(false)
    return void stdin.write(piece, (error) => done(!error))
  })
}

/** Closes stdin and waits until the command has what was written; false when it reads no more. */
function allWritten({ stdin }: ChildProcess): Promise<boolean> {
  return new Promise((done) => {
    if (!stdin?.writable) return done(false)
    stdin.once('close', () => done(stdin.writableFinished))
    return void stdin.end()
  })
}

/** Ends a command and all that it started. */
function kill(child: ChildProcess): void {
  const { exitCode, pid, signalCode } = child
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has just ended.
  }
}
