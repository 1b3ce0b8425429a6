// Supervises worker threads of one kind: starts them, gives them jobs and hands out the results, answers their
// questions, checks the CPU time of their jobs, stops idle threads, and stops all threads when it is closed.
//
// There are two lanes of threads: for usual jobs, and for jobs that may take long. The user of this class decides how
// the jobs of a dead thread continue: base/threads/pool.ts runs them again on another thread. In
// delivery/wire/workers.ts they fail.
import { codeOf } from '../errors.ts'
import { heapHere } from '../memory.ts'
import { WorkerSlot, type ThreadLane, type Question, type Reply, type Task } from './worker-slot.ts'

/** A worker died during the job, or the job never got its turn. */
export class WorkerLost extends Error {}

/** The worker died because its heap was full. */
export class OutOfMemory extends WorkerLost {}

/** No worker can be started (too few threads, descriptors or memory), or all are closed. The job was not started. */
export class NoWorker extends WorkerLost {
  /** The code of pthread_create(3), which is a problem of this machine (D72). */
  readonly code = 'EAGAIN'
}

/** The job exceeded its CPU time. Its worker was ended. */
export class TookTooLong extends Error {}

/** An error that the job itself threw, with its code if it is a system error or about corrupt data. */
export class JobFailed extends Error {
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

export interface Rules<Each extends Task> {
  /** The worker's module. In the single executable it is the asset with the same base name. */
  source: URL
  /** JavaScript heap of each thread, in MB. Smaller on a machine with little memory. */
  heapMb?: number | undefined
  /** The most threads of each lane. */
  most: Record<ThreadLane, number>
  answer?: ((ask: unknown, slot: WorkerSlot<Each>) => Promise<unknown>) | undefined
  /** Takes a message of a worker that expects no answer. */
  told?: (slot: WorkerSlot<Each>, news: unknown) => void
  /** The load of a thread. At 0 it is idle, and is stopped after a while. */
  load: (slot: WorkerSlot<Each>) => number
  /** Called when jobs of a thread are done, before their results are handed out. */
  freed?: (slot: WorkerSlot<Each>) => void
  /** Called with the jobs of a thread that died. `culprit`: the job whose turn it was. */
  lost: (slot: WorkerSlot<Each>, jobs: Each[], why: WorkerLost, culprit: Each | undefined) => void
  /** Called while a job takes long. `over`: it exceeded its CPU time, and was rejected. Its thread must be ended. */
  long: (slot: WorkerSlot<Each>, job: Each, over: boolean) => void
}

const HEAP_MB = 1024
/** A thread is stopped after this idle time (ms), so that an idle server has no threads. */
const IDLE = 60_000
/** The end of the threads is waited for this long (ms). */
const ENDING = 1000
/** A job that used this much CPU time (ms) takes long. */
const BRIEF = 250
/** How often busy threads are checked, in ms. */
const LOOK = 50
/**
 * A job whose thread reports no CPU time, or uses none, exceeds its limit of CPU time after this many times the limit.
 */
const SILENCE = 10

const ending = new Set<object>()

/** Whether threads did not stop. If so, process.exit() would wait for them forever. */
export const areThreadsLeft = (): boolean => ending.size > 0

export class Supervisor<Each extends Task> {
  /** The threads that have not ended. */
  readonly slots = new Set<WorkerSlot<Each>>()
  closed = false
  readonly #rules: Rules<Each>
  #look: NodeJS.Timeout | undefined

  constructor(rules: Rules<Each>) {
    this.#rules = rules
  }

  /** Whether another thread may be in a lane. */
  hasRoom(lane: ThreadLane): boolean {
    let count = 0
    for (const slot of this.slots) if (slot.lane === lane) count++
    return count < this.#rules.most[lane]
  }

  /** The thread of a lane with the least load. A new one when all are occupied and there is room. Throws NoWorker. */
  freest(lane: ThreadLane): WorkerSlot<Each> {
    if (this.closed) throw new NoWorker('The server is stopping.')
    const { load } = this.#rules
    let freest: WorkerSlot<Each> | undefined
    for (const slot of this.slots) if (slot.lane === lane && (!freest || load(slot) < load(freest))) freest = slot
    return freest && (load(freest) === 0 || !this.hasRoom(lane)) ? freest : this.#start(lane)
  }

  give(slot: WorkerSlot<Each>, job: Each): void {
    slot.take(job)
    this.#watch()
  }

