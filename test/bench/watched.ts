// A command of the built executable, monitored while it runs: its memory, that of its child processes, and its
// progress.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { ownMb, peakRssMb } from './usage.ts'

export const BUILT = process.env['POSTRIDER_BUILT'] ?? fileURLToPath(new URL('../../dist/postrider', import.meta.url))
/** Between two looks (ms). */
const LOOK = 20

export interface Watched {
  seconds: number
  peakRssMb: number
  /** The highest private memory, without the executable file. */
  ownMb: number
  /** Of the largest child process, or 0 without one. */
  childPeakRssMb: number
  stdout: string
  /** How many lines of progress it wrote on stderr, and the longest time (s) without one. */
  lines: number
  silent: number
}

/** A process that was started elsewhere. */
export interface Started {
  pid: number | undefined
  ended: Promise<unknown>
}

/** Looks at a process and its children until it has ended, and calls `look` as often. */
export async function peaksOf(
  { ended, pid }: Started,
  look: () => void = () => {},
): Promise<Pick<Watched, 'seconds' | 'peakRssMb' | 'ownMb' | 'childPeakRssMb'>> {
  const began = performance.now()
  let over = false
  const end = ended.finally(() => (over = true))
  const peaks = { peakRssMb: 0, ownMb: 0, childPeakRssMb: 0 }
  while (!over && pid !== undefined) {
    peaks.peakRssMb = Math.max(peaks.peakRssMb, peakOf(pid))
    peaks.ownMb = Math.max(peaks.ownMb, ownMb(pid))
    for (const child of childrenOf(pid)) peaks.childPeakRssMb = Math.max(peaks.childPeakRssMb, peakOf(child))
    look()
    await Promise.race([sleep(LOOK), end])
  }
  await end
  return { ...peaks, seconds: (performance.now() - began) / 1000 }
}

/** Runs a command to its end. Throws if it fails. */
export async function watched(
  args: readonly string[],
  env: Record<string, string> = {},
  look?: () => void,
): Promise<Watched> {
  const child = spawn(BUILT, args, { env: { ...SERVER_ENVIRONMENT, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  let last = performance.now()
  let silent = 0
  const heard = (): void => {
    silent = Math.max(silent, (performance.now() - last) / 1000)
    last = performance.now()
  }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    heard()
  })
  const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const peaks = await peaksOf({ pid: child.pid, ended }, look)
  heard()
  if ((await ended) !== 0) throw new Error(`postrider ${args.join(' ')}: ${stdout}${stderr}`)
  return { ...peaks, stdout, lines: stderr.split('\n').length - 1, silent }
}

function peakOf(pid: number): number {
  try {
    return peakRssMb(pid)
  } catch {
    // It has ended.
    return 0
  }
}

function childrenOf(pid: number): number[] {
  const file = `/proc/${pid}/task/${pid}/children`
  return existsSync(file) ? readFileSync(file, 'latin1').split(' ').filter(Boolean).map(Number) : []
}
