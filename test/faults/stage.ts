// A server under faults: started on a copy of a data directory, used as its users do, with a record of the work that it
// accepted.
import { rmSync } from 'node:fs'
import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises'
import { control, ports } from './layer.ts'
import { INBOX, lineage, QUIET, type World } from './world.ts'
import { JSON_API } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { deliver } from '../kit/sender.ts'
import { createApp } from '../../src/http/server.ts'
import { parseConfig, type Config } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { messageOf, OperatorError } from '../../src/base/errors.ts'
import { startAppliance, type Appliance } from '../../src/server/appliance.ts'
import { raw } from '../../src/store/query.ts'

export interface Answer {
  status: number
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any
}

/** An email that was posted, or is a campaign's. */
export interface Posted {
  to: string
  /** 201 was read. */
  promised: boolean
  /** The receiving server rejects it. */
  refused: boolean
}

/** A message that was delivered to the listener. */
export interface Delivered {
  subject: string
  /** 250 was read. */
  promised: boolean
}

export interface Ledger {
  posted: Posted[]
  delivered: Delivered[]
  /** A report was accepted with 250. */
  reported: boolean
  /** A request was answered with 202. */
  asked: boolean
  /** Answers that must not be: a refusal that blames the user, a path of this machine. */
  lies: string[]
}

const emptyLedger = (): Ledger => ({ posted: [], delivered: [], reported: false, asked: false, lies: [] })

/**
 * How far the clock is turned at each check: a second at first, then ten. After five minutes all work must have
 * finished.
 */
const STEPS = [...Array.from({ length: 60 }, () => 1000), ...Array.from({ length: 24 }, () => 10_000)]
/** And the longest time, in real ms, for sockets and threads. */
const REAL = 120_000
/** A stop waits 8 s for the world at most. */
const STOP = 60_000
/** While it stops, the clock is turned by so many ms for each so many real ones. */
const GRACE_STEP = 1000
const LOOK_AT_STOP = 100

let subjects = 0

export class Stage {
  readonly world: World
  readonly dataDir: string
  readonly clock: ManualClock
  readonly config: Config
  ledger = emptyLedger()
  /** Internal errors that the server logged. */
  logged: string[] = []
  /** Email that it logged as possibly sent again, because it could not write the results before it had to stop. */
  givenUp: string[] = []
  #appliance: Appliance | undefined
  #app: ReturnType<typeof createApp> | undefined

  constructor(world: World, dataDir = lineage(), now = world.begin) {
    this.world = world
    this.dataDir = dataDir
    this.clock = new ManualClock(now + 60_000)
    this.config = parseConfig({ ...world.config, data_dir: dataDir })
  }

