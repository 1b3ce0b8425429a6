// A separate machine: a Debian root with systemd, booted in namespaces, with one network interface.
//
// Guarantee: it stops with the test, even if that crashes. Its init is killed with boot.sh, whose process group the
// sandbox's guard kills. A second guard kills and removes its control groups. After LIFETIME seconds it is killed in
// any case.

import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Sandbox, until, type Daemon } from '../rig/sandbox.ts'

/** Longer than all tests together may take. */
const LIFETIME = 1500
const MEMORY = 4 * 1024 ** 3
const TASKS = 4000
const BOOT_TIMEOUT = 120_000

/** Where root's commands start. */
export const HOME = '/root'

export interface Output {
  code: number
  stdout: string
  stderr: string
}

export interface Network {
  /** The bridge that its cable leads to. */
  bridge: string
  /** With the length of the prefix. */
  address: string
  gateway: string
  nameserver: string
}

// Kills and removes the groups once nobody holds the other end of its pipe.
const GUARD = `read -r word
for group in "$@"; do [ ! -e "$group/cgroup.kill" ] || echo 1 >"$group/cgroup.kill"; done
tries=0
for group in "$@"; do
  while [ -d "$group" ] && [ "$tries" -lt 300 ]; do
    find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
    [ ! -d "$group" ] || sleep 0.1
    tries=$((tries + 1))
  done
done`

export class Machine {
  readonly name: string
  readonly #box: Sandbox
  readonly #daemon: Daemon
  readonly #guard: ChildProcess
  readonly #commands: string
  #init = 0

