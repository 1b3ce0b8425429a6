// A target of "backup.to": what its text means, and how it is called in rows, metrics and sentences, without what may
// be secret. One that is wrong is refused when the configuration is read, not by the first backup.
import { isAbsolute } from 'node:path'
import { OperatorError } from './errors.ts'

/** A target, as its text alone says. */
export type BackupTarget =
  | { kind: 'directory'; path: string }
  | { kind: 'exec'; words: string[] }
  | { kind: UrlKind; url: URL; given: ReadonlyMap<string, string> }

/** What may stand in a target, after "?". */
const FIELDS = {
  s3: ['endpoint', 'region', 'style', 'key_file'],
  sftp: ['key_file', 'password_file'],
  dav: ['password_file'],
} as const
type UrlKind = keyof typeof FIELDS

/** The text of a target, read. Throws an OperatorError. */
export function targetOf(target: string): BackupTarget {
  if (isAbsolute(target)) return { kind: 'directory', path: target }
  if (target.startsWith('exec:')) return { kind: 'exec', words: wordsOf(target.slice('exec:'.length)) }
  const [, scheme = ''] = /^(s3|sftp|https?\+dav):\/\//.exec(target) ?? []
  if (scheme === '')
    throw wrongTarget(
      target,
      'is not a target; give an absolute path, or what begins with s3://, sftp://, https+dav:// or exec:.',
    )
  const read = urlIn(target, scheme.endsWith('dav') ? 'dav' : (scheme as 's3' | 'sftp'))
  const { kind, url } = read
  if (kind === 's3') demandBucket(target, url)
  else if (kind === 'dav' && !isPrivate(url)) throw wrongTarget(target, 'is without TLS; give https+dav://.')
  else if (url.username === '')
    throw wrongTarget(target, `has no user; give ${kind === 'dav' ? 'https+dav' : 'sftp'}://USER@HOST/PATH.`)
  return read
}

const wrongTarget = (target: string, what: string): OperatorError =>
  new OperatorError(`"${plainTitle(target).slice(0, 100)}" ${what}`)

function urlIn(target: string, kind: UrlKind) {
  const url = URL.parse(target.replace('+dav:', ':'))
  if (!url || url.hostname === '')
    throw wrongTarget(`${target.split('://')[0]}://…`, 'is not a URL with a host; correct it.')
  // The target is shown, and stands in the log.
  if (url.password !== '') throw wrongTarget(target, 'has a password in it; put that into a file.')
  if (url.hash !== '') throw wrongTarget(target, 'has a "#" in it; leave that out.')
  const names: readonly string[] = FIELDS[kind]
  for (const name of url.searchParams.keys())
    if (!names.includes(name)) throw wrongTarget(target, `has "${name}"; it takes ${names.join(', ')}.`)
  const given = new Map(url.searchParams)
  url.search = ''
  return { kind, url, given }
}

const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/
const PREFIX = /^[A-Za-z0-9._/-]*$/

function demandBucket(target: string, { hostname, pathname, port, username }: URL): void {
  if (!BUCKET.test(hostname) || port !== '' || username !== '')
    throw wrongTarget(target, 'is not s3://BUCKET or s3://BUCKET/PREFIX; correct it.')
  if (!PREFIX.test(pathname) || pathname.includes('//'))
    throw wrongTarget(target, 'has a prefix that is not of letters, digits, ".", "_", "-" and "/"; correct it.')
}

/** What a target of a kind needs: one of these. */
const SECRETS: Record<UrlKind, readonly string[]> = {
  s3: ['key_file'],
  sftp: ['key_file', 'password_file'],
  dav: ['password_file'],
}

/** The setting beside "backup.to" that a target needs and nobody gives; undefined: none. Throws an OperatorError. */
export function neededBeside(
  text: string,
  beside: Record<UrlKind, Readonly<Record<string, unknown>>>,
): string | undefined {
  const target = targetOf(text)
  if (!('given' in target)) return undefined
  const { given, kind } = target
  const secrets = SECRETS[kind]
  if (!secrets.some((name) => given.get(name) || beside[kind][name])) return `${kind}.${secrets[0]}`
  const pinned = beside.sftp['host_keys']
  return kind === 'sftp' && Array.isArray(pinned) && pinned.length === 0 ? 'sftp.host_keys' : undefined
}

/** Whether nobody between can read what is sent: by TLS, or because it does not leave the machine. */
export const isPrivate = ({ hostname, protocol }: URL): boolean =>
  protocol === 'https:' || (protocol === 'http:' && /^(?:localhost|127\.[\d.]+|\[::1\])$/.test(hostname))

/** The words of a command line; '…' and "…" keep blanks together, a backslash keeps the next character. */
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
  if (words.length === 0) throw wrongTarget('exec:', 'has no command; give one, "exec:COMMAND".')
  return words
}

/** The titles of targets, in their order; each once. */
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

/** Whether a target is a command that only takes: what it stored is listed, drilled and removed by itself. */
export const storesOnly = (target: string): boolean => target.startsWith('exec:') && !target.includes('{action}')

/** A URL without its parameters and its password; a command by its first word. */
function plainTitle(target: string): string {
  if (target.startsWith('exec:')) return target.trim().split(/\s/, 1)[0] ?? target
  return /^[a-z0-9+]+:\/\//i.test(target)
    ? target.replace(/\?.*$/s, '').replace(/^([a-z0-9+]+:\/\/[^/@:]*):[^/@]*@/i, '$1@')
    : target
}
