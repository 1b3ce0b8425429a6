// Two machines of a failover pair, and a volume that moves between them. A machine is a set of namespaces (mount, net,
// uts, ipc, pid) with its own /etc/machine-id and a cable to the bridge of the world (guide/network.ts). The volume is
// an ext4 file system on a loop device. A crash stops all processes of a machine at once, and takes away everything
// that was not synced: EXT4_IOC_SHUTDOWN drops the page cache and the open journal transaction, as a power cut does,
// and answers every later call with EIO, as a volume that was detached.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { BRIDGE, withPrefix } from '../guide/network.ts'
import { childrenOf, initBelow } from '../guide/machine.ts'
import { becomes } from './machine.ts'
import { Sandbox, type Daemon } from './sandbox.ts'

/** The unit of the package waits 5 s before a restart. Less time makes the tests faster. */
const RESTART = 500

// EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH, when a line comes.
const SHUTDOWN = `import fcntl, os, struct, sys
place = os.open(sys.argv[1], os.O_RDONLY)
print("armed", flush=True)
sys.stdin.readline()
fcntl.ioctl(place, 0x8004587d, struct.pack("I", 2))
print("failed", flush=True)`

// The root of a machine: this one's, without the traces of a container, in which a machine has no identity.
const BOOT = `set -e
name=$1 id=$2 shared=$3 place=$(mktemp --directory)
mount -t tmpfs tmpfs "$place"
mkdir "$place/changes" "$place/work" "$place/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/changes,workdir=$place/work" "$place/root"
cd "$place/root"
mount --rbind /dev dev
mount -t proc proc proc
mount --rbind /sys sys
mount --bind "$shared" ".$shared"
rm -f .dockerenv run/.containerenv
echo "$id" >etc/machine-id
hostname "$name"
mkdir -p old
pivot_root . old
umount --lazy /old
exec sleep infinity`

const ENVIRONMENT = { PATH: process.env['PATH'] }

const ip = (...args: string[]): string => execFileSync('ip', args, { encoding: 'utf8' })

/** The volume: a file in the sandbox that becomes a loop device wherever it is attached. */
export class Volume {
  readonly #box: Sandbox
  readonly directory: string
  #image: string
  #device = ''
  #copies = 0

