// A command as a backup destination, started without a shell: "exec:COMMAND {action} {name}". It gets a backup on
// standard input, and returns a list or a backup on standard output. The command and all that it starts end with the
// process that started it.
import { spawn, type ChildProcess } from 'node:child_process'
import type { Writable } from 'node:stream'
import { HOUR, MINUTE } from '../../base/clock.ts'
import { forLog } from '../../base/clean-text.ts'
import { clearOnSignal } from '../../base/clear-on-signal.ts'
import { codeOf } from '../../base/errors.ts'
import { counted } from '../../base/text.ts'
import { whileMoving, type Movement } from '../../net/https.ts'
import { heldWhile } from '../byte-reader.ts'
import type { Backend, DestinationDeps, StoredObject } from './backend.ts'
import { DestinationFault } from './fault.ts'

const MOST_LIST = 16 * 1024 * 1024
/** The last bytes of standard error that are kept. */
const MOST_STDERR = 4096
/** A command may collect the whole backup before it transfers anything. */
const PATIENCE = HOUR

export class CommandBackend implements Backend {
  readonly title: string
  readonly #words: readonly string[]
  readonly #patience: number

  constructor(words: readonly string[], { patience = PATIENCE }: DestinationDeps) {
    this.#words = words
    // The other words may contain secrets.
    this.title = `exec:${words[0]}`
    this.#patience = patience
  }

  async put(name: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const child = this.#start('put', name)
    const exit = exitOf(child)
    child.stdout?.resume()
    try {
      const complete = await this.#within((movement) => send(child.stdin, bytes, movement))
      this.#demandSuccess(await this.#within(() => exit))
      if (!complete) throw this.#fault('the command exited before it had read the whole backup')
    } finally {
      kill(child)
    }
  }

  async *list(): AsyncIterable<StoredObject> {
    const pieces: Buffer[] = []
    let size = 0
    for await (const piece of this.#output('list')) {
      size += piece.length
      if (size > MOST_LIST) throw this.#fault('the list that the command printed is larger than 16 MB')
      pieces.push(piece)
    }
    for (const line of Buffer.concat(pieces).toString('utf8').split('\n')) {
      const [, name, bytes] = /^(\S+) (\d{1,15})(?:\s|$)/.exec(line) ?? []
      if (name !== undefined) yield { name, size: Number(bytes) }
    }
  }

  async sizeOf(name: string): Promise<number | undefined> {
    for await (const found of this.list()) if (found.name === name) return found.size
    return undefined
  }

  get(name: string): AsyncIterable<Uint8Array> {
    return this.#output('get', name)
  }

  async remove(name: string): Promise<void> {
    for await (const _ of this.#output('remove', name));
  }

  async close(): Promise<void> {}

  /** Runs the command and returns its standard output. Throws if the command fails. */
  async *#output(action: string, name = ''): AsyncIterable<Buffer> {
    const child = this.#start(action, name)
    const exit = exitOf(child)
    child.stdin?.end()
    try {
      const pieces = (child.stdout as AsyncIterable<Buffer> | null)?.[Symbol.asyncIterator]()
      for (;;) {
        const next = await this.#within(async () => pieces?.next())
        if (!next || next.done) break
        yield next.value
      }
      this.#demandSuccess(await this.#within(() => exit))
    } finally {
      kill(child)
    }
  }

  /** Throws if no data is transferred for too long. */
  #within<T>(run: (movement: Movement) => Promise<T>): Promise<T> {
    return whileMoving(this.#patience, (signal, movement) => {
      const span = counted(this.#patience / MINUTE, 'minute')
      const late = new DestinationFault('slow', this.title, `the command made no progress for ${span}`)
      const expired = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(late)))
      return Promise.race([run(movement), expired])
    })
  }

  #start(action: string, name: string): ChildProcess {
    const values: Record<string, string> = { '{action}': action, '{name}': name }
    const words = this.#words.map((word) => word.replace(/\{(?:action|name)\}/g, (mark) => values[mark] ?? mark))
    const [program = '', ...rest] = words
    // A process group, so that its children can be killed with it.
    const child = spawn(program, rest, { stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    const unregister = clearOnSignal(() => kill(child))
    child.once('close', unregister).once('error', unregister)
    return child
  }

  #demandSuccess({ code, error, signal, stderr }: Exit): void {
    if (error !== undefined) {
      const why =
        error === 'ENOENT' ? 'it does not exist' : 'it does not exist, or this user has no permission to run it'
      throw this.#fault(`the command cannot be started (${error}): ${why}`)
    }
    if (code === 0) return
    const text = forLog(stderr, 200)
    const end = signal === null ? `exited with status ${code}` : `was killed by ${signal}`
    throw this.#fault(`the command ${end}${text === '' ? '' : `: "${text}"`}`)
  }

  #fault(what: string): DestinationFault {
    return new DestinationFault('command', this.title, what)
  }
}

interface Exit {
  code: number | null
  signal: string | null
  /** The end of its standard error. */
  stderr: string
  /** The error code if it could not be started. */
  error?: string
}

function exitOf(child: ChildProcess): Promise<Exit> {
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-MOST_STDERR)))
  // If the command no longer reads, its exit status is the reason.
  child.stdin?.on('error', () => {})
  return new Promise((done) => {
    child.on('error', (thrown) => done({ code: null, signal: null, stderr, error: codeOf(thrown) }))
    child.on('close', (code, signal) => done({ code, signal, stderr }))
  })
}

/** Writes a stream and closes it. False if the command stopped reading. */
async function send(
  stdin: Writable | null,
  bytes: AsyncIterable<Uint8Array>,
  { held, moved }: Movement,
): Promise<boolean> {
  for await (const piece of heldWhile(bytes, held)) {
    const written = await new Promise<boolean>((done) => {
      if (stdin?.writable) stdin.write(piece, (error) => done(!error))
      else done(false)
    })
    if (!written) return false
    moved(piece.length)
  }
  return new Promise((done) => {
    if (!stdin?.writable) return done(false)
    stdin.once('close', () => done(stdin.writableFinished))
    return void stdin.end()
  })
}

/** Kills a command and all that it started. */
function kill({ exitCode, pid, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has just exited.
  }
}