  get appliance(): Appliance {
    if (!this.#appliance) throw new Error('the appliance does not run')
    return this.#appliance
  }

  get runs(): boolean {
    return this.#appliance !== undefined
  }

  async start(): Promise<void> {
    const log = {
      ...silentLog,
      error: (event: string, fields: Record<string, unknown> = {}) => {
        if (event === 'result_not_stored') this.givenUp.push(String(fields['what']))
      },
      fault: (where: string, thrown: unknown) => {
        this.logged.push(`${where}: ${messageOf(thrown)}`)
        return 'id'
      },
    }
    const { clock, config, world } = this
    this.#appliance = await startAppliance({ config, clock, log, resolver: world.dns.resolver })
    this.#app = createApp(this.#appliance.deps)
    ports.own.clear()
    for (const { port } of [this.#appliance.http, ...this.#appliance.smtp]) ports.own.add(port)
  }

  /**
   * Starts it under faults. Returns the error, or undefined if it runs. Any error except a sentence for the operator is
   * a bug.
   */
  async tryStart(): Promise<string | undefined> {
    try {
      await this.start()
      return undefined
    } catch (thrown) {
      if (!(thrown instanceof OperatorError))
        this.ledger.lies.push(`the start ended with no sentence for the operator: ${messageOf(thrown)}`)
      return messageOf(thrown)
    }
  }

  async stop(): Promise<void> {
    const appliance = this.#appliance
    this.#appliance = undefined
    this.#app = undefined
    if (!appliance) return
    const ended = appliance.stop()
    const late = Promise.withResolvers<never>()
    const limit = setTimeout(() => late.reject(new Error(`the stop had no end within ${STOP} ms`)), STOP)
    // The time of a stop for writes that fail is measured by the clock.
    const turning = setInterval(() => this.turn(GRACE_STEP), LOOK_AT_STOP)
    try {
      await Promise.race([ended, late.promise])
    } finally {
      clearTimeout(limit)
      clearInterval(turning)
    }
  }

  async restart(): Promise<void> {
    await this.stop()
    await this.start()
  }

  newLedger(): void {
    this.ledger = emptyLedger()
    this.logged = []
    this.givenUp = []
  }

  remove(): void {
    rmSync(this.dataDir, { recursive: true, force: true })
  }

  async api(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await this.#app!.request(`/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.world.token}`,
        ...(body === undefined ? {} : { 'content-type': JSON_API }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const shown = `${method} ${path.slice(0, 40)}: ${response.status} ${text.slice(0, 300)}`
    if (text.includes(this.dataDir)) this.ledger.lies.push(`a path is shown: ${shown}`)
    if (control.strikes > 0 && response.status >= 400 && response.status < 500)
      this.ledger.lies.push(`the user is blamed: ${shown}`)
    return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : undefined }
  }

  /** Posts an email and records whether it was accepted. */
  async post(attributes: Record<string, unknown> = {}, name = 'n'): Promise<Posted> {
    const to = `${name}${++subjects}@there.test`
    const mail = { from: `me@${QUIET}`, to, subject: 'Hello', html: '<p>Hello</p>', ...attributes }
    const posted: Posted = { to, promised: false, refused: to.startsWith('gone') }
    this.ledger.posted.push(posted)
    const { status } = await this.api('POST', '/outbound-emails', {
      data: { type: 'outbound-emails', attributes: mail },
    })
    posted.promised = status === 201
    return posted
  }

  /** Posts a batch with a shared body and records its emails, which are accepted together. */
  async postBatch(html: string, recipients: number): Promise<void> {
    const posted = Array.from({ length: recipients }, (): Posted => {
      const to = `b${++subjects}@there.test`
      return { to, promised: false, refused: false }
    })
    this.ledger.posted.push(...posted)
    const email = { from: `me@${QUIET}`, subject: 'Hello {{name}}', html }
    const attributes = { email, recipients: posted.map(({ to }) => ({ to, variables: { name: to } })) }
    const { status } = await this.api('POST', '/outbound-email-batches', {
      data: { type: 'outbound-email-batches', attributes },
    })
    for (const each of posted) each.promised = status === 201
  }

  /** Delivers a message over SMTP and records whether it was accepted. */
  async receive(body = 'Hello\n', to = INBOX): Promise<Delivered> {
    const subject = `subject ${++subjects}`
    const delivered: Delivered = { subject, promised: false }
    this.ledger.delivered.push(delivered)
    const message = `From: ann@there.test\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${subjects}@there.test>\n\n${body}`
    // If the connection is refused, the message is not accepted.
    const verdicts = await deliver(this.appliance.smtp[0]!, { to, message }).catch(() => [])
    delivered.promised = verdicts[0]?.kind === 'delivered'
    if (verdicts[0]?.kind === 'bounced') this.ledger.lies.push(`the sender is refused for good: ${verdicts[0].text}`)
    return delivered
  }

  /** Brings a report home. */
  async report(to: string, message: string, from = ''): Promise<void> {
    const verdicts = await deliver(this.appliance.smtp[0]!, { from, to, message }).catch(() => [])
    this.ledger.reported = verdicts[0]?.kind === 'delivered'
  }

  /** Rows of the database, as the test looks at them. */
  rows<T>(sql: string, parameters: readonly unknown[] = []): T[] {
    return control.quiet(() => this.appliance.deps.store.all(raw<T>(sql, parameters as never)))
  }

  /** Turns the clock. An error thrown by an alarm would end the process, because it is not caught. */
  turn(milliseconds: number): void {
    try {
      this.clock.advance(milliseconds)
    } catch (thrown) {
      this.ledger.lies.push(`thrown by an alarm of the clock, which ends the server: ${messageOf(thrown)}`)
    }
  }

  /** Some turns of the event loop and some ms for sockets and threads. */
  async breathe(rounds = 3): Promise<void> {
    for (let round = 0; round < rounds; round++) {
      await turn()
      await turn()
      await pause(1)
    }
  }

  /** Turns the clock until `open` is empty. Returns its last result. */
  async settle(open: () => string[]): Promise<string[]> {
    const steps = [...STEPS]
    let end = Infinity
    for (;;) {
      await this.breathe(1)
      const left = open()
      if (left.length === 0) return []
      const step = steps.shift()
      if (step !== undefined) this.turn(step)
      else {
        end = Math.min(end, performance.now() + REAL)
        if (performance.now() > end) return left
        await pause(20)
        // Slowly: on a busy machine a thread takes seconds to begin.
        this.turn(100)
      }
    }
  }
}
