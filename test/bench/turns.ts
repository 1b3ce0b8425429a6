// Comparisons: the sides take turns, so that other load of the machine affects all, and medians are used.
import type { Driven } from './posts.ts'
import { figure, percentile, type Report, type Server, type Sink } from './rig.ts'
import { processCpuMs, readKb, writtenKb } from './usage.ts'

/** The results of one side in one round. All except durations and memory are per email. */
export interface Round {
  /** Emails per second, until the last one is delivered, or is in the reader's inbox. */
  perSecond: number
  /** Emails per second, until the last one is answered. Absent if emails are not submitted. */
  acceptedPerSecond?: number
  /** Response times of the server, if the generator reports them. */
  acceptedP50Ms?: number
  acceptedP99Ms?: number
  /** CPU of the server with all its threads, or of all processes of the peer. */
  cpuMs: number
  /** CPU of the server's main thread, and the time in which it was not idle: with its waits for the disk. */
  mainCpuMs?: number
  mainBusyMs?: number
  /** KB written to the disk. */
  writtenKb: number
  /** KB that the sink read: the email with its commands. */
  wireKb?: number
  loopP99Ms?: number
  loopMaxMs?: number
  rssMb?: number
  peakRssMb?: number
  pssMb?: number
  /** Commits of the store. Many writes share one. */
  commits?: number
  sinkCpuMs?: number
  /** The load generator, and its CPU time. */
  generator: string
  generatorCpuMs: number
}

const UNITS: Record<keyof Round, [name: string, unit: string]> = {
  perSecond: ['settled', 'mails/s'],
  acceptedPerSecond: ['accepted', 'mails/s'],
  acceptedP50Ms: ['accepted_p50', 'ms'],
  acceptedP99Ms: ['accepted_p99', 'ms'],
  cpuMs: ['cpu_per_mail', 'ms'],
  mainCpuMs: ['main_thread_cpu_per_mail', 'ms'],
  mainBusyMs: ['main_thread_busy_per_mail', 'ms'],
  writtenKb: ['written_per_mail', 'KB'],
  wireKb: ['on_the_wire_per_mail', 'KB'],
  loopP99Ms: ['event_loop_p99', 'ms'],
  loopMaxMs: ['event_loop_max', 'ms'],
  rssMb: ['rss', 'MB'],
  peakRssMb: ['peak_rss', 'MB'],
  pssMb: ['pss', 'MB'],
  commits: ['commits_per_mail', ''],
  sinkCpuMs: ['sink_cpu_per_mail', 'ms'],
  generator: ['generator', ''],
  generatorCpuMs: ['generator_cpu_per_mail', 'ms'],
}

/** The rounds of each side, in turn. The medians of each figure. */
export async function inTurn<Sides extends Record<string, () => Promise<Round>>>(
  rounds: number,
  sides: Sides,
): Promise<{ [Side in keyof Sides]: Round }> {
  const all = new Map<string, Round[]>(Object.keys(sides).map((side) => [side, []]))
  for (let turn = 0; turn < rounds; turn++) for (const [side, each] of all) each.push(await sides[side]!())
  return Object.fromEntries([...all].map(([side, each]) => [side, medians(each)])) as { [Side in keyof Sides]: Round }
}

function medians(rounds: readonly Round[]): Round {
  const names = Object.keys(rounds[0]!) as (keyof Round)[]
  const median = (name: keyof Round): unknown =>
    name === 'generator'
      ? rounds[0]!.generator
      : percentile(
          rounds.map((each) => each[name] ?? Number.NaN),
          0.5,
        )
  return Object.fromEntries(names.map((name) => [name, median(name)])) as unknown as Round
}

/** Prints every figure of a side. */
export function tell(bench: string, side: string, round: Round): void {
  for (const [name, [title, unit]] of Object.entries(UNITS) as [keyof Round, [string, string]][]) {
    const value = round[name]
    if (value !== undefined) figure(bench, `${side}_${title}`, value, unit)
  }
}

/** Measures `count` emails of a server: `drive` hands them in, `settle` waits for the last one. */
export async function measured(
  server: Server,
  count: number,
  { drive, settle, sink }: { drive: () => Promise<Driven>; settle: () => Promise<unknown>; sink?: Sink },
): Promise<Round> {
  const before = await server.ask('report')
  const written = writtenKb(server.pid)
  const sunk = sink?.pid === undefined ? undefined : sinkUsage(sink.pid)
  await server.ask('reset')
  const { startedAt, wallMs, latencies, generator, generatorCpuMs } = await drive()
  await settle()
  const settledMs = performance.now() - startedAt
  // Pending writes are part of the round.
  await new Promise((resolve) => setTimeout(resolve, 300))
  const after = await server.ask('report')
  const each = (name: 'cpuMs' | 'mainCpuMs' | 'mainBusyMs'): number => (after[name] - before[name]) / count
  const { loopP99Ms, loopMaxMs, rssMb, peakRssMb }: Report = after
  return {
    perSecond: (count / settledMs) * 1000,
    ...(wallMs === 0 ? {} : { acceptedPerSecond: (count / wallMs) * 1000 }),
    ...(latencies.length === 0
      ? {}
      : { acceptedP50Ms: percentile(latencies, 0.5), acceptedP99Ms: percentile(latencies, 0.99) }),
    cpuMs: each('cpuMs'),
    mainCpuMs: each('mainCpuMs'),
    mainBusyMs: each('mainBusyMs'),
    writtenKb: (writtenKb(server.pid) - written) / count,
    ...sunk?.(count),
    commits: (after.statements['commit']?.calls ?? 0) / count,
    loopP99Ms,
    loopMaxMs,
    rssMb,
    peakRssMb,
    generator,
    generatorCpuMs: generatorCpuMs / count,
  }
}

/** The bytes that a sink reads and its CPU time from now on, for each of `count` emails. */
export function sinkUsage(pid: number): (count: number) => { wireKb: number; sinkCpuMs: number } {
  const [kb, cpuMs] = [readKb(pid), processCpuMs(pid)]
  return (count) => ({ wireKb: (readKb(pid) - kb) / count, sinkCpuMs: (processCpuMs(pid) - cpuMs) / count })
}
