// System calls recorded by strace(1), with every written byte. The order of the lines is the order of events: strace
// prints a call before it starts, and its result before the thread continues. If a call's result is printed before
// another call starts, it was complete, in any thread.
import { resolve } from 'node:path'

/** Calls that change files and their names, sync, or reply. */
const NAMES = [
  'pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg,sendmmsg,sendfile,splice,copy_file_range',
  'fsync,fdatasync,sync_file_range,ftruncate,truncate,fallocate,lseek',
  'open,openat,openat2,creat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,unlink,unlinkat,link,linkat,symlink,symlinkat',
]

/** Delays every sync by this many µs, as on a slow disk. Other threads continue. */
const SYNC = 20_000

/** The command that runs another one and writes its calls into a file, for `parse`. */
export const tracedInto = (file: string): string[] => {
  const shown = ['--seccomp-bpf', '-yy', '-xx', '-s', String(1 << 26), '-e', 'signal=none']
  const slow = ['-e', `inject=fsync,fdatasync:delay_exit=${SYNC}`]
  return ['strace', '-f', ...shown, '-e', `trace=${NAMES.join(',')}`, ...slow, '-o', file]
}

/** A stretch of a trace: the lines at which something began and ended. `ended` is Infinity when it was cut off. */
export interface Span {
  began: number
  ended: number
}

/** A call that succeeded or was cut off. A failed call has no effect. */
export interface Call extends Span {
  name: string
  /** The first argument, if it is a descriptor, and its file: a path, or "TCP:[from->to]". */
  fd: number
  on: string
  /** The arguments that are strings, in order. */
  strings: Buffer[]
  /** The line without the content of the strings. */
  line: string
  /** The return value, or 0 if the call was cut off. */
  result: number
}

/** All calls of a trace, in the order in which they started. Throws for a line without all bytes. */
export function parse(trace: string): Call[] {
  const calls: Call[] = []
  const begun = new Map<string, { began: number; text: string }>()
  const add = (span: Span, text: string): void => {
    const call = callOf(span, text)
    if (call) calls.push(call)
  }
  for (const [at, line] of trace.split('\n').entries()) {
    const space = line.indexOf(' ')
    const thread = line.slice(0, space)
    const text = line.slice(space).trimStart()
    const cut = text.lastIndexOf(' <unfinished ...>')
    if (text.startsWith('<... ')) {
      const first = begun.get(thread)
      if (!first) throw new Error(`line ${at + 1} ends a call that did not begin`)
      begun.delete(thread)
      add({ began: first.began, ended: at }, first.text + text.slice(text.indexOf('>') + 1))
    } else if (cut >= 0) begun.set(thread, { began: at, text: text.slice(0, cut) })
    else if (/^\w+\(/.test(text)) add({ began: at, ended: at }, text)
  }
  for (const { began, text } of begun.values()) add({ began, ended: Infinity }, text)
  return calls.sort((one, two) => one.began - two.began)
}

function callOf({ began, ended }: Span, text: string): Call | undefined {
  const parts = text.split('"')
  const strings = parts.filter((_, n) => n % 2 === 1).map(bytesOf)
  const plain = parts.filter((_, n) => n % 2 === 0)
  if (plain.some((part, n) => n > 0 && part.startsWith('...'))) throw new Error(`cut short: ${plain.join('""')}`)
  const line = plain.join('""')
  const [, name, fd = 'NaN', on = ''] = /^(\w+)\((?:(\d+)<(.*?)>(?=[,)( ]|$))?/.exec(line) ?? []
  if (name === undefined) throw new Error(`not a call: ${line}`)
  const result = /\) += (-?\d+|\?)[^"]*$/.exec(line)?.[1] ?? '?'
  if (result.startsWith('-')) return undefined
  const known = result !== '?'
  const place = bytesOf(on.startsWith('\\x') ? on : '').toString() || on
  const returned = known ? Number(result) : 0
  return { name, began, ended: known ? ended : Infinity, fd: Number(fd), on: place, strings, line, result: returned }
}

/** Parses "\x61\x62" into bytes. */
const bytesOf = (shown: string): Buffer => Buffer.from(shown.replaceAll('\\x', ''), 'hex')

/** The bytes that a call has written. */
export const written = ({ result, strings }: Call): Buffer => Buffer.concat(strings).subarray(0, result)

/** The paths that a call names, absolute. */
export function pathsOf({ line, strings }: Call): string[] {
  const folders = [...line.matchAll(/[(,] ?(?:AT_FDCWD|\d+)<([^>]*)>, ""/g)].map(([, shown]) => bytesOf(shown!))
  return strings.map((path, n) => resolve(folders[n]?.toString() ?? '/', path.toString()))
}

/** The calls except the syncs of the files that `which` selects. */
export const withoutSyncs = (calls: readonly Call[], which: (on: string) => boolean = () => true): Call[] =>
  calls.filter((call) => !(isSync(call) && which(call.on)))

/** Whether a call syncs the data written before it started (fsync(2)). */
export const isSync = ({ name }: Call): boolean => name === 'fsync' || name === 'fdatasync'
