// The other end of a pool (base/pool.ts), inside a worker thread: jobs come in lots and go back in lots, since a message between threads
// costs as much as a small job; and a job may ask the server something.
import { parentPort } from 'node:worker_threads'
import { messageOf } from './errors.ts'
import type { Question, Ready, Reply } from './pool.ts'

/** Results go back when so many are ready, or nothing else is to be done just now. */
const LOT = 8

type Incoming<Job> = { jobs: { id: number; job: Job }[] } | { question: number; answer: unknown }

const asked = new Map<number, (answer: unknown) => void>()
let questions = 0

/** Asks the server; undefined when it has no answer. Both sides know what is asked and answered. */
export function ask<Answer>(question: unknown): Promise<Answer | undefined> {
  const id = ++questions
  return new Promise((resolve) => {
    asked.set(id, resolve as (answer: unknown) => void)
    parentPort!.postMessage({ question: id, ask: question } satisfies Question)
  })
}

/** Performs what comes. `transfer` names the buffers of a result that move instead of being copied. */
export function serveJobs<Job, Result>(
  perform: (job: Job) => Promise<Result> | Result,
  transfer: (result: Result) => ArrayBuffer[] = () => [],
): void {
  let ready: Reply[] = []
  let buffers: ArrayBuffer[] = []
  const send = (): void => {
    if (ready.length > 0) parentPort!.postMessage(ready, buffers)
    ready = []
    buffers = []
  }
  const work = async (id: number, job: Job): Promise<void> => {
    try {
      const value = await perform(job)
      ready.push({ id, value })
      buffers.push(...transfer(value))
    } catch (thrown) {
      ready.push({ id, error: messageOf(thrown) })
    }
    if (ready.length >= LOT) send()
    else if (ready.length === 1) setImmediate(send)
  }
  parentPort!.on('message', (message: Incoming<Job>) => {
    if ('question' in message) {
      asked.get(message.question)?.(message.answer)
      asked.delete(message.question)
      return
    }
    for (const { id, job } of message.jobs) void work(id, job)
  })
  // Whatever its module needed is loaded: time limits of jobs begin to run.
  parentPort!.postMessage({ ready: true } satisfies Ready)
}
