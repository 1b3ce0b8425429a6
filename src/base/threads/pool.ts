// Worker threads for work that would block the event loop. A pool runs one kind of worker. A job goes to the worker
// with the fewest jobs. While all workers are busy, another worker is started. A worker without work for a minute is
// ended.
//
// No job harms another. Each job has a budget of CPU time of its thread; waiting for a busy machine does not count.
// When a job has used a quarter of a second, the other jobs of that thread move to another thread, and the job goes on
// in the slow lane, among other slow jobs. When a job exceeds its budget, only this job ends. When a worker dies, only
// the job whose turn it was counts as the cause: it is tried once more, in the slow lane, before it is lost; the other
// jobs run again on another thread.
import { availableParallelism } from 'node:os'
import { WorkerSlot, type Ears, type Question, type Reply, type Task as AnyTask } from './worker-slot.ts'

export { singleExecutable, type Question, type Ready, type Reply } from './worker-slot.ts'

interface Task extends AnyTask {
  /** CPU time that the job may use, in ms; undefined: no limit. */
  cpu: number | undefined
  /** How many threads died during the job's turn, and how often the job was moved because of another job. */
  killed: number
  moved: number
  /** Called when the job takes longer than the others; returns whether the job may go on in the slow lane. */
  outlasts: () => boolean
}

type Slot = WorkerSlot<Task>

/** A worker died during the job, or the job never got its turn. */
export class WorkerLost extends Error {}

/** No worker can be started (too few threads, descriptors or memory), or the pool is closed. The job has not begun. */
export class NoWorker extends WorkerLost {}

/** The job exceeded its CPU time; its worker was ended. */
export class TookTooLong extends Error {}

/** Too many slow jobs at present; this one must be tried later. */
export class PutBack extends Error {}

/** An error that the job itself threw, with its code if it is a system error. */
export class JobFailed extends Error {
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

export interface PoolOptions {
  size?: number | undefined
  /** Answers the questions of workers. */
  answer?: (ask: never) => Promise<unknown>
  /** The CPU time in ms of a job without a CPU time of its own. */
  cpu?: number
  /** JavaScript heap of each worker, in MB. */
  heapMb?: number
}

export interface Effort {
  /** CPU time in ms for this job. */
  cpu?: number
  /** The job starts in the slow lane. */
  slow?: boolean
  /** Called when the job moves to the slow lane; false: it is rejected with PutBack instead. */
  outlasts?: () => boolean
}

/** A worker without work for this long (ms) is ended: an idle server has none. */
const IDLE = 60_000
/** CPU time in ms that a job may use on a thread that it shares with other jobs. */
const BRIEF = 250
/** How often busy threads are checked, in ms. */
const LOOK = 50
/**
 * A job whose thread reports no CPU time, or uses none, counts as over a limit of CPU time after this many times the
 * limit.
 */
const SILENCE = 10
/** A job is lost when threads died this often in its own turn, or when it was moved more often than this. */
const MAX_KILLED = 2
const MAX_MOVED = 20
/** The most jobs of a thread in the slow lane: one job runs, while the others may wait for answers. */
const SLOW_AT_ONCE = 8
const HEAP_MB = 1024

export class Pool<Job, Result> {
  readonly #source: URL
  readonly #options: PoolOptions & { size: number; heapMb: number }
  readonly #slots = new Set<Slot>()
  readonly #slow = new Set<Slot>()
  readonly #queue: Task[] = []
  #next = 1
  #closed = false
  #look: NodeJS.Timeout | undefined

  /** `source` is the worker's module; in the single executable it is the asset with the same base name. */
  constructor(source: URL, options: PoolOptions = {}) {
    this.#source = source
    this.#options = { ...options, size: options.size ?? availableParallelism(), heapMb: options.heapMb ?? HEAP_MB }
  }

  /** The most workers; the slow lane has half as many in addition. */
  get size(): number {
    return this.#options.size
  }

  /**
   * Runs a job. Rejects with TookTooLong, WorkerLost, NoWorker, PutBack, or JobFailed for an error of the job itself.
   */
  run(job: Job, { cpu = this.#options.cpu, outlasts = () => true, slow = false }: Effort = {}): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      const task: Task = { id: this.#next++, job, cpu, killed: 0, moved: 0, outlasts, resolve, reject }
      if (slow) this.#slowly(task)
      else this.#give(task)
    })
  }

