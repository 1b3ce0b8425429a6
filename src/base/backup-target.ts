// A target of "backup.to": a directory, an S3 bucket or a command. An invalid one is rejected when the configuration is
// read. Rows, metrics and messages contain the titles of targets, which never include secrets.
import { isAbsolute } from 'node:path'
import { OperatorError } from './errors.ts'

export type BackupTarget =
  | { kind: 'directory'; path: string }
  | { kind: 'command'; words: string[] }
  | { kind: 's3'; bucket: string; prefix: string; options: ReadonlyMap<string, string> }

/** The names of all backups start with this: other applications may store files at the same target. */
export const BACKUP_PREFIX = 'postrider-'

/** Parses a target. Throws an OperatorError. */
export function targetOf(target: string): BackupTarget {
  if (isAbsolute(target)) return { kind: 'directory', path: target }
  if (target.startsWith('exec:')) return { kind: 'command', words: commandIn(target) }
  if (target.startsWith('s3://')) return bucketIn(target)
  throw wrongTarget(
    target,
    'is not a supported destination; use an absolute path, s3://, or exec: with a command such as ssh or rclone.',
  )
}

const wrongTarget = (target: string, what: string): OperatorError =>
  new OperatorError(`"${plainTitle(target).slice(0, 100)}" ${what}`)

const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/
const PREFIX = /^[A-Za-z0-9._/-]*$/
/** The settings of "backup.s3" that a target can override: "s3://bucket/prefix?endpoint=https://…". */
const S3_OPTIONS = ['endpoint', 'region', 'style', 'key_file']

function bucketIn(target: string): BackupTarget {
  const url = URL.parse(target)
  if (!url || url.hostname === '') throw wrongTarget('s3://…', 'is not a URL with a bucket; correct it.')
  // The target appears in the log.
  if (url.password !== '') throw wrongTarget(target, 'contains a password; move it to a file ("key_file").')
  if (url.hash !== '') throw wrongTarget(target, 'contains "#"; remove it.')
  for (const name of url.searchParams.keys())
    if (!S3_OPTIONS.includes(name))
      throw wrongTarget(target, `has the unknown parameter "${name}"; use one of ${S3_OPTIONS.join(', ')}.`)
  const { hostname: bucket, pathname, port, username } = url
  if (!BUCKET.test(bucket) || port !== '' || username !== '')
    throw wrongTarget(target, 'is not s3://BUCKET or s3://BUCKET/PREFIX; correct it.')
  if (!PREFIX.test(pathname) || pathname.includes('//'))
    throw wrongTarget(target, 'has an invalid prefix; use letters, digits, ".", "_", "-" and "/".')
  return { kind: 's3', bucket, prefix: pathname.replace(/^\/|\/$/g, ''), options: new Map(url.searchParams) }
}

/**
 * Returns the setting that a target requires in addition and that is missing, or undefined. Throws an OperatorError.
 */
export function missingSetting(text: string, s3: { key_file: string }): string | undefined {
  const target = targetOf(text)
  return target.kind === 's3' && !target.options.get('key_file') && !s3.key_file ? 's3.key_file' : undefined
}

function commandIn(target: string): string[] {
  const words = wordsOf(target.slice('exec:'.length))
  if (words.length === 0) throw wrongTarget('exec:', 'has no command; use "exec:COMMAND {action} {name}".')
  if (!target.includes('{action}') || !target.includes('{name}'))
    throw wrongTarget(target, 'is not told what to do; add {action} and {name} to the command (docs/backup.md).')
  return words
}

/** The words of a command line. '…' and "…" keep spaces together, a backslash keeps the next character. */
function wordsOf(line: string): string[] {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  for (let at = 0; at < line.length; at++) {
    const character = line.charAt(at)
    if (quote !== '' && character === quote) quote = ''
    else if (character === '\\' && quote !== "'" && at + 1 < line.length) word = (word ?? '') + line.charAt(++at)
    else if (quote === '' && (character === '"' || character === "'")) {
      quote = character
      word ??= ''
    } else if (quote === '' && /\s/.test(character)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else word = (word ?? '') + character
  }
  if (quote !== '') throw wrongTarget(`exec:${line}`, `has a ${quote} that is not closed; close it.`)
  if (word !== undefined) words.push(word)
  return words
}

/** The titles of targets, in their order. Each once. */
export function titlesOf(targets: readonly string[]): string[] {
  const titles: string[] = []
  for (const target of targets) {
    const plain = plainTitle(target)
    let title = plain
    for (let n = 2; titles.includes(title); n++) title = `${plain} (${n})`
    titles.push(title)
  }
  return titles
}

/** A URL without its parameters and its password. A command by its first word. */
function plainTitle(target: string): string {
  if (target.startsWith('exec:')) return target.trim().split(/\s/, 1)[0] ?? target
  return /^[a-z0-9+]+:\/\//i.test(target)
    ? target.replace(/\?.*$/s, '').replace(/^([a-z0-9+]+:\/\/[^/@:]*):[^/@]*@/i, '$1@')
    : target
}
