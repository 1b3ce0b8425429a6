// One worker thread and its jobs, as base/threads/supervisor.ts sees them.
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { youngHere } from '../memory.ts'
import { SOURCES, unpackSource } from './packed-sources.ts'
import { ThreadCpu } from './thread-cpu.ts'

export interface Task<Job = unknown> {
  id: number
  job: Job
  /** CPU time that the job may use, in ms. Undefined: no limit. */
  cpu: number | undefined
  resolve: (value: unknown) => void
  reject: (error: Error) => void
}

/** Usual jobs, or jobs that may take long. */
export type ThreadLane = 'usual' | 'slow'

export interface Question {
  /** The number of the question. 0 if the worker expects no answer. */
  question: number
  ask: unknown
}

/** The message of a worker that has loaded. */
export interface Ready {
  ready: true
}

export interface Reply {
  id: number
  value?: unknown
  error?: string
  /** The code of a system error, or of corrupt data. */
  code?: string
}

export interface Ears<Each extends Task> {
  replied: (slot: WorkerSlot<Each>, replies: Reply[]) => void
  asked: (slot: WorkerSlot<Each>, question: Question) => void
  ended: (slot: WorkerSlot<Each>, cause: Error | undefined) => void
}

/**
 * The CPU time (`ms`) of the job whose turn it is. `idle`: the time (ms) in which the thread has reported no CPU time,
 * or used none, because the job waits in its turn.
 */
export interface Spent {
  job: number
  ms: number
  idle: number
}

/** A thread that used up to this much CPU time (microseconds) counts as idle: reporting the CPU time costs less. */
const NONE = 1000

export class WorkerSlot<Each extends Task = Task> {
  readonly worker: Worker
  readonly pending = new Map<number, Each>()
  lane: ThreadLane
  ready = false
  retirement: NodeJS.Timeout | undefined
  readonly #cpu = new ThreadCpu()
  #outbox: { id: number; job: unknown }[] = []
  #seen = 0
  #asking: { since: number } | undefined
  /** The last time that the thread made progress in the present turn, and its CPU time then. */
  #worked = { job: 0, cpu: 0, at: 0 }

  /** Starts the thread. Throws when the machine can start no more threads. */
  constructor(source: URL, heapMb: number, lane: ThreadLane, ears: Ears<Each>) {
    this.lane = lane
    this.worker = startWorker(source, heapMb, this.#cpu.memory)
    this.worker.on('message', (message: Reply[] | Question | Ready) => {
      if ('ready' in message) this.ready = true
      else if ('question' in message) ears.asked(this, message)
      else ears.replied(this, message)
    })
    let cause: Error | undefined
    this.worker.on('error', (error) => (cause = error as Error))
    this.worker.on('exit', () => ears.ended(this, cause))
  }

  /** Gives the thread a job. All jobs of one turn of the event loop are sent in one message. */
  take(task: Each): void {
    const { id, job } = task
    this.pending.set(id, task)
    clearTimeout(this.retirement)
    // A worker keeps the process alive only while it has jobs.
    this.worker.ref()
    if (this.#outbox.push({ id, job }) === 1) setImmediate(() => this.#post())
  }

  #post(): void {
    // `release` may have taken the jobs away again.
    if (this.#outbox.length > 0) this.worker.postMessage({ jobs: this.#outbox.splice(0) })
  }

  /** Takes jobs away from the thread. Later messages about them are ignored. */
  release(which: (task: Each) => boolean = () => true): Each[] {
    const released = [...this.pending.values()].filter(which)
    for (const { id } of released) this.pending.delete(id)
    this.#outbox = this.#outbox.filter(({ id }) => this.pending.has(id))
    return released
  }

  get turn(): Each | undefined {
    return this.pending.get(this.#cpu.read().job)
  }

  /**
   * The cost of the present job, or undefined unless it was already the present job at the last call, so that short
   * jobs are never measured.
   */
  async spent(now: number): Promise<Spent | undefined> {
    const { job } = this.#cpu.read()
    const again = job !== 0 && job === this.#seen
    this.#seen = job
    if (!again) return undefined
    // A thread inside a call of the system or of a library answers only after that call.
    if (this.#asking) return { job, ms: 0, idle: now - this.#asking.since }
    this.#asking = { since: now }
    const used = await this.worker.cpuUsage().catch(() => undefined)
    this.#asking = undefined
    const turn = this.#cpu.read()
    if (!used || turn.job !== job) return undefined
    const cpu = used.user + used.system
    return { job, ms: (cpu - turn.began + turn.spent) / 1000, idle: this.#idle(job, cpu, now) }
  }

  #idle(job: number, cpu: number, now: number): number {
    const last = this.#worked
    const works = last.job !== job || cpu - last.cpu > NONE
    this.#worked = { job, cpu, at: works ? now : last.at }
    return now - this.#worked.at
  }
}

/** node:sea in the single executable, else undefined. */
export function singleExecutable():
  | { getAsset(name: string, encoding: 'utf8'): string; getRawAsset(name: string): ArrayBuffer }
  | undefined {
  const sea = createRequire(import.meta.url)('node:sea') as typeof import('node:sea')
  return sea.isSea() ? (sea as never) : undefined
}

function startWorker(source: URL, heapMb: number, cpu: SharedArrayBuffer): Worker {
  const sea = singleExecutable()
  const resourceLimits = { maxYoungGenerationSizeMb: youngHere(), maxOldGenerationSizeMb: heapMb }
  const options = { resourceLimits, workerData: { cpu } }
  if (!sea) return new Worker(source, options)
  const name = source.pathname.split('/').at(-1)!.replace(/\.ts$/, '.mjs')
  return new Worker(unpackSource(new Uint8Array(sea.getRawAsset(SOURCES)), name), { eval: true, ...options })
}