  /** Ends all threads. Jobs that have not ended reject with NoWorker. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#look)
    const slots = [...this.#slots, ...this.#slow]
    for (const task of [...slots.flatMap((slot) => slot.release()), ...this.#queue.splice(0)]) this.#give(task)
    await Promise.all(slots.map((slot) => this.#dismiss(slot)))
  }

  #give(task: Task): void {
    if (this.#closed) return task.reject(new NoWorker('The worker pool is closed.'))
    const slot = this.#freest(task)
    if (!slot) return
    slot.take(task)
    this.#watch()
  }

  #freest(task: Task): Slot | undefined {
    let freest: Slot | undefined
    for (const slot of this.#slots) if (!freest || slot.pending.size < freest.pending.size) freest = slot
    if (freest && (freest.pending.size === 0 || this.#slots.size >= this.size)) return freest
    return this.#hire(this.#slots, task)
  }

  #hire(lane: Set<Slot>, task: Task): Slot | undefined {
    const ears: Ears<Task> = {
      replied: (from, replies) => this.#replied(from, replies),
      asked: (from, question) => void this.#answer(from, question),
      ended: (from, cause) => this.#ended(from, cause),
    }
    try {
      const slot = new WorkerSlot<Task>(this.#source, this.#options.heapMb, ears)
      lane.add(slot)
      return slot
    } catch (thrown) {
      task.reject(new NoWorker('No worker thread can be started.', { cause: thrown }))
      return undefined
    }
  }

  async #dismiss(slot: Slot): Promise<void> {
    this.#slots.delete(slot)
    this.#slow.delete(slot)
    clearTimeout(slot.retirement)
    await slot.worker.terminate()
  }

  #replied(slot: Slot, replies: Reply[]): void {
    const settled = replies.map((reply) => {
      const task = slot.pending.get(reply.id)
      slot.pending.delete(reply.id)
      return { task, reply }
    })
    if (this.#slow.has(slot)) this.#nextSlow()
    if (slot.pending.size === 0) {
      if (this.#slow.has(slot)) this.#rejoin(slot)
      slot.worker.unref()
      slot.retirement = setTimeout(() => void this.#dismiss(slot), IDLE).unref()
    }
    for (const { reply, task } of settled)
      if (reply.error === undefined) task?.resolve(reply.value as never)
      else task?.reject(new JobFailed(reply.error, reply.code ?? ''))
  }

  async #answer({ worker }: Slot, { question, ask }: Question): Promise<void> {
    worker.postMessage({ question, answer: await this.#options.answer?.(ask as never).catch(() => undefined) })
  }

  #ended(slot: Slot, cause: Error | undefined): void {
    const { turn: culprit } = slot
    const slow = this.#slow.delete(slot)
    this.#slots.delete(slot)
    clearTimeout(slot.retirement)
    const why = cause?.message ?? 'The worker stopped.'
    for (const task of slot.release())
      if (!slot.ready) task.reject(new NoWorker('The worker thread did not start.', { cause }))
      else if (task !== culprit) this.#move(task, slow)
      else if (++task.killed >= MAX_KILLED) task.reject(new WorkerLost(why))
      else this.#slowly(task)
    if (slow) this.#nextSlow()
  }

  /** Moves a job to another thread, because its thread died or now belongs to a slow job. */
  #move(task: Task, slow: boolean): void {
    if (++task.moved > MAX_MOVED) task.reject(new WorkerLost('Its workers died too often.'))
    else if (slow) this.#slowly(task)
    else this.#give(task)
  }

  #slowly(task: Task): void {
    if (this.#closed) return this.#give(task)
    if (!task.outlasts()) return task.reject(new PutBack('Too many jobs take long.'))
    this.#queue.push(task)
    this.#nextSlow()
  }

  #nextSlow(): void {
    for (let task = this.#queue[0]; task; task = this.#queue[0]) {
      const slot = this.#freestSlow(task)
      if (slot === 'none') return
      this.#queue.shift()
      slot?.take(task)
    }
    this.#watch()
  }

  #freestSlow(task: Task): Slot | 'none' | undefined {
    const [freest] = [...this.#slow].sort((a, b) => a.pending.size - b.pending.size)
    if (freest && (freest.pending.size === 0 || this.#slow.size >= this.#slowSize))
      return freest.pending.size < SLOW_AT_ONCE ? freest : 'none'
    return this.#hire(this.#slow, task)
  }

  get #slowSize(): number {
    return Math.max(1, Math.floor(this.size / 2))
  }

  /** A slow-lane thread without work joins the others, if there is room. */
  #rejoin(slot: Slot): void {
    this.#slow.delete(slot)
    if (this.#slots.size < this.size) this.#slots.add(slot)
    else void this.#dismiss(slot)
  }

  #watch(): void {
    this.#look ??= setTimeout(() => void this.#lookAround(), LOOK).unref()
  }

  async #lookAround(): Promise<void> {
    const slots = [...this.#slots, ...this.#slow].filter(({ pending }) => pending.size > 0)
    const now = performance.now()
    this.#look = undefined
    if (slots.length === 0 || this.#closed) return
    this.#watch()
    await Promise.all(slots.map((slot) => this.#judge(slot, now)))
  }

  /** Checks the cost of a thread's present job. */
  async #judge(slot: Slot, now: number): Promise<void> {
    const spent = await slot.spent(now)
    const task = spent && slot.pending.get(spent.job)
    if (!task || task.cpu === undefined) return
    if (spent.ms > task.cpu || spent.idle > task.cpu * SILENCE) {
      slot.release((each) => each === task)
      task.reject(new TookTooLong(`It took more than ${task.cpu} ms of CPU time, or waited ${SILENCE} times as long.`))
    } else if (this.#slow.has(slot) || (spent.ms <= BRIEF && spent.idle <= BRIEF * SILENCE)) return
    const others = slot.release((each) => each !== task)
    const slow = this.#slow.has(slot)
    if (slot.pending.size > 0 && this.#slow.size < this.#slowSize && task.outlasts()) {
      // The job goes on here; the thread changes lanes instead.
      this.#slots.delete(slot)
      this.#slow.add(slot)
    } else {
      const begun = slot.release()
      void this.#dismiss(slot)
      for (const each of begun) this.#slowly(each)
    }
    for (const other of others) this.#move(other, slow)
    this.#nextSlow()
  }
}
