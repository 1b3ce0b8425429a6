// A temporary directory and the foreign daemons that live in it, ended together.
//
// Guarantee: whatever happens to this process (a failed assertion, process.exit, SIGKILL by a test runner's timeout),
// the daemons started here are killed and the directory is removed. A handler inside Node cannot promise that, so a
// small shell waits at the other end of a pipe: when the pipe closes without the word `done`, it cleans up in our
// place. Every daemon runs in a process group of its own and only those groups are ever signalled, never a name.

import { spawn, type ChildProcess } from 'node:child_process'
import { accessSync, appendFileSync, chmodSync, constants, mkdtempSync, openSync, closeSync } from 'node:fs'
import { readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export const PROGRAMS = {
  master: '/usr/lib/postfix/sbin/master',
  opendkim: '/usr/sbin/opendkim',
  openssl: '/usr/bin/openssl',
  // By its path: a pyenv in front of PATH knows nothing of Debian's modules.
  python: '/usr/bin/python3',
  perl: '/usr/bin/perl',
  perlDkim: '/usr/share/perl5/Mail/DKIM/Verifier.pm',
  pythonDkim: '/usr/lib/python3/dist-packages/dkim/__init__.py',
  smtpSink: '/usr/sbin/smtp-sink',
  smtpSource: '/usr/sbin/smtp-source',
} as const

/** The missing prerequisites of the rig, as text for a skip line. Empty if all are installed. */
export function missing(): string[] {
  const absent = Object.values(PROGRAMS).filter((path) => {
    try {
      accessSync(path, constants.R_OK)
      return false
    } catch {
      return true
    }
  })
  // Postfix's master starts as root and gives the privilege away itself; there is no other way to run it.
  const root = process.getuid?.() === 0 ? [] : ['the right to start Postfix (root)']
  return [...absent, ...root]
}

export interface Daemon {
  /** Leader of its own process group, so this is the group's id too. */
  pid: number
  exited: Promise<void>
  alive: () => boolean
  /** How it ended by itself: its exit code; null while it runs, and after a signal. */
  exitCode: () => number | null
  /**
   * Kills the whole group. Never politely: its files go anyway, and both Postfix and libmilter take seconds to leave.
   */
  stop: () => Promise<void>
}

const GUARD = `read -r word
[ "$word" = done ] && exit
for group in $(cat "$1/groups"); do kill -s KILL -- "-$group"; done
sleep 0.2
rm -rf "$1"`

export class Sandbox {
  readonly dir: string
  readonly #guard: ChildProcess
  readonly #daemons = new Set<Daemon>()

  constructor(name: string) {
    this.dir = mkdtempSync(join(tmpdir(), `postrider-${name}-`))
    // Postfix's daemons run under their own account and must be able to walk in.
    chmodSync(this.dir, 0o755)
    this.#noteGroups()
    this.#guard = spawn('/bin/sh', ['-c', GUARD, 'guard', this.dir], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    })
    this.#guard.unref()
    unrefHandle(this.#guard.stdin)
  }

  path(...parts: string[]): string {
    return join(this.dir, ...parts)
  }

  write(name: string, content: string | Buffer, mode = 0o644): string {
    const path = this.path(name)
    writeFileSync(path, content, { mode })
    return path
  }

  read(name: string): string {
    try {
      return readFileSync(this.path(name), 'utf8')
    } catch {
      return ''
    }
  }

  /** Starts a program that stays in the foreground; its output goes to the file `log` in the sandbox. */
  daemon(program: string, args: string[], log: string): Daemon {
    const out = openSync(this.path(log), 'a')
    const child = spawn(program, args, {
      cwd: this.dir,
      detached: true,
      stdio: ['ignore', out, out],
      env: { PATH: process.env['PATH'] },
    })
    closeSync(out)
    const exited = new Promise<void>((resolve) => {
      child.once('exit', () => resolve())
      child.once('error', (error) => {
        appendFileSync(this.path(log), `${error.message}\n`)
        resolve()
      })
    })
    // Not a reason to stay alive: a test that fails before stop() must still end, the guard then does the rest.
    child.unref()
    const pid = child.pid
    if (pid === undefined) throw new Error(`cannot start ${program}`)
    const alive = () => child.exitCode === null && child.signalCode === null
    const stop = async () => {
      // Stopped before: the number may be somebody else's by now.
      if (!this.#daemons.has(daemon)) return
      child.ref()
      killGroup(pid)
      await exited
      // A worker whose new parent is slow to reap it still counts as a member, so this is a short wait and no
      // condition.
      for (let tries = 0; tries < 20 && killGroup(pid); tries++) await sleep(10)
      this.#daemons.delete(daemon)
      this.#noteGroups()
    }
    const daemon = { pid, exited, alive, exitCode: () => child.exitCode, stop }
    this.#daemons.add(daemon)
    this.#noteGroups()
    return daemon
  }

  /** The processes that the guard kills if this process cannot. */
  #noteGroups(): void {
    const groups = [...this.#daemons].map((daemon) => `${daemon.pid}\n`)
    writeFileSync(this.path('groups'), groups.join(''))
  }

  /** Ends the daemons, newest first, and removes the directory. May be called twice. */
  async close(): Promise<void> {
    for (const daemon of [...this.#daemons].toReversed()) await daemon.stop()
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 })
    if (this.#guard.stdin?.writable) this.#guard.stdin.end('done\n')
  }
}

/** False when no such group is left. */
function killGroup(group: number): boolean {
  try {
    process.kill(-group, 'SIGKILL')
    return true
  } catch {
    return false
  }
}

// A child's pipe is a socket underneath, which the type of ChildProcess.stdin does not say.
function unrefHandle(stream: unknown): void {
  ;(stream as { unref?: () => void } | null)?.unref?.()
}

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** True once something accepts on the port (number) or Unix socket (string). */
export function answers(where: number | string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = typeof where === 'number' ? connect(where, '127.0.0.1') : connect(where)
    const end = (yes: boolean) => {
      socket.destroy()
      resolve(yes)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
  })
}

/** Polls until `check` holds. Throws `what` after the timeout. */
export async function until(
  check: () => boolean | Promise<boolean>,
  timeoutMs: number,
  what: () => string,
): Promise<void> {
  const end = performance.now() + timeoutMs
  while (!(await check())) {
    if (performance.now() > end) throw new Error(what())
    await sleep(20)
  }
}
