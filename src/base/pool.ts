// Worker threads for what would hold up the event loop. A pool runs one kind of worker; a job goes to the worker with the
// fewest jobs in hand, a further one is hired while all are busy, and those without work for a minute are let go. A worker
// that dies takes only its own jobs with it (they are rejected).
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { availableParallelism } from 'node:os'

interface Pending {
  resolve: (value: never) => void
  reject: (error: Error) => void
  limit: NodeJS.Timeout | undefined
  /** Sets the limit. */
  begin: () => void
}

interface Hand {
  worker: Worker
  pending: Map<number, Pending>
  /** It has loaded its module. */
  ready: boolean
  retirement: NodeJS.Timeout | undefined
  /** Jobs that go with the next message. */
  outbox: { id: number; job: unknown }[]
}

/** The worker died over a job, through no fault that the job itself reported. */
export class WorkerLost extends Error {}

/** The job took longer than it may; its worker was ended. */
export class TookTooLong extends Error {}

/** What a worker may ask for while it works. */
export interface Question {
  question: number
  ask: unknown
}

/** What a worker says once it has loaded, if its jobs have a limit: loading is no part of any job. */
export interface Ready {
  ready: true
}

export interface PoolOptions {
  size?: number | undefined
  /** Answers what workers ask. */
  answer?: (ask: never) => Promise<unknown>
}

export interface Reply {
  id: number
  value?: unknown
  error?: string
}

/** A worker without work for this long, in ms, is let go: an idle server keeps none. */
const IDLE = 60_000
/** Jobs leave much behind that lives for moments; left to itself each worker lets a hundred megabytes of it gather. */
const LIMITS = { maxYoungGenerationSizeMb: 16 }

export class Pool<Job, Result> {
  readonly #source: URL
  readonly #size: number
  readonly #answer: PoolOptions['answer']
  readonly #hands = new Set<Hand>()
  #next = 1
  #closed = false

  /** `source` is the worker's module; in the single executable its bundle is the asset of the same base name. */
  constructor(source: URL, { size = availableParallelism(), answer }: PoolOptions = {}) {
    this.#source = source
    this.#size = size
    this.#answer = answer
  }

  /** Workers at most: with no more jobs than these at once, none waits behind another. */
  get size(): number {
    return this.#size
  }

  /**
   * Gives a job to a worker. `patience` is in ms: a job that takes longer is rejected with TookTooLong. It counts from when the worker
   * is ready: on a busy machine loading it may take seconds, which say nothing about the job.
   */
  run(job: Job, patience?: number): Promise<Result> {
    if (this.#closed) return Promise.reject(new WorkerLost('The worker pool is closed.'))
    const hand = this.#freest()
    const id = this.#next++
    return new Promise<Result>((resolve, reject) => {
      const late = (): void => {
        hand.pending.delete(id)
        reject(new TookTooLong(`It took longer than ${patience} ms.`))
        void this.#dismiss(hand)
      }
      const pending: Pending = {
        resolve,
        reject,
        limit: undefined,
        begin: () => void (pending.limit = patience === undefined ? undefined : setTimeout(late, patience)),
      }
      hand.pending.set(id, pending)
      if (hand.ready) pending.begin()
      clearTimeout(hand.retirement)
      // A worker keeps the process alive only while it has work.
      hand.worker.ref()
      if (hand.outbox.push({ id, job }) === 1)
        setImmediate(() => hand.worker.postMessage({ jobs: hand.outbox.splice(0) }))
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#hands].map((hand) => this.#dismiss(hand)))
  }

  #freest(): Hand {
    let freest: Hand | undefined
    for (const hand of this.#hands) if (!freest || hand.pending.size < freest.pending.size) freest = hand
    return freest && (freest.pending.size === 0 || this.#hands.size >= this.#size) ? freest : this.#hire()
  }

  async #dismiss(hand: Hand): Promise<void> {
    this.#hands.delete(hand)
    clearTimeout(hand.retirement)
    await hand.worker.terminate()
  }

  #hire(): Hand {
    const worker = startWorker(this.#source)
    const hand: Hand = { worker, pending: new Map(), ready: false, retirement: undefined, outbox: [] }
    this.#hands.add(hand)
    hand.worker.on('message', (message: Reply[] | Question | Ready) => {
      if ('ready' in message) {
        hand.ready = true
        for (const { begin } of hand.pending.values()) begin()
        return
      }
      if ('question' in message) return void this.#reply(hand, message)
      const settled = message.map((reply) => {
        const pending = hand.pending.get(reply.id)
        hand.pending.delete(reply.id)
        clearTimeout(pending?.limit)
        return { pending, reply }
      })
      if (hand.pending.size === 0) {
        hand.worker.unref()
        hand.retirement = setTimeout(() => void this.#dismiss(hand), IDLE).unref()
      }
      for (const { pending, reply } of settled)
        if (reply.error === undefined) pending?.resolve(reply.value as never)
        else pending?.reject(new Error(reply.error))
    })
    let cause: Error | undefined
    hand.worker.on('error', (error) => (cause = error as Error))
    hand.worker.on('exit', () => {
      this.#hands.delete(hand)
      clearTimeout(hand.retirement)
      for (const { limit, reject } of hand.pending.values()) {
        clearTimeout(limit)
        reject(new WorkerLost(cause?.message ?? 'The worker stopped.'))
      }
      hand.pending.clear()
    })
    return hand
  }

  async #reply({ worker }: Hand, { question, ask }: Question): Promise<void> {
    worker.postMessage({ question, answer: await this.#answer?.(ask as never).catch(() => undefined) })
  }
}

/** node:sea where this is the single executable, else undefined. */
export function singleExecutable():
  | { getAsset(name: string, encoding: 'utf8'): string; getRawAsset(name: string): ArrayBuffer }
  | undefined {
  const sea = createRequire(import.meta.url)('node:sea') as typeof import('node:sea')
  return sea.isSea() ? (sea as never) : undefined
}

function startWorker(source: URL): Worker {
  const sea = singleExecutable()
  if (!sea) return new Worker(source, { resourceLimits: LIMITS })
  const name = source.pathname.split('/').at(-1)!.replace(/\.ts$/, '.mjs')
  return new Worker(sea.getAsset(name, 'utf8'), { eval: true, resourceLimits: LIMITS })
}
