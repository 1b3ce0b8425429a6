// The main thread's side of the worker threads that deliver mail (worker.ts): connections are spread over the threads,
// and a mail is composed and sent by the thread that has its connection.
//
// When a thread ends, its connections end, and the mails under way on them are tried again. So mail that may need much
// CPU time, and mail that met trouble of this server before, is kept apart, on threads for such mail only.
import { counters } from '../../base/counters.ts'
import { NoWorker, TookTooLong, WorkerLost, JobFailed } from '../../base/threads/pool.ts'
import { WorkerSlot, type Question, type Reply, type Task } from '../../base/threads/worker-slot.ts'
import { TIMEOUTS, type ConnectOptions, type Envelope } from '../../smtp/client.ts'
import { ownVerdict, type Verdict } from '../../smtp/verdict.ts'
import { isVerdict } from './connect.ts'
import type { LetterJob } from '../queue/transaction.ts'
import type { Done, EndedSession, Opened, Sent, WorkerJob } from './worker.ts'

export interface WorkersOptions {
  /** The most threads; half as many threads are added for mail that is kept apart. */
  size: number
  /** CPU time in ms for composing one mail; a thread that takes longer is ended. */
  cpu: number
  /** Answers the questions of the letters (message/letters.ts). */
  answer: (asked: never) => Promise<unknown>
}

/** JavaScript heap of each thread, in MB. */
const HEAP_MB = 1024
/** A thread without connections for this long (ms) is ended: an idle server has none. */
const IDLE = 60_000
/** How often busy threads are checked, in ms. */
const LOOK = 50
/** A thread that has reported no CPU time, or used none, for this many times the budget counts as over the budget. */
const SILENCE = 10

/** Numbers of connections and of mails; threads outlive the server in tests. */
let numbers = 0

/** A mail that is composed and sent. */
export interface Sending {
  /** One verdict for each recipient, in their order. Rejects when the mail cannot be composed, or its thread ended. */
  verdicts: Promise<Verdict[]>
  /**
   * The indexes of the accepted recipients while the exchanger has all octets and has not answered; otherwise empty.
   */
  handed(): Promise<readonly number[]>
}

/** An open SMTP session that a worker thread has. */
export class WorkerSession {
  readonly host: string
  readonly tls: string | null
  /** Whether the session is on a thread for mail that is kept apart. */
  readonly apart: boolean
  readonly #run: (job: Partial<WorkerJob>) => Promise<unknown>
  readonly #lifetime: number
  readonly #born = performance.now()
  #ended = false

  constructor(
    { host, timeouts = TIMEOUTS }: ConnectOptions,
    { tls }: Opened,
    apart: boolean,
    run: (job: object) => Promise<unknown>,
  ) {
    this.host = host
    this.tls = tls
    this.apart = apart
    this.#run = run
    this.#lifetime = timeouts.session
  }

  /** False once the connection ended or is too old to be used again. */
  get usable(): boolean {
    return !this.#ended && performance.now() - this.#born < this.#lifetime
  }

  /** Call it when the connection or its thread has ended. */
  end(): void {
    this.#ended = true
  }

  /** Composes and sends one mail in the worker thread. */
  send(letter: LetterJob, envelope: Envelope): Sending {
    const sending = ++numbers
    const sent = this.#run({ send: { letter, envelope, sending } }) as Promise<Sent>
    return {
      verdicts: sent.then(({ usable, verdicts }) => {
        if (!usable) this.end()
        return verdicts
      }),
      handed: () => this.#run({ handed: sending }) as Promise<number[]>,
    }
  }

  /** Sends QUIT; resolves when the connection is closed, which takes seconds at most. */
  async quit(): Promise<void> {
    await this.#finish('quit')
  }

  destroy(): void {
    void this.#finish('destroy')
  }

  async #finish(how: 'quit' | 'destroy'): Promise<void> {
    this.end()
    // When the thread has ended, the connection is closed already.
    await this.#run({ end: how }).catch(() => undefined)
  }
}

type Slot = WorkerSlot

interface Thread {
  slot: Slot
  apart: boolean
  sessions: Map<number, WorkerSession | undefined>
}

