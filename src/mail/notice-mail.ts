// Sends notices by email: mail of the server itself, outside the users' queue (D66). It is not counted, and plans,
// suppressions and agents do not apply to it. Its return path is empty, so that it cannot bounce back. A notice is
// retried for seven days, on its own schedule.
import { createPrivateKey } from 'node:crypto'
import { forLine } from '../base/clean-text.ts'
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { knownAddress, parseAddrSpec, parseAddress } from '../message/address.ts'
import { compose, stuffDots } from '../message/compose.ts'
import { sign } from '../message/dkim.ts'
import { openSession, type SmtpSession } from '../smtp/client.ts'
import type { Verdict } from '../smtp/verdict.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { signingKeyOf, type OpenKeys } from '../domains/keys.ts'
import { beginAttempt, endAttempt, nextNotices, type AddressedNotice } from '../users/notices.ts'
import type { Ways } from '../delivery/queue/ways.ts'
import { connectAlong, findRoute, type WayDeps } from '../delivery/wire/connect.ts'

export interface NoticeDeps extends WayDeps {
  ways: Ways
  store: Store
  clock: Clock
  log: Log
  keys: OpenKeys
  config: Pick<Config, 'delivery' | 'hostname' | 'tls' | 'webhooks' | 'notices'>
}

/** The parts of a notice that are mailed. */
type Letter = Pick<AddressedNotice, 'id' | 'created_at' | 'email' | 'subject' | 'text'>

/** Notices in progress at once. */
const AT_ONCE = 8

export class NoticeMailer {
  readonly #deps: NoticeDeps
  readonly #loop: Loop
  readonly #busy = new Map<number, Promise<void>>()
  readonly #sessions = new Set<SmtpSession>()
  #stopped = false

