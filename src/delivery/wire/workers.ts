// The main thread's side of the delivery worker threads (worker.ts): connections are spread over the threads, and an
// email is composed and sent by the thread that has its connection.
//
// When a thread ends, its connections end, and the emails in progress on them are retried. So mail that may need much
// CPU time, and mail that met a problem of this server before, is kept apart on separate threads.
import { counters } from '../../base/counters.ts'
import { Supervisor, WorkerLost } from '../../base/threads/supervisor.ts'
import type { Task, WorkerSlot } from '../../base/threads/worker-slot.ts'
import { TIMEOUTS, type ConnectOptions, type Envelope } from '../../smtp/client.ts'
import { ownVerdict, type Verdict } from '../../smtp/verdict.ts'
import { isVerdict } from './connect.ts'
import { HostBalance } from './host-balance.ts'
import type { LetterJob } from '../queue/transaction.ts'
import { LetterMemory } from './letter-memory.ts'
import type { Done, EndedSession, FreedMemory, Opened, Sent, WorkerJob } from './worker.ts'

export interface WorkersOptions {
  /** The most threads. Half as many threads are added for mail that is kept apart. */
  size: number
  /** CPU time in ms for composing one email. A thread that takes longer is ended. */
  cpu: number
  /** Answers the requests of letters (message/letters.ts). */
  answer: (asked: unknown) => Promise<unknown>
}

/** Numbers of connections and of emails. They are global because threads outlive the server in tests. */
let numbers = 0

/** An email that is composed and sent. */
export interface Sending {
  /** One verdict for each recipient, in their order. Rejects if the email cannot be composed, or its thread ended. */
  verdicts: Promise<Verdict[]>
  /**
   * The indexes of the accepted recipients while the receiving server has all bytes and has not answered, otherwise
   * empty.
   */
  handed(): Promise<readonly number[]>
}

/** An open SMTP session that a worker thread has. */
export class WorkerSession {
  readonly name: string
  readonly port: number
  readonly tls: string | null
  /** The DANE plan with which it was opened. */
  readonly plan: string
  /** Whether the session is on a thread for mail that is kept apart. */
  readonly apart: boolean
  /** The local address of the connection, or undefined if the system chose it. */
  readonly source: string | undefined
  readonly #run: (job: Partial<WorkerJob>) => Promise<unknown>
  readonly #lifetime: number
  readonly #born = performance.now()
  #ended = false

  constructor(
    { host, localAddress, plan = '', port, timeouts = TIMEOUTS }: ConnectOptions,
    { tls }: Opened,
    apart: boolean,
    run: (job: object) => Promise<unknown>,
  ) {
    this.name = host
    this.port = port
    this.tls = tls
    this.plan = plan
    this.apart = apart
    this.source = localAddress
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

  /** Composes and sends one email in the worker thread. */
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

  /** Sends QUIT. Resolves when the connection is closed, which takes seconds at most. */
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

/** The sessions of a thread by their numbers, or undefined for one that is being opened. */
type Sessions = Map<number, WorkerSession | undefined>

export class DeliveryWorkers {
  readonly #cpu: number
  readonly #threads: Supervisor<Task>
  readonly #sessions = new WeakMap<WorkerSlot, Sessions>()
  readonly #memory = new LetterMemory<WorkerSlot>()
  /** Which host of a route the next connection goes to. */
  readonly balance = new HostBalance(({ name, port }) => {
    let open = 0
    for (const slot of this.#threads.slots)
      for (const session of this.#sessionsOf(slot).values())
        if (session?.name === name && session.port === port && session.usable) open++
    return open
  })
  #tasks = 0
  #cut = false

  constructor({ answer, cpu, size }: WorkersOptions) {
    this.#cpu = cpu
    this.#threads = new Supervisor({
      source: new URL('./worker.ts', import.meta.url),
      most: { usual: size, slow: Math.ceil(size / 2) },
      answer: (asked, slot) => {
        const { memory } = asked as { memory?: number }
        return memory === undefined ? answer(asked) : this.#memory.take(slot, memory).then(() => true)
      },
      told: (slot, news) => {
        const message = news as EndedSession | FreedMemory
        if ('freed' in message) this.#memory.giveBack(slot, message.freed)
        else this.#sessionsOf(slot).get(message.ended)?.end()
      },
      load: (slot) => this.#sessionsOf(slot).size,
      lost: (slot, jobs, why) => this.#lost(slot, jobs, why),
      long: (slot, _, over) => {
        if (!over) return
        this.#lost(slot, slot.release(), new WorkerLost('Another mail on this thread took too long.'))
        void this.#threads.end(slot)
      },
    })
  }

  /**
   * Connects and opens a session on the thread with the fewest sessions. `apart`: for mail that is kept apart.
   * Rejects with NoWorker or WorkerLost.
   */
  async open(options: ConnectOptions, apart = false): Promise<WorkerSession | Verdict> {
    if (this.#cut)
      return ownVerdict('deferred', '4.3.2', 'This server stops.', { stage: 'connect', host: options.host })
    const slot = this.#threads.freest(apart ? 'slow' : 'usual')
    const sessions = this.#sessionsOf(slot)
    const number = ++numbers
    const left = (): void => {
      sessions.delete(number)
      this.#threads.rest(slot)
    }
    const run = (job: object): Promise<unknown> =>
      this.#run(slot, { ...job, session: number } as WorkerJob).finally(() => {
        if ('end' in job) left()
      })
    sessions.set(number, undefined)
    try {
      const opened = (await run({ open: options })) as Opened | Verdict
      if (!isVerdict(opened)) {
        const session = new WorkerSession(options, opened, apart, run)
        sessions.set(number, session)
        return session
      }
      left()
      return opened
    } catch (thrown) {
      left()
      throw thrown
    }
  }

  /**
   * Composes an email without sending it, to check whether it can be composed. Rejects like `open`, and if it cannot.
   */
  async compose(letter: LetterJob): Promise<void> {
    await this.#run(this.#threads.freest('slow'), { session: 0, compose: letter })
  }

  /** Ends every connection, including those that are being opened, and opens no others. */
  cut(): void {
    this.#cut = true
    for (const slot of this.#threads.slots)
      for (const number of this.#sessionsOf(slot).keys())
        // A thread that has ended has no more connections.
        this.#run(slot, { session: number, end: 'destroy' }).catch(() => undefined)
  }

  close(): Promise<void> {
    return this.#threads.close()
  }

  #sessionsOf(slot: WorkerSlot): Sessions {
    const sessions = this.#sessions.get(slot) ?? new Map<number, WorkerSession | undefined>()
    this.#sessions.set(slot, sessions)
    return sessions
  }

  #run(slot: WorkerSlot, job: WorkerJob): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (!this.#threads.slots.has(slot)) return reject(new WorkerLost('The thread of this connection has ended.'))
      const done = (answer: unknown): void => {
        const { replies, value } = answer as Done
        for (const [digit, count] of Object.entries(replies))
          counters.smtp.add({ direction: 'out', class: digit }, count)
        resolve(value)
      }
      this.#threads.give(slot, { id: ++this.#tasks, job, cpu: this.#cpu, resolve: done, reject })
    })
  }

  #lost(slot: WorkerSlot, jobs: Task[], why: WorkerLost): void {
    for (const session of this.#sessionsOf(slot).values()) session?.end()
    this.#memory.end(slot)
    for (const { reject } of jobs) reject(why)
  }
}
