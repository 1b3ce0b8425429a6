// Worker threads for what would hold up the event loop. A pool runs one kind of worker; a job goes to the worker with the
// fewest jobs in hand. A worker that dies takes only its own jobs with it (they are rejected) and is replaced.
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { availableParallelism } from 'node:os'

interface Pending {
  resolve: (value: never) => void
  reject: (error: Error) => void
}

interface Hand {
  worker: Worker
  pending: Map<number, Pending>
}

/** The worker died over a job, through no fault that the job itself reported. */
export class WorkerLost extends Error {}

export interface Reply {
  id: number
  value?: unknown
  error?: string
}

export class Pool<Job, Result> {
  readonly #source: URL
  readonly #hands: Hand[] = []
  #next = 1
  #closed = false

  /** `source` is the worker's module; in the single executable its bundle is the asset of the same base name. */
  constructor(source: URL, size: number = availableParallelism()) {
    this.#source = source
    for (let i = 0; i < size; i++) this.#hands.push(this.#hire())
  }

  run(job: Job, transfer: ArrayBuffer[] = []): Promise<Result> {
    if (this.#closed) return Promise.reject(new Error('The worker pool is closed.'))
    const hand = this.#hands.reduce((least, other) => (other.pending.size < least.pending.size ? other : least))
    const id = this.#next++
    return new Promise<Result>((resolve, reject) => {
      hand.pending.set(id, { resolve, reject })
      // A worker in hand keeps the process alive only while it has work.
      hand.worker.ref()
      hand.worker.postMessage({ id, job }, transfer)
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#hands.map(({ worker }) => worker.terminate()))
  }

  #hire(): Hand {
    const hand: Hand = { worker: startWorker(this.#source), pending: new Map() }
    hand.worker.unref()
    hand.worker.on('message', ({ id, value, error }: Reply) => {
      const pending = hand.pending.get(id)
      hand.pending.delete(id)
      if (hand.pending.size === 0) hand.worker.unref()
      if (error === undefined) pending?.resolve(value as never)
      else pending?.reject(new Error(error))
    })
    let cause: Error | undefined
    hand.worker.on('error', (error) => (cause = error as Error))
    hand.worker.on('exit', () => {
      for (const { reject } of hand.pending.values()) reject(new WorkerLost(cause?.message ?? 'The worker stopped.'))
      hand.pending.clear()
      if (!this.#closed) this.#hands[this.#hands.indexOf(hand)] = this.#hire()
    })
    return hand
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
  if (!sea) return new Worker(source)
  const name = source.pathname.split('/').at(-1)!.replace(/\.ts$/, '.mjs')
  return new Worker(sea.getAsset(name, 'utf8'), { eval: true })
}