export class DeliveryWorkers {
  readonly #options: WorkersOptions
  readonly #threads = new Map<Slot, Thread>()
  #tasks = 0
  #closed = false
  #cut = false
  #look: NodeJS.Timeout | undefined

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  /**
   * Connects and opens a session on the thread with the fewest sessions. `apart`: for mail that is kept apart.
   * Rejects with NoWorker or WorkerLost.
   */
  async open(options: ConnectOptions, apart = false): Promise<WorkerSession | Verdict> {
    if (this.#cut)
      return ownVerdict('deferred', '4.3.2', 'This server stops.', { stage: 'connect', host: options.host })
    const thread = this.#freest(apart)
    const number = ++numbers
    const run = (job: object): Promise<unknown> =>
      this.#run(thread, { ...job, session: number } as WorkerJob).finally(() => {
        if ('end' in job) this.#left(thread, number)
      })
    thread.sessions.set(number, undefined)
    clearTimeout(thread.slot.retirement)
    try {
      const opened = (await run({ open: options })) as Opened | Verdict
      if (!isVerdict(opened)) {
        const session = new WorkerSession(options, opened, apart, run)
        thread.sessions.set(number, session)
        return session
      }
      this.#left(thread, number)
      return opened
    } catch (thrown) {
      this.#left(thread, number)
      throw thrown
    }
  }

  /** Ends every connection, also those that are being opened, and opens no others. */
  cut(): void {
    this.#cut = true
    for (const thread of this.#threads.values())
      for (const number of thread.sessions.keys())
        // A thread that has ended has no connections any more.
        this.#run(thread, { session: number, end: 'destroy' }).catch(() => undefined)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#look)
    await Promise.all([...this.#threads.values()].map((thread) => this.#dismiss(thread, 'The server stops.')))
  }

  #freest(apart: boolean): Thread {
    if (this.#closed) throw new NoWorker('The server stops.')
    const { size } = this.#options
    const threads = [...this.#threads.values()].filter((thread) => thread.apart === apart)
    const [freest] = threads.sort((one, other) => one.sessions.size - other.sessions.size)
    const most = apart ? Math.ceil(size / 2) : size
    return freest && (freest.sessions.size === 0 || threads.length >= most) ? freest : this.#hire(apart)
  }

  #hire(apart: boolean): Thread {
    try {
      const slot: Slot = new WorkerSlot(new URL('./worker.ts', import.meta.url), HEAP_MB, {
        replied: (from, replies) => this.#replied(from, replies),
        asked: (from, question) => void this.#asked(from, question),
        ended: (from, cause) => this.#ended(from, cause),
      })
      const thread = { slot, apart, sessions: new Map() }
      this.#threads.set(slot, thread)
      return thread
    } catch (thrown) {
      throw new NoWorker('No worker thread can be started.', { cause: thrown })
    }
  }

  #run({ slot }: Thread, job: WorkerJob): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (!this.#threads.has(slot)) return reject(new WorkerLost('The thread of this connection has ended.'))
      slot.take({ id: ++this.#tasks, job, resolve, reject })
      this.#watch()
    })
  }

  /** Call it when a connection has ended; a thread without connections is ended after a while. */
  #left({ sessions, slot }: Thread, number: number): void {
    sessions.delete(number)
    const thread = this.#threads.get(slot)
    if (sessions.size > 0 || !thread) return
    clearTimeout(slot.retirement)
    slot.retirement = setTimeout(() => void this.#dismiss(thread, 'It had no work.'), IDLE).unref()
  }

  #replied(slot: Slot, replies: Reply[]): void {
    for (const { code, error, id, value } of replies) {
      const task = slot.pending.get(id)
      slot.pending.delete(id)
      if (error === undefined) {
        const done = value as Done
        for (const [digit, count] of Object.entries(done.replies))
          counters.smtp.add({ direction: 'out', class: digit }, count)
        task?.resolve(done.value as never)
      } else task?.reject(new JobFailed(error, code ?? ''))
    }
    // Idle connections do not keep the process alive.
    if (slot.pending.size === 0) slot.worker.unref()
  }

  async #asked(slot: Slot, { ask, question }: Question): Promise<void> {
    if (question === 0)
      return this.#threads
        .get(slot)
        ?.sessions.get((ask as EndedSession).ended)
        ?.end()
    slot.worker.postMessage({ question, answer: await this.#options.answer(ask as never).catch(() => undefined) })
  }

  #ended(slot: Slot, cause: Error | undefined): void {
    const thread = this.#threads.get(slot)
    if (thread) this.#lose(thread, cause?.message ?? 'The worker stopped.', slot.ready ? WorkerLost : NoWorker)
  }

  #lose({ sessions, slot }: Thread, why: string, Lost: typeof WorkerLost): void {
    this.#threads.delete(slot)
    clearTimeout(slot.retirement)
    for (const session of sessions.values()) session?.end()
    for (const { reject } of slot.release() as Task[]) reject(new Lost(why))
  }

  async #dismiss(thread: Thread, why: string): Promise<void> {
    this.#lose(thread, why, WorkerLost)
    await thread.slot.worker.terminate()
  }

  #watch(): void {
    if (!this.#closed) this.#look ??= setTimeout(() => void this.#lookAround(), LOOK).unref()
  }

  async #lookAround(): Promise<void> {
    const busy = [...this.#threads.values()].filter(({ slot }) => slot.pending.size > 0)
    const now = performance.now()
    this.#look = undefined
    if (busy.length === 0) return
    this.#watch()
    await Promise.all(busy.map((thread) => this.#judge(thread, now)))
  }

  /** Ends a thread whose present mail needs too much CPU time. */
  async #judge(thread: Thread, now: number): Promise<void> {
    const { cpu } = this.#options
    const spent = await thread.slot.spent(now)
    const task = spent && thread.slot.pending.get(spent.job)
    if (!task || (spent.ms <= cpu && spent.idle <= cpu * SILENCE)) return
    thread.slot.release((each) => each === task)
    task.reject(new TookTooLong(`It took more than ${cpu} ms of CPU time.`))
    await this.#dismiss(thread, 'Another mail on this thread took too long.')
  }
}