  /** Ends a thread soon, when it is free and gets no more jobs. */
  rest(slot: WorkerSlot<Each>): void {
    if (!this.slots.has(slot) || slot.pending.size > 0 || this.#rules.load(slot) > 0) return
    clearTimeout(slot.retirement)
    slot.retirement = setTimeout(() => void this.end(slot), IDLE).unref()
  }

  /** Stops a thread. `lost` is not called: first remove its jobs. */
  async end(slot: WorkerSlot<Each>): Promise<void> {
    this.slots.delete(slot)
    clearTimeout(slot.retirement)
    ending.add(slot)
    await slot.worker.terminate()
    ending.delete(slot)
  }

  /**
   * Stops all threads. Their jobs fail with NoWorker. A thread in a blocking system call cannot be stopped, so the wait
   * for it is short (`areThreadsLeft`).
   */
  async close(): Promise<void> {
    this.closed = true
    clearTimeout(this.#look)
    const why = new NoWorker('The server is stopping.')
    const slots = [...this.slots]
    for (const slot of slots) this.#rules.lost(slot, slot.release(), why, undefined)
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, ENDING)
    await Promise.race([Promise.all(slots.map((slot) => this.end(slot))), late.promise])
    clearTimeout(timer)
  }

  #start(lane: ThreadLane): WorkerSlot<Each> {
    const { heapMb = HEAP_MB, source } = this.#rules
    try {
      const slot = new WorkerSlot<Each>(source, heapHere(heapMb), lane, {
        replied: (from, replies) => this.#replied(from, replies),
        asked: (from, question) => void this.#asked(from, question),
        ended: (from, cause) => this.#ended(from, cause),
      })
      this.slots.add(slot)
      return slot
    } catch (thrown) {
      throw new NoWorker('No worker thread can be started.', { cause: thrown })
    }
  }

  #replied(slot: WorkerSlot<Each>, replies: Reply[]): void {
    const done = replies.map((reply) => {
      const job = slot.pending.get(reply.id)
      slot.pending.delete(reply.id)
      return { job, reply }
    })
    this.#rules.freed?.(slot)
    // A thread without jobs does not keep the process alive.
    if (slot.pending.size === 0) slot.worker.unref()
    this.rest(slot)
    for (const { job, reply } of done)
      if (reply.error === undefined) job?.resolve(reply.value)
      else job?.reject(new JobFailed(reply.error, reply.code ?? ''))
  }

  async #asked(slot: WorkerSlot<Each>, { ask, question }: Question): Promise<void> {
    if (question === 0) return this.#rules.told?.(slot, ask)
    slot.worker.postMessage({ question, answer: await this.#rules.answer?.(ask, slot).catch(() => undefined) })
  }

  #ended(slot: WorkerSlot<Each>, cause: Error | undefined): void {
    // `end` has stopped it.
    if (!this.slots.delete(slot)) return
    clearTimeout(slot.retirement)
    const reason = cause?.message ?? 'The worker stopped.'
    const Lost = codeOf(cause) === 'ERR_WORKER_OUT_OF_MEMORY' ? OutOfMemory : WorkerLost
    const why = slot.ready
      ? new Lost(reason, { cause })
      : new NoWorker(`The worker thread did not start: ${reason}`, { cause })
    const { turn } = slot
    this.#rules.lost(slot, slot.release(), why, turn)
  }

  #watch(): void {
    this.#look ??= setTimeout(() => void this.#lookAround(), LOOK).unref()
  }

  async #lookAround(): Promise<void> {
    const busy = [...this.slots].filter(({ pending }) => pending.size > 0)
    const now = performance.now()
    this.#look = undefined
    if (busy.length === 0 || this.closed) return
    this.#watch()
    await Promise.all(busy.map((slot) => this.#judge(slot, now)))
  }

  /** Checks the cost of a thread's present job. */
  async #judge(slot: WorkerSlot<Each>, now: number): Promise<void> {
    const spent = await slot.spent(now)
    const job = spent && slot.pending.get(spent.job)
    if (!job || job.cpu === undefined) return
    const exceeds = (limit: number): boolean => spent.ms > limit || spent.idle > limit * SILENCE
    const over = exceeds(job.cpu)
    if (over) {
      slot.release((each) => each === job)
      job.reject(new TookTooLong(`It took more than ${job.cpu} ms of CPU time, or waited ${SILENCE} times as long.`))
    }
    if (over || exceeds(BRIEF)) this.#rules.long(slot, job, over)
  }
}
