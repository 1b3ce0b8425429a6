// The resources that processes used, as the kernel counts them (proc(5)).
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Linux counts in ticks of 10 ms regardless of its own clock (USER_HZ), but rounds each process, not each slice, down.
 */
const TICK_MS = 10

const read = (pid: number | string, file: string): string => readFileSync(`/proc/${pid}/${file}`, 'latin1')

/** The fields of `stat` after the name, which may hold anything: state, parent, group, ... */
function statOf(pid: number | string): string[] {
  const line = read(pid, 'stat')
  return line.slice(line.lastIndexOf(')') + 2).split(' ')
}

function cpuOf(fields: readonly string[], withChildren: boolean): number {
  const times = fields.slice(11, withChildren ? 15 : 13)
  return times.reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS
}

/** User and system time of all threads of a process. */
export const processCpuMs = (pid: number): number => cpuOf(statOf(pid), false)

/** CPU time of this process and of its reaped child processes: of a load generator, while it is the only one. */
export const driverCpuMs = (): number => cpuOf(statOf('self'), true)

/** The bytes that a process and its reaped children have written to the disk, in KB. */
export const writtenKb = (pid: number | string): number =>
  Number(/^write_bytes: (\d+)/m.exec(read(pid, 'io'))![1]) / 1024

/** The bytes that a process has read, including sockets, in KB. */
export const readKb = (pid: number): number => Number(/^rchar: (\d+)/m.exec(read(pid, 'io'))![1]) / 1024

/** The peak of a process's memory since it was last reset (clear_refs), in MB. */
export const peakRssMb = (pid: number): number => Number(/VmHWM:\s+(\d+)/.exec(read(pid, 'status'))![1]) / 1000

/** The memory of malloc's main area ("[heap]" of smaps), in MB. */
export const heapMb = (pid: number): number =>
  Number(/\[heap\]\n(?:.*\n)*?Rss: +(\d+) kB/.exec(read(pid, 'smaps'))?.[1] ?? 0) / 1000

/** The private memory of a process ("RssAnon"), in MB, or 0 if it has ended. */
export function ownMb(pid: number): number {
  try {
    return Number(/^RssAnon:\s+(\d+) kB/m.exec(read(pid, 'status'))?.[1] ?? 0) / 1000
  } catch {
    return 0
  }
}

/** The private memory of a process and its share of the rest ("Pss"), in MB. */
export const sharedMb = (pid: number): number =>
  Number(/^Pss:\s+(\d+)/m.exec(read(pid, 'smaps_rollup'))?.[1] ?? 0) / 1000

/** Runs a program to its end and returns its usage (getrusage(2), which Node does not report for children). */
export function costOf(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): { cpuMs: number; peakRssMb: number } {
  const script = `import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)`
  const said = execFileSync('/usr/bin/python3', ['-c', script, program, ...args], { env, encoding: 'utf8' })
  const [seconds, kb] = said.split(' ').map(Number)
  return { cpuMs: seconds! * 1000, peakRssMb: kb! / 1000 }
}

export interface GroupUsage {
  cpuMs: number
  writtenKb: number
  /** The private memory of each process and its share of the rest (PSS). */
  memoryMb: number
}

/** The processes of process groups. */
export function pidsOf(groups: readonly number[]): number[] {
  const inGroup = (pid: string): boolean => {
    try {
      return groups.includes(Number(statOf(pid)[2]))
    } catch {
      // It has ended in the meantime.
      return false
    }
  }
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid) && inGroup(pid))
    .map(Number)
}

/**
 * The usage of process groups from now on, including processes that they start. A control group counts the CPU time:
 * ticks of a hundred processes, each rounded down, would be a quarter too few. Without control groups, ticks are used.
 */
export class WatchedGroups {
  readonly #groups: readonly number[]
  readonly #folder: string | undefined

  constructor(groups: readonly number[]) {
    this.#groups = groups
    try {
      this.#folder = controlGroup('cpuacct', `postrider-bench-${groups[0]}`)
      for (const pid of pidsOf(groups)) writeFileSync(join(this.#folder, 'cgroup.procs'), String(pid))
    } catch {
      // Not for us: no right to, or no file system of control groups.
    }
  }

  usage(): GroupUsage {
    const usage: GroupUsage = { cpuMs: 0, writtenKb: 0, memoryMb: 0 }
    for (const pid of pidsOf(this.#groups))
      try {
        usage.cpuMs += cpuOf(statOf(pid), true)
        usage.writtenKb += writtenKb(pid)
        usage.memoryMb += sharedMb(pid)
      } catch {
        // It has ended in the meantime.
      }
    return this.#folder === undefined ? usage : { ...usage, cpuMs: accountedMs(this.#folder) }
  }

  /** After the processes have ended. */
  close(): void {
    if (this.#folder === undefined) return
    try {
      rmdirSync(this.#folder)
    } catch {
      // The last one is not reaped yet. An empty group is harmless.
    }
  }
}

/** Whether control groups are those of version 1. */
export const V1 = existsSync('/sys/fs/cgroup/memory')

/**
 * Makes a control group and returns its directory. In version 1, of one controller, because each has a separate tree.
 */
export function controlGroup(controller: 'memory' | 'cpu' | 'cpuacct', name: string): string {
  const folder = join('/sys/fs/cgroup', V1 ? controller : '', name)
  mkdirSync(folder)
  return folder
}

function accountedMs(folder: string): number {
  if (V1) return Number(readFileSync(join(folder, 'cpuacct.usage'), 'latin1')) / 1e6
  return Number(/^usage_usec (\d+)/m.exec(readFileSync(join(folder, 'cpu.stat'), 'latin1'))![1]) / 1000
}

/** Pins all threads of a process, including future ones, to some cores: "0", "0,1", "0-3". */
export const pin = (pid: number, cores: string): void =>
  void execFileSync('taskset', ['-a', '-p', '-c', cores, String(pid)], { stdio: ['ignore', 'ignore', 'pipe'] })