  /** `directory` is its mount point on every machine, and its first content. */
  constructor(box: Sandbox, directory: string) {
    this.#box = box
    this.directory = directory
    this.#image = box.path('volume-0')
    execFileSync('truncate', ['--size', '2G', this.#image])
    execFileSync('mkfs.ext4', ['-q', '-F', '-J', 'size=16', '-E', 'root_owner=0:0', '-d', directory, this.#image])
  }

  /** Mounts it on a machine. */
  attach(machine: PairMachine): void {
    const device = execFileSync('losetup', ['--find', '--show', this.#image], { encoding: 'utf8' }).trim()
    try {
      machine.do('mount', device, this.directory)
      this.#device = device
      // mke2fs gives the root directory its own mode.
      machine.do('chmod', '700', this.directory)
    } finally {
      // The device is free after the last unmount.
      execFileSync('losetup', ['--detach', device])
    }
  }

  /** Mounts it on a second machine at the same time: the same file system, so that this destroys nothing. */
  share(machine: PairMachine): void {
    machine.do('mount', this.#device, this.directory)
  }

  /** Unmounts it. Throws while a process uses it. */
  detach(machine: PairMachine): void {
    machine.do('umount', this.directory)
  }

  /** Returns a function that fails the volume on a machine at once, and resolves when every call there has failed. */
  async armed(machine: PairMachine): Promise<() => Promise<void>> {
    const enter = ['--target', String(machine.init), '--mount', '--', '/usr/bin/python3', '-c', SHUTDOWN]
    const child = spawn('nsenter', [...enter, this.directory], { stdio: ['pipe', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => void (said += chunk.toString()))
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    await becomes(() => said.includes('armed'), 'the shutdown')
    return async () => {
      child.stdin.end('\n')
      await ended
      if (!said.includes('failed')) throw new Error('the volume did not fail')
    }
  }

  /** After a failure: the content at that moment, as the other machine gets it. The failed mount keeps its own. */
  renew(): void {
    const former = this.#image
    this.#image = this.#copied(`volume-${++this.#copies}`)
    rmSync(former)
  }

  /** A copy of the database at this moment: the folder of it and of its log. The volume is not changed. */
  database(): string {
    const [mounted, to] = [this.#box.path('mounted'), this.#box.path('read')]
    const script = 'rm -rf "$3" && mkdir -p "$2" "$3" && mount -o loop "$1" "$2" && cp "$2"/postrider.db* "$3"'
    execFileSync('unshare', ['--mount', 'sh', '-c', script, 'read', this.#copied('volume-read'), mounted, to])
    return to
  }

  #copied(name: string): string {
    const copy = this.#box.path(name)
    execFileSync('cp', ['--sparse=always', this.#image, copy])
    return copy
  }
}

/** A run of `postrider standby`. */
interface Run {
  said: string
  /** The exit code, or the signal, with the time (performance.now). */
  ended?: { code: unknown; at: number }
}

export interface PairMachineOptions {
  box: Sandbox
  name: string
  /** Of eth0, without the prefix. */
  address: string
  /** 32 hexadecimal digits. */
  id: string
  /** The command line of Postrider, without its command. */
  program: readonly string[]
}

export class PairMachine {
  readonly name: string
  readonly init: number
  readonly #daemon: Daemon
  readonly #options: PairMachineOptions
  readonly runs: Run[] = []
  /** The present loop of standbys. */
  #loop: object | undefined
  #child: ChildProcess | undefined

  static async boot(options: PairMachineOptions): Promise<PairMachine> {
    const { address, box, id, name } = options
    const spaces = ['--mount', '--propagation', 'private', '--pid', '--net', '--uts', '--ipc', '--fork', '--kill-child']
    const daemon = box.daemon('unshare', [...spaces, 'sh', '-c', BOOT, 'boot', name, id, box.dir], `${name}.log`)
    const isUp = (): number => {
      const init = initBelow(daemon.pid)
      return init > 0 && readFileSync(`/proc/${init}/comm`, 'utf8') === 'sleep\n' ? init : 0
    }
    const init = await becomes(
      () => isUp(),
      () => `${name}: ${box.read(`${name}.log`)}`,
    )
    ip('link', 'add', `${name}0`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(init))
    ip('link', 'set', `${name}0`, 'master', BRIDGE, 'up')
    const machine = new PairMachine(options, daemon, init)
    machine.do('ip', 'link', 'set', 'lo', 'up')
    machine.do('ip', 'address', 'add', withPrefix(address), 'dev', 'eth0')
    machine.do('ip', 'link', 'set', 'eth0', 'up')
    return machine
  }

  private constructor(options: PairMachineOptions, daemon: Daemon, init: number) {
    this.name = options.name
    this.#options = options
    this.#daemon = daemon
    this.init = init
  }

  #inside(command: readonly string[]): string[] {
    return ['--target', String(this.init), '--mount', '--uts', '--ipc', '--net', '--pid', '--', ...command]
  }

  /** Runs a program to its end. Throws if it fails. */
  do(...command: string[]): string {
    return execFileSync('nsenter', this.#inside(command), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  }

  /** Starts a program. */
  begin(...command: string[]): { child: ChildProcess; run: Run } {
    const child = spawn('nsenter', this.#inside(command), { stdio: ['ignore', 'pipe', 'pipe'], env: ENVIRONMENT })
    const run: Run = { said: '' }
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (run.said += text))
    child.once('close', (code, signal) => (run.ended = { code: signal ?? code, at: performance.now() }))
    return { child, run }
  }

  get program(): readonly string[] {
    return this.#options.program
  }

  /** Runs a command of Postrider to its end. */
  async postrider(...args: string[]): Promise<{ code: unknown; said: string }> {
    const { run } = this.begin(...this.#options.program, ...args)
    const { code } = await becomes(() => run.ended, args.join(' '), 60_000)
    return { code, said: run.said }
  }

  /** Runs `postrider standby` and restarts it when it ends, as the unit does, until the machine is stopped. */
  standBy(...args: string[]): void {
    const loop = (this.#loop = {})
    const again = (): void => {
      if (this.#loop !== loop) return
      const { child, run } = this.begin(...this.#options.program, 'standby', ...args)
      this.#child = child
      this.runs.push(run)
      child.once('close', () => void pause(RESTART).then(again))
    }
    again()
  }

  /** Ends the standby, which is not restarted. */
  async end(): Promise<void> {
    this.#loop = undefined
    const run = this.runs.at(-1)
    if (!run || run.ended) return
    // nsenter passes no signals on.
    process.kill(await becomes(() => childrenOf(this.#child!.pid!)[0], 'the standby'), 'SIGTERM')
    await becomes(() => run.ended, `the end of ${this.name}`)
  }

  /** Adds the address that moves. */
  addAddress(address: string): void {
    this.do('ip', 'address', 'add', withPrefix(address), 'dev', 'eth0')
    // The gratuitous ARP of keepalived and IPaddr2 does this.
    ip('neighbour', 'flush', 'dev', BRIDGE)
  }

  removeAddress(address: string): void {
    this.do('ip', 'address', 'delete', withPrefix(address), 'dev', 'eth0')
  }

  /** Cuts or restores the link. */
  link(state: 'up' | 'down'): void {
    ip('link', 'set', `${this.name}0`, state)
  }

  /** Cuts the link and kills every process. */
  async crash(): Promise<void> {
    this.#loop = undefined
    this.link('down')
    process.kill(this.init, 'SIGKILL')
    await this.#daemon.exited
    // The namespace may stay a while.
    ip('link', 'delete', `${this.name}0`)
  }

  async stop(): Promise<void> {
    this.#loop = undefined
    this.#child?.removeAllListeners('close')
    await this.#daemon.stop()
  }
}
