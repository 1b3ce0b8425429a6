// One line per event: JSON for machines, text on a terminal. Never a secret, never a body; addresses only where an
// operator needs them to follow a mail.
import { iso, type Clock } from './clock.ts'
import { newId } from './ids.ts'

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type Level = (typeof LEVELS)[number]
export type Fields = Record<string, unknown>

export interface Log {
  debug(event: string, fields?: Fields): void
  info(event: string, fields?: Fields): void
  warn(event: string, fields?: Fields): void
  error(event: string, fields?: Fields): void
  /** Logs a fault of ours with its stack, and returns the id under which it can be found. */
  fault(where: string, thrown: unknown): string
}

export interface LogOptions {
  clock: Clock
  level: Level
  form: 'json' | 'text'
  write: (line: string) => void
}

export function createLog({ clock, level, form, write }: LogOptions): Log {
  const least = LEVELS.indexOf(level)
  const line = (at: Level, event: string, fields: Fields = {}): void => {
    if (LEVELS.indexOf(at) < least) return
    const time = iso(clock.now())
    write(
      form === 'json'
        ? JSON.stringify({ event, ...fields, level: at, time }) + '\n'
        : textLine(time, at, event, fields),
    )
  }
  return {
    debug: (event, fields) => line('debug', event, fields),
    info: (event, fields) => line('info', event, fields),
    warn: (event, fields) => line('warn', event, fields),
    error: (event, fields) => line('error', event, fields),
    fault(where, thrown) {
      const id = newId(clock.now())
      line('error', 'fault', {
        where,
        id,
        error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown),
      })
      return id
    },
  }
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, fault: () => '' }

function textLine(time: string, level: Level, event: string, fields: Fields): string {
  const pairs = Object.entries(fields).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    return `${name}=${/[\s"]/.test(text ?? '') ? JSON.stringify(text) : text}`
  })
  const mark = level === 'info' ? '' : `${level.toUpperCase()} `
  return `${time.slice(11, 19)} ${mark}${event}${pairs.length ? ' ' : ''}${pairs.join(' ')}\n`
}
