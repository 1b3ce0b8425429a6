// Worker threads for what would hold up the event loop. A pool runs one kind of worker; a job goes to the worker with the fewest jobs in
// hand, a further one is hired while all are busy, and those without work for a minute are let go.
//
// No job harms another. A job has a budget of CPU time of its thread, which a busy machine does not use up. Past a quarter of a second of it
// the other jobs of that thread move to another thread, and the job goes on in the slow lane, among its like.
// Past its budget it ends alone. A worker that dies takes only the job along whose turn it was, and that one is tried once more,
// alone, before it is lost; the others are done elsewhere, as if nothing had happened.
import { availableParallelism } from 'node:os'
import { Hand, type Ears, type Question, type Reply, type Task } from './hand.ts'

export { singleExecutable, type Question, type Ready, type Reply } from './hand.ts'

/** A worker died over the job, or the job never came to its turn. */
export class WorkerLost extends Error {}

/** No worker can be had: the machine is short of threads, memory or descriptors, or the pool is closed. The job was not begun. */
export class NoWorker extends WorkerLost {}

/** The job took more CPU time than it may; its worker was ended. */
export class TookTooLong extends Error {}

/** Too many jobs outlast the others just now; this one was put back. */
export class PutBack extends Error {}

/** What a job itself reported, with the code of a system error. */
export class JobFailed extends Error {
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

export interface PoolOptions {
  size?: number | undefined
  /** Answers what workers ask. */
  answer?: (ask: never) => Promise<unknown>
  /** CPU time in ms that a job may take, where it does not say otherwise. */
  cpu?: number
  /** JavaScript heap of each worker. */
  heapMb?: number
}

export interface Effort {
  /** CPU time in ms that the job may take. */
  cpu?: number
  /** It belongs to the slow lane from the start. */
  slow?: boolean
  /** Hears that it goes to the slow lane; false: it is put back instead (PutBack). */
  outlasts?: () => boolean
}

/** A worker without work for this long, in ms, is let go: an idle server keeps none. */
const IDLE = 60_000
/** CPU time in ms that a job may have beside others. */
const BRIEF = 250
/** How often busy threads are looked at, in ms. */
const LOOK = 50
/** A thread that has not said for so many times its job's budget what it costs is taken to be at work all that time. */
const SILENCE = 10
/** Times that a job dies of its own, and that it changes threads through others, before it is lost. */
const MAX_KILLED = 2
const MAX_MOVED = 20
/** Jobs that a thread of the slow lane has in hand: one works, the others may wait for an answer meanwhile. */
const SLOW_AT_ONCE = 8
const HEAP_MB = 1024

export class Pool<Job, Result> {
  readonly #source: URL
  readonly #options: PoolOptions & { size: number; heapMb: number }
  readonly #hands = new Set<Hand>()
  readonly #slow = new Set<Hand>()
  readonly #queue: Task[] = []
  #next = 1
  #closed = false
  #look: NodeJS.Timeout | undefined

  /** `source` is the worker's module; in the single executable its bundle is the asset of the same base name. */
  constructor(source: URL, options: PoolOptions = {}) {
    this.#source = source
    this.#options = { ...options, size: options.size ?? availableParallelism(), heapMb: options.heapMb ?? HEAP_MB }
  }

  /** Workers at most, beside those of the slow lane, of which there are half as many. */
  get size(): number {
    return this.#options.size
  }

