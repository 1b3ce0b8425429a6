// The hardware and software of a measurement, in one line.
import { execFileSync } from 'node:child_process'
import { cpus, release, totalmem } from 'node:os'
import Database from 'better-sqlite3'
import { version } from '../../src/base/version.ts'

/** The matching output of a program, or a note that it is not installed. */
function told(program: string, args: string[], what: RegExp): string {
  try {
    return what.exec(execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))?.[1] ?? '?'
  } catch (thrown) {
    // wrk prints its version and exits with 1.
    const output = (thrown as { stdout?: string }).stdout
    return (output && what.exec(output)?.[1]) || 'absent'
  }
}

export function machine(): string {
  const database = new Database(':memory:')
  const sqlite = database.prepare('select sqlite_version()').pluck().get() as string
  database.close()
  const cores = cpus()
  return [
    `${cores.length} cores of ${cores[0]?.model ?? 'unknown kind'}`,
    `${Math.round(totalmem() / 2 ** 30)} GB`,
    `Linux ${release()}`,
    `Postrider ${version} (${told('git', ['rev-parse', '--short', 'HEAD'], /(\w+)/)})`,
    `Node ${process.versions.node}`,
    `SQLite ${sqlite}`,
    `Postfix ${told('postconf', ['-d', '-h', 'mail_version'], /(\S+)/)}`,
    `OpenDKIM ${told('opendkim', ['-V'], /Filter v(\S+)/)}`,
    `wrk ${told('wrk', ['-v'], /wrk (\S+)/)}`,
    new Date().toISOString().slice(0, 10),
  ].join(', ')
}
