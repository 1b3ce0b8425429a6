// The log: one line per event, JSON for machines, text on a terminal. It holds no secrets and no bodies, and addresses
// only where an operator needs them to follow a mail.
import { iso, type Clock } from './clock.ts'
import { counters } from './counters.ts'
import { codeOf, DAMAGED, messageOf } from './errors.ts'
import { localTrouble, TROUBLE_SENTENCES } from './local-trouble.ts'
import { newId } from './ids.ts'

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type Level = (typeof LEVELS)[number]
export type LogFields = Record<string, unknown>

export interface Log {
  debug(event: string, fields?: LogFields): void
  info(event: string, fields?: LogFields): void
  warn(event: string, fields?: LogFields): void
  error(event: string, fields?: LogFields): void
  /** Logged at every level: the server is ready, stops, or could not start. */
  always(event: string, fields?: LogFields): void
  /**
   * Logs an error of this program with its stack, and trouble of this machine as such (D72). Returns the id under which
   * it can be found.
   */
  fault(where: string, thrown: unknown): string
  /** The last lines, the oldest first; a log that keeps none has no such function. */
  recent?(): readonly LogEntry[]
  /** Changes every text in the lines that are kept, to remove an erased address. */
  forget?(change: (text: string) => string): void
}

/** A line of the log. */
export interface LogEntry {
  /** ms */
  at: number
  level: Level
  event: string
  fields: LogFields
}

/** The number of lines that are kept in memory, for operators who have no shell. */
const KEPT = 500

/** Priorities of syslog (RFC 5424 §6.2.1). */
const PRIORITIES: Record<Level, number> = { debug: 7, info: 6, warn: 4, error: 3 }

export interface LogOptions {
  clock: Clock
  level: Level
  /** `journal`: JSON after the priority prefix that systemd reads (sd-daemon(3)). */
  form: 'json' | 'text' | 'journal'
  write: (line: string) => void
}

/** A log that passes every event of at least `level` to `write`, as one line with its line end. */
export function createLog({ clock, level, form, write }: LogOptions): Log {
  const least = LEVELS.indexOf(level)
  const kept: LogEntry[] = []
  let lines = 0
  const say = (at: Level, event: string, fields?: LogFields): void => {
    if (LEVELS.indexOf(at) >= least) line(at, event, fields)
  }
  const line = (at: Level, event: string, fields: LogFields = {}): void => {
    const now = clock.now()
    const time = iso(now)
    kept[lines++ % KEPT] = { at: now, level: at, event, fields }
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
      // Trouble of this machine is not a fault of the program, wherever it is met.
      const reason = reasonOf(thrown)
      if (reason !== undefined) {
        line('error', 'trouble', { what: where, reason, code: codeOf(thrown), error: messageOf(thrown), id })
        return id
      }
      counters.faults.add()
      line('error', 'fault', {
        where,
        id,
        error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown),
      })
      return id
    },
    forget(change) {
      for (const entry of kept) entry.fields = changed(entry.fields, change) as LogFields
    },
    recent: () => (lines <= KEPT ? kept.slice() : [...kept.slice(lines % KEPT), ...kept.slice(0, lines % KEPT)]),
  }
}

/** What of this machine an error is about, in a sentence: local trouble, or damaged data. */
function reasonOf(thrown: unknown): string | undefined {
  const trouble = localTrouble(thrown)
  if (trouble) return TROUBLE_SENTENCES[trouble]
  return codeOf(thrown) === DAMAGED ? 'Data on the disk is damaged.' : undefined
}

/** A value with every text in it changed. */
function changed(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((each) => changed(each, change))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, changed(each, change)]))
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, always() {}, fault: () => '' }

function textLine(time: string, level: Level, event: string, fields: LogFields): string {
  const pairs = Object.entries(fields).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    return `${name}=${/[\s"]/.test(text ?? '') ? JSON.stringify(text) : text}`
  })
  const mark = level === 'info' ? '' : `${level.toUpperCase()} `
  return `${time.slice(11, 19)} ${mark}${event}${pairs.length ? ' ' : ''}${pairs.join(' ')}\n`
}