  /** Rejects with TookTooLong, WorkerLost, NoWorker, PutBack, or JobFailed: what the job reported. */
  run(job: Job, { cpu = this.#options.cpu, outlasts = () => true, slow = false }: Effort = {}): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      const task: Task = { id: this.#next++, job, cpu, killed: 0, moved: 0, outlasts, resolve, reject }
      if (slow) this.#slowly(task)
      else this.#give(task)
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#look)
    const hands = [...this.#hands, ...this.#slow]
    for (const task of [...hands.flatMap((hand) => hand.release()), ...this.#queue.splice(0)]) this.#give(task)
    await Promise.all(hands.map((hand) => this.#dismiss(hand)))
  }

  #give(task: Task): void {
    if (this.#closed) return task.reject(new NoWorker('The worker pool is closed.'))
    const hand = this.#freest(task)
    if (!hand) return
    hand.take(task)
    this.#watch()
  }

  #freest(task: Task): Hand | undefined {
    let freest: Hand | undefined
    for (const hand of this.#hands) if (!freest || hand.pending.size < freest.pending.size) freest = hand
    if (freest && (freest.pending.size === 0 || this.#hands.size >= this.size)) return freest
    return this.#hire(this.#hands, task)
  }

  #hire(lane: Set<Hand>, task: Task): Hand | undefined {
    const ears: Ears = {
      replied: (from, replies) => this.#replied(from, replies),
      asked: (from, question) => void this.#answer(from, question),
      ended: (from, cause) => this.#ended(from, cause),
    }
    try {
      const hand = new Hand(this.#source, this.#options.heapMb, ears)
      lane.add(hand)
      return hand
    } catch (thrown) {
      task.reject(new NoWorker('No worker thread can be started.', { cause: thrown }))
      return undefined
    }
  }

  async #dismiss(hand: Hand): Promise<void> {
    this.#hands.delete(hand)
    this.#slow.delete(hand)
    clearTimeout(hand.retirement)
    await hand.worker.terminate()
  }

  #replied(hand: Hand, replies: Reply[]): void {
    const settled = replies.map((reply) => {
      const task = hand.pending.get(reply.id)
      hand.pending.delete(reply.id)
      return { task, reply }
    })
    if (this.#slow.has(hand)) this.#nextSlow()
    if (hand.pending.size === 0) {
      if (this.#slow.has(hand)) this.#rejoin(hand)
      hand.worker.unref()
      hand.retirement = setTimeout(() => void this.#dismiss(hand), IDLE).unref()
    }
    for (const { reply, task } of settled)
      if (reply.error === undefined) task?.resolve(reply.value as never)
      else task?.reject(new JobFailed(reply.error, reply.code ?? ''))
  }

  async #answer({ worker }: Hand, { question, ask }: Question): Promise<void> {
    worker.postMessage({ question, answer: await this.#options.answer?.(ask as never).catch(() => undefined) })
  }

  #ended(hand: Hand, cause: Error | undefined): void {
    const { turn: culprit } = hand
    const slow = this.#slow.delete(hand)
    this.#hands.delete(hand)
    clearTimeout(hand.retirement)
    const why = cause?.message ?? 'The worker stopped.'
    for (const task of hand.release())
      if (!hand.ready) task.reject(new NoWorker('The worker thread did not start.', { cause }))
      else if (task !== culprit) this.#move(task, slow)
      else if (++task.killed >= MAX_KILLED) task.reject(new WorkerLost(why))
      else this.#slowly(task)
    if (slow) this.#nextSlow()
  }

  /** To another thread, since the one that it was in is another's. */
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
      const hand = this.#freestSlow(task)
      if (hand === 'none') return
      this.#queue.shift()
      hand?.take(task)
    }
    this.#watch()
  }

  #freestSlow(task: Task): Hand | 'none' | undefined {
    const [freest] = [...this.#slow].sort((a, b) => a.pending.size - b.pending.size)
    if (freest && (freest.pending.size === 0 || this.#slow.size >= this.#slowSize))
      return freest.pending.size < SLOW_AT_ONCE ? freest : 'none'
    return this.#hire(this.#slow, task)
  }

  get #slowSize(): number {
    return Math.max(1, Math.floor(this.size / 2))
  }

  /** A thread of the slow lane without work helps the others where there is room. */
  #rejoin(hand: Hand): void {
    this.#slow.delete(hand)
    if (this.#hands.size < this.size) this.#hands.add(hand)
    else void this.#dismiss(hand)
  }

  #watch(): void {
    this.#look ??= setTimeout(() => void this.#lookAround(), LOOK).unref()
  }

  async #lookAround(): Promise<void> {
    const hands = [...this.#hands, ...this.#slow].filter(({ pending }) => pending.size > 0)
    const now = performance.now()
    this.#look = undefined
    if (hands.length === 0 || this.#closed) return
    this.#watch()
    await Promise.all(hands.map((hand) => this.#judge(hand, now)))
  }

  /** Looks at what the job at its turn has cost. */
  async #judge(hand: Hand, now: number): Promise<void> {
    const spent = await hand.spent(now)
    const task = spent && hand.pending.get(spent.job)
    if (!task || task.cpu === undefined) return
    if (spent.ms > task.cpu || spent.asked > task.cpu * SILENCE) {
      hand.release((each) => each === task)
      task.reject(new TookTooLong(`It took more than ${task.cpu} ms of CPU time.`))
    } else if (this.#slow.has(hand) || (spent.ms <= BRIEF && spent.asked <= BRIEF * SILENCE)) return
    const others = hand.release((each) => each !== task)
    const slow = this.#slow.has(hand)
    if (hand.pending.size > 0 && this.#slow.size < this.#slowSize && task.outlasts()) {
      // It need not begin again.
      this.#hands.delete(hand)
      this.#slow.add(hand)
    } else {
      const begun = hand.release()
      void this.#dismiss(hand)
      for (const each of begun) this.#slowly(each)
    }
    for (const other of others) this.#move(other, slow)
    this.#nextSlow()
  }
}