  private constructor(base: string, name: string, network: Network) {
    this.name = name
    this.#box = new Sandbox(`machine-${name}`)
    const groups = makeGroups(`postrider-guide-${process.pid}-${name}`)
    this.#guard = spawn('/bin/sh', ['-c', GUARD, 'guard', ...groups], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    })
    this.#guard.unref()
    ;(this.#guard.stdin as { unref?: () => void } | null)?.unref?.()
    // Commands that come from outside have a group beside the machine's own, so that its systemd finds nobody in its
    // root.
    this.#commands = join(groups.at(-1)!, 'commands')
    mkdirSync(this.#commands)
    this.#box.write(
      'network',
      `link set lo up
address add ${network.address} dev eth0
link set eth0 up
route add default via ${network.gateway}
`,
    )
    const script = join(import.meta.dirname, 'boot.sh')
    const given = [script, String(LIFETIME), base, this.#box.dir, name, ...groups]
    this.#daemon = this.#box.daemon('/bin/sh', given, 'boot.log')
  }

  static async boot(base: string, name: string, network: Network): Promise<Machine> {
    const machine = new Machine(base, name, network)
    try {
      await machine.#start(network)
      return machine
    } catch (error) {
      await machine.stop()
      throw error
    }
  }

  async #start({ bridge, nameserver }: Network): Promise<void> {
    const log = () => `${this.name} does not boot:\n${this.#box.read('boot.log')}`
    const found = () => {
      if (!this.#daemon.alive()) throw new Error(log())
      this.#init = initBelow(this.#daemon.pid)
      return this.#init !== 0
    }
    await until(found, BOOT_TIMEOUT, log)
    const plug = `${this.name}0`
    const lines = `link add ${plug} type veth peer name eth0 netns ${this.#init}\nlink set ${plug} master ${bridge} up\n`
    try {
      execFileSync('ip', ['-batch', '-'], { input: lines, stdio: 'pipe' })
    } catch (error) {
      throw new Error(log(), { cause: error })
    }
    const booted = async () => {
      if (!this.#daemon.alive()) throw new Error(log())
      return /^(?:running|degraded)$/m.test((await this.run('systemctl is-system-running')).stdout)
    }
    await until(booted, BOOT_TIMEOUT, log)
    // As the installer or the hoster leaves it.
    await this.must(`printf 'nameserver ${nameserver}\\n' >/etc/resolv.conf`)
  }

  /**
   * A command line as root types it after logging in: its shell, its home, no terminal. Killed after `timeout` seconds.
   */
  run(command: string, { input = '', timeout = 120 }: { input?: string; timeout?: number } = {}): Promise<Output> {
    const environment = [
      `HOME=${HOME}`,
      'USER=root',
      'LOGNAME=root',
      'SHELL=/bin/bash',
      'LANG=C.UTF-8',
      'TERM=dumb',
      'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    ]
    const enter = ['--target', String(this.#init), '--mount', '--uts', '--ipc', '--net', '--pid', '--cgroup', '--']
    const login = ['/usr/bin/env', '-i', '-C', HOME, ...environment]
    // From within: what is killed outside leaves its children running here.
    const bounded = ['/usr/bin/timeout', '--signal', 'KILL', String(timeout), '/bin/bash', '-c', command]
    return spoken('/bin/sh', ['-c', JOIN, this.#commands, ...enter, ...login, ...bounded], (timeout + 10) * 1000, input)
  }

  /** A command that must succeed: what it printed. */
  async must(command: string, options: { input?: string; timeout?: number } = {}): Promise<string> {
    const { code, stderr, stdout } = await this.run(command, options)
    if (code !== 0) throw new Error(`${command}\nended with ${code} on ${this.name}:\n${stdout}${stderr}`)
    return stdout
  }

  /** Runs a program of this machine on the network of that one, where its loopback is. */
  beside(program: string, args: string[], input = ''): Promise<Output> {
    return spoken('nsenter', ['--target', String(this.#init), '--net', '--', program, ...args], 60_000, input)
  }

  /** A path of the machine as it is seen from here. */
  outside(path: string): string {
    return join(`/proc/${this.#init}/root`, path)
  }

  write(path: string, content: string): void {
    writeFileSync(this.outside(path), content)
  }

  copyIn(file: string, path: string): void {
    cpSync(file, this.outside(path))
  }

  copyOut(path: string, file: string): void {
    cpSync(this.outside(path), file)
  }

  /** Pulls the plug. */
  async stop(): Promise<void> {
    await this.#box.close()
    const gone = new Promise((resolve) => this.#guard.once('exit', resolve))
    this.#guard.ref()
    this.#guard.stdin?.end()
    if (this.#guard.exitCode === null) await gone
  }
}

const JOIN = 'echo 0 >"$0/cgroup.procs" && exec nsenter "$@"'

function spoken(program: string, args: string[], timeout: number, input: string): Promise<Output> {
  return new Promise((resolve) => {
    const options = { timeout, killSignal: 'SIGKILL', maxBuffer: 1 << 26 } as const
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr: code === -1 ? `${stderr}\n${error!.message}` : stderr })
    })
    // A command that reads nothing may be gone before it was written to.
    child.stdin?.on('error', () => {}).end(input)
  })
}

/**
 * Control groups with bounds; of cgroup v1 where that holds memory and tasks, and last the one of v2 that systemd is to
 * have.
 */
function makeGroups(name: string): string[] {
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
  const unified = mounts.find(([, , type]) => type === 'cgroup2')?.[1]
  if (unified === undefined) throw new Error('no cgroup v2 is mounted on this machine')
  const old = (controller: string) =>
    mounts.find(([, , type, options]) => type === 'cgroup' && options?.split(',').includes(controller))?.[1]
  const made: string[] = []
  const bound = (parent: string, bounds: Record<string, number>) => {
    const group = join(parent, name)
    mkdirSync(group)
    made.push(group)
    // What this machine's kernel does not count here cannot be bounded here.
    for (const [file, value] of Object.entries(bounds))
      if (existsSync(join(group, file))) writeFileSync(join(group, file), String(value))
  }
  const [memory, pids] = [old('memory'), old('pids')]
  if (memory !== undefined) bound(memory, { 'memory.limit_in_bytes': MEMORY })
  if (pids !== undefined) bound(pids, { 'pids.max': TASKS })
  bound(unified, { 'memory.max': MEMORY, 'pids.max': TASKS })
  return made
}

/**
 * The process at the end of the chain of only children below boot.sh that is number 1 in a namespace; 0 while there is
 * none.
 */
export function initBelow(pid: number): number {
  for (let at = pid; ;) {
    const children = childrenOf(at)
    if (isInit(at)) return at
    if (children.length !== 1) return 0
    at = children[0]!
  }
}

const reading = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // It has ended meanwhile.
    return ''
  }
}

export const childrenOf = (pid: number): number[] =>
  reading(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)

const isInit = (pid: number): boolean => /^NSpid:(?:\t\d+)+\t1$/m.test(reading(`/proc/${pid}/status`))
