// A server under a service manager: a process with the variables of systemd, and a receiver of its notifications.
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { until } from '../../kit/until.ts'

export const PYTHON = '/usr/bin/python3'
export const PROGRAM = fileURLToPath(new URL('../../../bin/postrider.ts', import.meta.url))
export const SERVICE = fileURLToPath(new URL('service.py', import.meta.url))
export const READY = /"event":"server_ready".*\n/

type Child = ChildProcessByStdio<Writable, Readable, Readable>

interface Notice {
  pid: number
  text: string
  /** In seconds. */
  at: number
}

/** Processes and configurations in a folder of their own; all of it ends with the tests of the file. */
export function serviceRig(name: string) {
  const folder = mkdtempSync(join(tmpdir(), `postrider-${name}-`))
  const running = new Set<Child>()
  after(() => {
    for (const child of running) child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })

  /** A process, with all that it has printed. */
  function run(program: string, argv: readonly string[], env: Record<string, string> = {}) {
    const child: Child = spawn(program, argv, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], ...env },
      cwd: folder,
    })
    running.add(child)
    const said = { out: '', err: '' }
    child.stdout.on('data', (chunk: Buffer) => void (said.out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => void (said.err += chunk.toString()))
    const ended = new Promise<unknown>((resolve) =>
      child.once('exit', (code, signal) => (running.delete(child), resolve(signal ?? code))),
    )
    return { child, said, ended }
  }

  /** The configuration of a server with free ports; its data are in the folder of that name. */
  function configured(of: string): string {
    const data = join(folder, of)
    mkdirSync(data, { mode: 0o700, recursive: true })
    const file = join(folder, `${of}.toml`)
    writeFileSync(
      file,
      `hostname = "mx.service.test"\ndata_dir = ${JSON.stringify(data)}\n[http]\nlisten = "127.0.0.1:0"\n` +
        `[smtp]\nlisten = ["127.0.0.1:0"]\n[dns]\nservers = ["127.0.0.1:1"]\n`,
    )
    return file
  }

  /** Receives the messages to the address. */
  async function notices(address: string) {
    const { said } = run(PYTHON, [SERVICE, 'notify', address])
    await until(() => said.out.includes('ready'), 'the receiver')
    const list = (): Notice[] =>
      said.out
        .split('\n')
        .slice(1, -1)
        .map((line) => JSON.parse(line) as Notice)
        // With it, systemd-notify waits until systemd has received everything before.
        .filter(({ text }) => text !== 'BARRIER=1')
    return {
      list,
      heard: (pattern: RegExp) => until(() => list().find(({ text }) => pattern.test(text)), pattern.source, list),
      count: (text: string) => list().filter((each) => each.text.split('\n').includes(text)).length,
    }
  }

  return { configured, folder, notices, run }
}
