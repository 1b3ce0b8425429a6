// The part of a pool (base/threads/pool.ts) inside a worker thread. Jobs take turns: one job runs until it is done or
// waits for an answer of the server, then the next job runs. So it is always known which job the thread runs, and how
// much CPU time each job has used. Small jobs and results are sent in batches: a message between threads costs as much
// as a small job.
import { AsyncLocalStorage } from 'node:async_hooks'
import { parentPort, workerData } from 'node:worker_threads'
import { codeOf, DAMAGED, messageOf, TOO_LARGE_CODE } from '../errors.ts'
import type { Question, Ready, Reply } from './pool.ts'
import { ThreadCpu } from './thread-cpu.ts'

/** Results are sent as soon as this many are ready, or when the thread is idle. */
const LOT = 8

type Incoming<Job> = { jobs: { id: number; job: Job }[] } | { question: number; answer: unknown }

interface RunningJob {
  id: number
  /** The number of results that the job waits for: answers to questions, and work outside of this thread. */
  open: number
  /** CPU time of its turns so far, in microseconds. */
  spent: number
  /** The job is done, although questions may be open: their answers must not start a turn, which would never end. */
  over: boolean
}

const present = new ThreadCpu((workerData as { cpu: SharedArrayBuffer } | null)?.cpu)
const tasks = new AsyncLocalStorage<RunningJob>()
const turns: { task: RunningJob; go: () => void }[] = []
let running: RunningJob | undefined
let began = 0

function cpuTime(): number {
  const { system, user } = process.threadCpuUsage()
  return system + user
}

function take(task: RunningJob, go: () => void): void {
  turns.push({ task, go })
  next()
}

/** Begins the next turn. `now`: the thread's CPU time, when it was read just now. */
function next(now?: number): void {
  if (running) return
  const turn = turns.shift()
  if (!turn) return
  const { go, task } = turn
  if (task.over) {
    go()
    return next()
  }
  running = task
  began = now ?? cpuTime()
  present.begin(task.id, began, task.spent)
  go()
  if (task.open > 0) setImmediate(pause, task)
}

/** Ends the turn when the event loop turns: until then the job may still do work. */
function pause(task: RunningJob): void {
  if (task.open > 0) leave(task)
}

function leave(task: RunningJob): void {
  if (running !== task) return
  const now = cpuTime()
  task.spent += now - began
  running = undefined
  present.end()
  next(now)
}

const asked = new Map<number, { task: RunningJob | undefined; resolve: (answer: unknown) => void }>()
let questions = 0

function answered(id: number, answer: unknown): void {
  const question = asked.get(id)
  if (!question) return
  asked.delete(id)
  const { resolve, task } = question
  if (task) resume(task, () => resolve(answer))
  else resolve(answer)
}

/** Counts one more result that the job waits for. The job's turn ends soon, and other jobs run until then. */
function wait(task: RunningJob): void {
  task.open++
  setImmediate(pause, task)
}

/**
 * A result that the job waited for has arrived: `go` runs in the job's next turn. `open` counts the result until then:
 * when several answers arrive at once, the turn for the first answer must end before the turn for the second begins.
 */
function resume(task: RunningJob, go: () => void): void {
  const come = (): void => {
    task.open--
    go()
  }
  // The result may have arrived before the turn ended.
  if (task === running || task.over) come()
  else take(task, come)
}

/** Waits for something that needs no work of this thread, such as the answer of another server. */
export function outside<T>(coming: Promise<T>): Promise<T> {
  const task = tasks.getStore()
  if (!task) return coming
  wait(task)
  return new Promise((resolve, reject) => {
    coming.then(
      (value) => resume(task, () => resolve(value)),
      (thrown: Error) => resume(task, () => reject(thrown)),
    )
  })
}

/** Sends a question to the server. Resolves with its answer, or with undefined without one within `patience` ms. */
export function ask<Answer>(question: unknown, patience?: number): Promise<Answer | undefined> {
  const id = ++questions
  const task = tasks.getStore()
  return new Promise((resolve) => {
    const late = patience === undefined ? undefined : setTimeout(answered, patience, id, undefined)
    asked.set(id, {
      task,
      resolve(answer) {
        clearTimeout(late)
        resolve(answer as Answer | undefined)
      },
    })
    parentPort!.postMessage({ question: id, ask: question } satisfies Question)
    if (task) wait(task)
  })
}

/** Sends news to the server. It belongs to no job, and has no answer. */
export const tell = (news: unknown): void => parentPort!.postMessage({ question: 0, ask: news } satisfies Question)

/**
 * Like `ask`, for an answer that several jobs need, such as a shared key. The answer needs no turn: a job that waits
 * for the answer keeps its own turn, and would wait forever if the answer needed another job's turn.
 */
export const askForAll = <Answer>(question: unknown): Promise<Answer | undefined> => tasks.exit(() => ask(question))

/**
 * The code of an error of a system call, of corrupt data, and of a message that is too large, or '' for others:
 * libraries have codes too, but only errors of the system name the call.
 */
const codeToTell = (thrown: unknown): string =>
  (thrown instanceof Error && 'syscall' in thrown) || [DAMAGED, TOO_LARGE_CODE].includes(codeOf(thrown))
    ? codeOf(thrown)
    : ''

export interface Serving<Result> {
  /** The buffers of a result that are transferred instead of copied. */
  transfer?: (result: Result) => ArrayBuffer[]
  /**
   * The number of results sent together. Use 1 for jobs that may take long, so that no result waits for another job.
   */
  lot?: number
}

/** Performs the jobs that the pool sends, and sends their results or errors back. */
export function serveJobs<Job, Result>(
  perform: (job: Job) => Promise<Result> | Result,
  { lot = LOT, transfer = () => [] }: Serving<Result> = {},
): void {
  let ready: Reply[] = []
  let buffers: ArrayBuffer[] = []
  const send = (): void => {
    if (ready.length > 0) parentPort!.postMessage(ready, buffers)
    ready = []
    buffers = []
  }
  const work = async (task: RunningJob, job: Job): Promise<void> => {
    const { id } = task
    try {
      const value = await perform(job)
      ready.push({ id, value })
      buffers.push(...transfer(value))
    } catch (thrown) {
      ready.push({ id, error: messageOf(thrown), code: codeToTell(thrown) })
    }
    if (ready.length >= lot) send()
    else if (ready.length === 1) setImmediate(send)
    task.over = true
    leave(task)
  }
  parentPort!.on('message', (message: Incoming<Job>) => {
    if ('question' in message) return answered(message.question, message.answer)
    for (const { id, job } of message.jobs) {
      const task = { id, open: 0, spent: 0, over: false }
      take(task, () => tasks.run(task, () => void work(task, job)))
    }
  })
  // The module and its imports are loaded now.
  parentPort!.postMessage({ ready: true } satisfies Ready)
}
