// Command lines for tests: `Commands` runs them in shared processes, `start` runs one in a process of its own.
import assert from 'node:assert/strict'
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { forTerminal } from '../../src/base/clean-text.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { LIMIT } from '../kit/until.ts'
import type { Asked, Ran } from './runner.ts'
import { runApart } from './runners.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))

const compiled = process.env['NODE_COMPILE_CACHE']
/** The environment of every command: without settings of the machine, and with Node's compile cache. */
const BARE = Object.fromEntries([
  ...['PATH', 'HOME', 'TMPDIR', 'LANG', 'NODE_OPTIONS'].flatMap((name) =>
    process.env[name] ? [[name, process.env[name]]] : [],
  ),
  ...(compiled ? [['NODE_COMPILE_CACHE', resolve(compiled)]] : []),
]) as Record<string, string>

/** Lines of a configuration for commands that check ports. Port 1 is closed. */
export const NOWHERE = 'smtp.listen = ["127.0.0.1:1"]\ndelivery.port = 1\n'

export class Commands {
  readonly #cwd: string
  #temporary = false
  readonly #always: readonly string[]
  readonly #stop = new AbortController()
  #last: Promise<unknown> = Promise.resolve()

  /** `always` precedes each command line, e.g. ['--config', file]. */
  constructor(cwd: string, always: readonly string[] = []) {
    this.#cwd = cwd
    this.#always = always
  }

  /**
   * Commands next to a running server, in a temporary directory with a configuration that names its data directory.
   * `more` is TOML.
   */
  static beside({ dataDir }: { dataDir: string }, more = ''): Commands {
    const folder = temporaryDirectory('beside')
    const config = join(folder, 'here.toml')
    writeFileSync(config, `hostname = "mx.postrider.test"\ndata_dir = ${JSON.stringify(dataDir)}\n${more}`)
    const commands = new Commands(folder, ['--config', config])
    commands.#temporary = true
    return commands
  }

  get folder(): string {
    return this.#cwd
  }

  /** Runs one command line to its end. After minutes, its process is killed and the call fails. */
  run(
    argv: readonly string[],
    { env = {}, bare = false }: { env?: Record<string, string>; bare?: boolean } = {},
  ): Promise<Ran> {
    const asked: Asked = { argv: bare ? [...argv] : [...this.#always, ...argv], env, cwd: this.#cwd }
    const answer = this.#last.then(() => runApart(asked, BARE, this.#stop.signal))
    this.#last = answer.catch(() => {})
    return answer
  }

  /** Runs a command with --json: it must do well and print one document. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async json<T = any>(...argv: string[]): Promise<T> {
    const { code, stderr, stdout } = await this.run(['--json', ...argv])
    assert.equal(code, 0, `${argv.join(' ')}: ${stderr}`)
    // On a slow machine, long work shows its progress.
    assert.equal(stderr.replaceAll(/^postrider: .* \(\d+ s\)\n/gm, ''), '', argv.join(' '))
    return JSON.parse(stdout) as T
  }

  /** Runs a command that must fail with exit code 1. Returns its one sentence. */
  async fails(...argv: string[]): Promise<string> {
    const ran = await this.run(['--json', ...argv])
    assert.notEqual(ran.stdout, '', argv.join(' '))
    return sentenceOf(ran, argv.join(' '))
  }

  /** Runs a command line that must be rejected as wrong usage. */
  async misused(...argv: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(argv)
    assert.equal(code, 2, `${argv.join(' ')}: ${stdout}${stderr}`)
    assert.equal(stdout, '')
    assert.match(stderr, /\S/)
    return stderr
  }

  async close(): Promise<void> {
    // A command that is still running belongs to a failed test.
    this.#stop.abort()
    await this.#last
    if (this.#temporary) rmSync(this.#cwd, { recursive: true })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** The one sentence of a command that failed with exit code 1: on stderr, with --json on stdout too, no stack. */
export function sentenceOf({ code, stdout, stderr }: Ran, what = ''): string {
  assert.equal(code, 1, `${what}: ${stdout}${stderr}`)
  assert.match(stderr, /^postrider: [^\n]*[^\n.]\.\n$/, `${what}: not one sentence: ${stderr}`)
  assert.doesNotMatch(stderr, /\. [A-Z].*\. [A-Z]/, `${what}: too many sentences: ${stderr}`)
  const sentence = stderr.slice('postrider: '.length, -1)
  // With --json, the same document for applications. A server's log may precede it.
  const document = stdout.replaceAll(/^\{"event":.*\n/gm, '')
  if (document !== '') {
    const { error } = JSON.parse(document) as { error: { message: string; code: string } }
    assert.deepEqual(Object.keys(error), ['message', 'code'], what)
    assert.equal(forTerminal(error.message), sentence, what)
    assert.match(error.code, /^[a-z_]+$/, what)
  }
  return sentence
}

export interface Running {
  child: ChildProcessByStdio<Writable, Readable, Readable>
  pid: number
  stdout: () => string
  stderr: () => string
  /**
   * Resolves when the text printed so far on stdout or stderr matches. Throws if the process ends before, or after
   * minutes.
   */
  said: (pattern: RegExp, where?: 'stdout' | 'stderr') => Promise<RegExpExecArray>
  /** The exit code, or the name of the signal that ended it. */
  ended: Promise<number | NodeJS.Signals>
}

/** `node bin/postrider.ts …` in a process of its own. */
export function start(argv: readonly string[], cwd: string, env: Record<string, string> = {}): Running {
  const child = spawn(process.execPath, [PROGRAM, ...argv], { cwd, env: { ...BARE, ...env }, stdio: 'pipe' })
  const text = { stdout: '', stderr: '' }
  const watchers = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      text[name] += chunk
      for (const look of watchers) look()
    })
  const ended = new Promise<number | NodeJS.Signals>((resolve) =>
    child.on('close', (code, signal) => resolve(code ?? signal!)),
  )
  return {
    child,
    pid: child.pid!,
    stdout: () => text.stdout,
    stderr: () => text.stderr,
    ended,
    said: (pattern, where = 'stdout') =>
      new Promise((resolve, reject) => {
        const fail = (why: string): void => {
          watchers.delete(look)
          clearTimeout(limit)
          reject(new Error(`${why}; it printed: ${text.stdout}${text.stderr}`))
        }
        const limit = setTimeout(() => fail(`${String(pattern)} was not said within minutes`), LIMIT)
        const look = (): void => {
          const found = pattern.exec(text[where])
          if (!found) return
          watchers.delete(look)
          clearTimeout(limit)
          resolve(found)
        }
        watchers.add(look)
        look()
        void ended.then((code) => watchers.has(look) && fail(`it ended with ${code}`))
      }),
  }
}