  constructor(deps: NoticeDeps) {
    this.#deps = deps
    this.#loop = new Loop({ name: 'notices', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  start(): void {
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  /** Waits up to `patience` ms for notices in progress, then cuts them off. Their next attempt is scheduled already. */
  async stop(patience: number): Promise<void> {
    await this.#loop.stop()
    const late = setTimeout(() => this.#cut(), patience)
    const ended = Promise.all(this.#busy.values())
    const cut = new Promise<void>((resolve) => (this.#onCut = resolve))
    await Promise.race([ended, cut])
    clearTimeout(late)
    this.#stopped = true
  }

  /**
   * Emails a notice that cannot be stored, once. Resolves with whether it was accepted. Apart from the email, the
   * notice is only in the log.
   */
  async mailUnstored(notice: Pick<AddressedNotice, 'email' | 'subject' | 'text'>): Promise<boolean> {
    const { clock, log } = this.#deps
    const { email, subject } = notice
    log.warn('notification_queued', { user: email, subject })
    try {
      const created_at = clock.now()
      const { code, enhanced, kind, text } = await this.#send({ ...notice, id: newId(created_at), created_at })
      if (kind === 'delivered') return true
      const response = [code, enhanced, text].filter((part) => part !== null).join(' ')
      log.warn('notification_failed', { user: email, subject, error: response, given_up: false })
    } catch (thrown) {
      if (!this.#stopped) log.fault('notification', thrown)
    }
    return false
  }

  /** Whether no notice is in progress. */
  get idle(): boolean {
    return this.#busy.size === 0
  }

  #onCut: () => void = () => {}

  #cut(): void {
    for (const session of this.#sessions) session.destroy()
    this.#onCut()
  }

  async #run(now: number): Promise<number | null> {
    const { store } = this.#deps
    const free = AT_ONCE - this.#busy.size
    // A notice that ends calls `ring`.
    if (free <= 0) return null
    const next = nextNotices(store, [...this.#busy.keys()], free + 1)
    const due = next.slice(0, free).filter(({ next_attempt_at }) => (next_attempt_at ?? 0) <= now)
    if (due.length === 0) return next[0]?.next_attempt_at ?? null
    const begun = store.write((tx) => {
      for (const notice of due) beginAttempt(tx, notice, now)
    })
    // These notices count as in progress from now on: they must not start again while their attempts are being written.
    for (const notice of due)
      this.#busy.set(
        notice.key,
        begun.then(
          () =>
            this.#attempt(notice).finally(() => {
              this.#busy.delete(notice.key)
              this.ring()
            }),
          // The loop logs the error and runs again after a pause.
          () => void this.#busy.delete(notice.key),
        ),
      )
    await begun
    return next[due.length]?.next_attempt_at ?? null
  }

  async #attempt(notice: AddressedNotice): Promise<void> {
    const { clock, log, store } = this.#deps
    const { attempts, email, subject } = notice
    if (attempts === 0) log.warn('notification_queued', { user: email, subject })
    try {
      const verdict = await this.#send(notice)
      if (this.#stopped) return
      const result = verdict.kind === 'delivered' ? 'mailed' : verdict.kind === 'bounced' ? 'refused' : 'later'
      const response = [verdict.code, verdict.enhanced, verdict.text].filter((part) => part !== null).join(' ')
      const over = await store.write((tx) => endAttempt(tx, notice, { result, response }, clock.now()))
      if (result !== 'mailed')
        log.warn('notification_failed', { user: email, subject, error: response, given_up: over })
    } catch (thrown) {
      // The next attempt is scheduled already.
      if (!this.#stopped) log.fault(`notification ${notice.id}`, thrown)
    }
  }

  async #send(notice: Letter): Promise<Pick<Verdict, 'kind' | 'code' | 'enhanced' | 'text'>> {
    const own = (kind: Verdict['kind'], text: string) => ({ kind, code: null, enhanced: null, text })
    const to = parseAddrSpec(notice.email)
    if (!to) return own('bounced', 'The address is none that mail can be sent to.')
    const found = await findRoute(this.#deps, to.domain)
    if ('kind' in found) return found
    const route = { ...found, sources: this.#deps.ways.of(this.#deps.ways.choices(to.domain)[0] ?? to.domain) }
    const session = await connectAlong({ ...this.#deps, open: openSession }, to.domain, route, 'Optional')
    if ('kind' in session) return session
    if (this.#stopped) session.destroy()
    this.#sessions.add(session)
    try {
      const wire = Buffer.from(wireOf(this.#deps, notice))
      const [verdict] = await session.send({ from: '', recipients: [to.address] }, wire)
      if (session.usable) void session.quit()
      return verdict!
    } catch (thrown) {
      return own('waiting', messageOf(thrown))
    } finally {
      this.#sessions.delete(session)
      session.destroy()
    }
  }
}

/** The nearest active hosted domain that is the name or a parent of it. */
function hostedAbove(reader: Reader, name: string): { key: number; name: string } | undefined {
  const labels = name.split('.')
  const names = labels.slice(0, -1).map((_, index) => labels.slice(index).join('.'))
  const hosted = reader.all(
    db
      .selectFrom('domains')
      .select(['key', 'name'])
      .where('name', 'in', names)
      .where('status', '=', 'active')
      .where('deleted_at', 'is', null),
  )
  return hosted.toSorted((one, other) => other.name.length - one.name.length)[0]
}

/**
 * The sender of notices:
 * as configured, else `postrider@` the hosted domain above this host, else `postrider@` this host.
 */
export function noticeSender(reader: Reader, { hostname, notices }: Pick<Config, 'hostname' | 'notices'>): string {
  return notices.from === '' ? `postrider@${hostedAbove(reader, hostname)?.name ?? hostname}` : notices.from
}

/** Whether notices are sent from an address that receivers can verify: a configured one, or that of a hosted domain. */
export const hasNoticeSender = (reader: Reader, { hostname, notices }: Pick<Config, 'hostname' | 'notices'>): boolean =>
  notices.from !== '' || hostedAbove(reader, hostname) !== undefined

/** The message for DATA, signed if its domain is hosted here. */
function wireOf({ clock, config, keys, store }: NoticeDeps, { created_at, email, id, subject, text }: Letter): string {
  const sender = noticeSender(store, config)
  const from = parseAddress(sender)
  if (!from) throw new Error(`"${sender}" is not an address that can send notices; set notices.from.`)
  const html = `<pre style="white-space:pre-wrap">${text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</pre>`
  const mail = {
    from: { ...from, name: from.name || 'Postrider' },
    to: [knownAddress(email)],
    cc: [],
    replyTo: [],
    subject: forLine(subject),
    html,
    text,
    attachments: [],
    messageId: `<${id}@${from.domain}>`,
    date: created_at,
    // RFC 3834: automatic replies must not answer it.
    extra: [['Auto-Submitted', 'auto-generated'] as const],
    tracking: null,
  }
  const message = [...compose(mail)].join('')
  const domain = hostedAbove(store, from.domain)
  const held = domain && signingKeyOf(store, domain.key)
  const key = held && 'key' in held ? keys.get(held.key) : undefined
  const signed =
    domain && key
      ? sign(message, {
          domain: domain.name,
          selector: key.selector,
          privateKey: createPrivateKey(key.privateKey),
          time: clock.now(),
        })
      : message
  return `${stuffDots(signed)}.\r\n`
}
