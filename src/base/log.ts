// The log: one line per event, as JSON, or as text on a terminal. It contains no secrets and no bodies, and addresses
// only if an operator needs them to follow an email.
import { iso, type Clock } from './clock.ts'
import { counters } from './counters.ts'
import { codeOf, DAMAGED, messageOf } from './errors.ts'
import { localTrouble, TROUBLE_SENTENCES } from './local-trouble.ts'
import { LOG_EVENTS, type LogEvent } from './log-events.ts'
import { newId } from './ids.ts'

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type Level = (typeof LEVELS)[number]
export type LogFields = Record<string, unknown>

export interface Log {
  debug(event: LogEvent, fields?: LogFields): void
  info(event: LogEvent, fields?: LogFields): void
  warn(event: LogEvent, fields?: LogFields): void
  error(event: LogEvent, fields?: LogFields): void
  /** Logged at every level: the server is ready, stops, or could not start. */
  always(event: LogEvent, fields?: LogFields): void
  /** Logs an internal error with its stack, or a problem of this machine as such (D72). Returns the id of the line. */
  fault(where: string, thrown: unknown): string
  /** Returns the last lines, oldest first. Undefined for a log that keeps no lines. */
  recent?(): readonly LogEntry[]
  /** Changes every text in the kept lines, to remove an erased address. */
  forget?(change: (text: string) => string): void
}

/** A line of the log. */
export interface LogEntry {
  /** The number of the line since the start. */
  line: number
  /** ms */
  at: number
  level: Level
  event: LogEvent
  fields: LogFields
}

/**
 * The number of lines kept in memory, for operators without a shell. As many warnings and errors are kept separately,
 * so that a busy server does not displace them within seconds.
 */
const KEPT = 500

/** The last values, up to a number. Adding one takes the same time for every number. */
class Ring<Value> {
  readonly #most: number
  readonly #kept: Value[] = []
  #added = 0

  constructor(most: number) {
    this.#most = most
  }

  add(value: Value): void {
    this.#kept[this.#added++ % this.#most] = value
  }

  /** In no order. */
  all(): readonly Value[] {
    return this.#kept
  }
}

/** Priorities of syslog (RFC 5424 §6.2.1). */
const PRIORITIES: Record<Level, number> = { debug: 7, info: 6, warn: 4, error: 3 }

export interface LogOptions {
  clock: Clock
  level: Level
  /** `journal`: JSON after the priority prefix that systemd reads (sd-daemon(3)). */
  form: 'json' | 'text' | 'journal'
  write: (line: string) => void
}

/** Returns a log that passes every event of at least `level` to `write`, as one line with its line end. */
export function createLog({ clock, level, form, write }: LogOptions): Log {
  const least = LEVELS.indexOf(level)
  const [usual, severe] = [new Ring<LogEntry>(KEPT), new Ring<LogEntry>(KEPT)]
  let lines = 0
  const say = (at: Level, event: LogEvent, fields?: LogFields): void => {
    if (LEVELS.indexOf(at) >= least) line(at, event, fields)
  }
  const line = (at: Level, event: LogEvent, more: LogFields = {}): void => {
    const now = clock.now()
    const fields = { message: LOG_EVENTS[event], ...more }
    const time = iso(now)
    const ring = at === 'warn' || at === 'error' ? severe : usual
    ring.add({ line: ++lines, at: now, level: at, event, fields })
    if (form === 'text') return write(textLine(time, at, event, fields))
    const priority = form === 'journal' ? `<${PRIORITIES[at]}>` : ''
    write(`${priority}${JSON.stringify({ event, ...fields, level: at, time })}\n`)
  }
  return {
    debug: (event, fields) => say('debug', event, fields),
    info: (event, fields) => say('info', event, fields),
    warn: (event, fields) => say('warn', event, fields),
    error: (event, fields) => say('error', event, fields),
    always: (event, fields) => line('info', event, fields),
    fault(where, thrown) {
      const id = newId(clock.now())
      // A problem of this machine is not an internal error, wherever it occurs.
      const reason = reasonOf(thrown)
      if (reason !== undefined) {
        line('error', 'problem_reported', { what: where, reason, code: codeOf(thrown), error: messageOf(thrown), id })
        return id
      }
      counters.faults.add()
      line('error', 'internal_error', {
        where,
        id,
        error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown),
      })
      return id
    },
    forget(change) {
      for (const entry of [...usual.all(), ...severe.all()]) entry.fields = changed(entry.fields, change) as LogFields
    },
    recent: () => [...usual.all(), ...severe.all()].toSorted((a, b) => a.line - b.line),
  }
}

/** Returns the local problem as a sentence, or undefined for other errors. Corrupt data counts as one. */
function reasonOf(thrown: unknown): string | undefined {
  const trouble = localTrouble(thrown)
  if (trouble) return TROUBLE_SENTENCES[trouble]
  return codeOf(thrown) === DAMAGED ? 'Stored data is corrupt.' : undefined
}

/** Returns a copy of a value with every text in it changed. */
function changed(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((each) => changed(each, change))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, changed(each, change)]))
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, always() {}, fault: () => '' }

function textLine(time: string, level: Level, event: LogEvent, { message, ...fields }: LogFields): string {
  const pairs = Object.entries(fields).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    return `${name}=${/[\s"]/.test(text ?? '') ? JSON.stringify(text) : text}`
  })
  const mark = level === 'info' ? '' : `${level.toUpperCase()} `
  return `${[`${time.slice(11, 19)} ${mark}${event}: ${String(message)}`, ...pairs].join(' ')}\n`
}
