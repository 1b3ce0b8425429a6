// Worker threads for work that would block the event loop. A pool runs one kind of worker. A job goes to the worker
// with the fewest jobs. While all workers are busy, another worker is started. A worker without work for a minute is
// stopped.
//
// Jobs do not affect each other:
// - Each job has a budget of CPU time of its thread. Waiting for a busy machine does not count.
// - If a job has used a quarter of a second, the other jobs of that thread move to another thread. The job continues in
//   the slow lane, among other slow jobs.
// - If a job exceeds its budget, only this job fails.
// - If a worker dies, only the job whose turn it was counts as the cause. It is retried once, in the slow lane, before
//   it fails. The other jobs run again on another thread.
import { threadsHere } from '../memory.ts'
import { NoWorker, OutOfMemory, Supervisor, WorkerLost } from './supervisor.ts'
import type { ThreadLane, Task as AnyTask, WorkerSlot } from './worker-slot.ts'

export { JobFailed, NoWorker, OutOfMemory, TookTooLong, WorkerLost } from './supervisor.ts'
export { singleExecutable, type Question, type Ready, type Reply } from './worker-slot.ts'

interface PoolTask extends AnyTask {
  /** How many threads died during the job's turn, and how often the job was moved because of another job. */
  killed: number
  moved: number
  /** Called when the job takes longer than the others. Returns whether the job may go on in the slow lane. */
  outlasts: () => boolean
  heapOnce: boolean
}

type Slot = WorkerSlot<PoolTask>

/** Too many slow jobs at present. This one must be tried later. */
export class PutBack extends Error {}

export interface PoolOptions {
  size?: number | undefined
  answer?: (ask: unknown) => Promise<unknown>
  /** The CPU time in ms of a job without a CPU time of its own. */
  cpu?: number
  /** JavaScript heap of each worker, in MB. Smaller on a machine with little memory. */
  heapMb?: number
}

export interface Effort {
  /** CPU time in ms for this job. */
  cpu?: number
  /** The job starts in the slow lane. */
  slow?: boolean
  /** Called when the job moves to the slow lane. If it returns false, the job is rejected with PutBack instead. */
  outlasts?: () => boolean
  /** The job is lost with OutOfMemory when it first fills the heap of its thread. */
  heapOnce?: boolean
}

/** A job is lost when threads died this often in its own turn, or when it was moved more often than this. */
const MAX_KILLED = 2
const MAX_MOVED = 20
/** The most jobs of a thread in the slow lane: one job runs, while the others may wait for answers. */
const SLOW_AT_ONCE = 8

export class Pool<Job, Result> {
  readonly #cpu: number | undefined
  readonly #threads: Supervisor<PoolTask>
  readonly #queue: PoolTask[] = []
  #next = 1
  /** The most workers. The slow lane has half as many in addition. */
  readonly size: number

  /** `source` is the worker's module. In the single executable it is the asset with the same base name. */
  constructor(source: URL, { answer, cpu, heapMb, size = threadsHere(1) }: PoolOptions = {}) {
    this.#cpu = cpu
    this.size = size
    this.#threads = new Supervisor<PoolTask>({
      source,
      heapMb,
      answer,
      most: { usual: size, slow: Math.max(1, Math.floor(size / 2)) },
      load: ({ pending }) => pending.size,
      freed: (slot) => this.#freed(slot),
      lost: (slot, tasks, why, culprit) => this.#lost(slot, tasks, why, culprit),
      long: (slot, task, over) => this.#long(slot, task, over),
    })
  }

  /**
   * Runs a job. Rejects with TookTooLong, WorkerLost, OutOfMemory, NoWorker, PutBack, or JobFailed for an error of the
   * job itself.
   */
  run(
    job: Job,
    { cpu = this.#cpu, heapOnce = false, outlasts = () => true, slow = false }: Effort = {},
  ): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      const done = (value: unknown): void => resolve(value as Result)
      const task: PoolTask = {
        id: this.#next++,
        job,
        cpu,
        killed: 0,
        moved: 0,
        outlasts,
        heapOnce,
        resolve: done,
        reject,
      }
      if (slow) this.#slowly(task)
      else this.#give(task)
    })
  }

  /** Stops all threads. Unfinished jobs reject with NoWorker. */
  async close(): Promise<void> {
    const closed = this.#threads.close()
    this.#nextSlow()
    await closed
  }

  #give(task: PoolTask): void {
    const slot = this.#freest('usual', task)
    if (slot) this.#threads.give(slot, task)
  }

  /** The thread for a job. Rejects the job if there is no thread. */
  #freest(lane: ThreadLane, task: PoolTask): Slot | undefined {
    try {
      return this.#threads.freest(lane)
    } catch (thrown) {
      task.reject(thrown as NoWorker)
      return undefined
    }
  }

  #freed(slot: Slot): void {
    if (slot.lane === 'usual') return
    this.#nextSlow()
    if (slot.pending.size > 0) return
    // A slow-lane thread without work joins the others, if there is room.
    if (this.#threads.hasRoom('usual')) slot.lane = 'usual'
    else void this.#threads.end(slot)
  }

  #lost(slot: Slot, tasks: PoolTask[], why: WorkerLost, culprit: PoolTask | undefined): void {
    for (const task of tasks)
      if (why instanceof NoWorker) task.reject(why)
      else if (task !== culprit) this.#move(task, slot.lane)
      else if (++task.killed >= MAX_KILLED || (task.heapOnce && why instanceof OutOfMemory)) task.reject(why)
      else this.#slowly(task)
    if (slot.lane === 'slow') this.#nextSlow()
  }

  /** Moves a job to another thread, because its thread died or now belongs to a slow job. */
  #move(task: PoolTask, lane: ThreadLane): void {
    if (++task.moved > MAX_MOVED) task.reject(new WorkerLost('Its worker threads crashed too often.'))
    else if (lane === 'slow') this.#slowly(task)
    else this.#give(task)
  }

  #slowly(task: PoolTask): void {
    if (this.#threads.closed) return this.#give(task)
    if (!task.outlasts()) return task.reject(new PutBack('Too many slow jobs are in progress.'))
    this.#queue.push(task)
    this.#nextSlow()
  }

  #nextSlow(): void {
    for (let task = this.#queue[0]; task; task = this.#queue[0]) {
      const slot = this.#freest('slow', task)
      if (slot && slot.pending.size >= SLOW_AT_ONCE) return
      this.#queue.shift()
      if (slot) this.#threads.give(slot, task)
    }
  }

  /** A job takes long: the others move to another thread, and the job continues in the slow lane. */
  #long(slot: Slot, task: PoolTask, over: boolean): void {
    const { lane } = slot
    if (lane === 'slow' && !over) return
    const others = slot.release((each) => each !== task)
    // The job goes on here. The thread changes lanes instead.
    if (!over && this.#threads.hasRoom('slow') && task.outlasts()) slot.lane = 'slow'
    else {
      const begun = slot.release()
      void this.#threads.end(slot)
      for (const each of begun) this.#slowly(each)
    }
    for (const other of others) this.#move(other, lane)
    this.#nextSlow()
  }
}
