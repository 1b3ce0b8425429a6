// The targets of "backup.to", opened with what the configuration says of them beside. A field that is wrong is refused
// with its name and what fixes it.
import { isIP } from 'node:net'
import { isAbsolute } from 'node:path'
import { isPrivate, targetOf } from '../../base/backup-target.ts'
import { OperatorError } from '../../base/errors.ts'
import { whyUnread } from '../../base/file-faults.ts'
import { readNamed } from '../../base/plain-file.ts'
import type { Backend, PlaceDeps } from './backend.ts'
import { DavBackend } from './dav.ts'
import { DirectoryBackend } from './directory.ts'
import { ExecBackend } from './exec.ts'
import { S3Backend } from './s3.ts'
import { SftpBackend, type SftpAccess } from './sftp.ts'

/**
 * What `[backup]` of the configuration says of targets, by kind. Each but the host keys may stand in a target of its
 * own as well: "s3://bucket/prefix?endpoint=https://…&key_file=/etc/…".
 */
export interface TargetOptions {
  s3?: S3Options | undefined
  sftp?: SftpOptions | undefined
  dav?: DavOptions | undefined
}

export interface S3Options {
  /** The URL of the service; absent: Amazon's, of the region. */
  endpoint?: string | undefined
  /** us-east-1 when absent. */
  region?: string | undefined
  /** Where the bucket stands in URLs: in the path (when absent), or in the host. */
  style?: 'path' | 'host' | undefined
  /** A file of two lines: the id of the access key, and the secret. */
  key_file?: string | undefined
}

export interface SftpOptions {
  /** A private key (OpenSSH or PEM) without a passphrase. */
  key_file?: string | undefined
  /** A file with the password, in place of a key. */
  password_file?: string | undefined
  /** Lines as `ssh-keyscan HOST` prints them: the host, or [host]:port, the kind of the key, the key. */
  host_keys?: readonly string[] | undefined
}

export interface DavOptions {
  /** A file with the password of the user in the URL. */
  password_file?: string | undefined
}

/** A wrong field beside a target; `what` ends the sentence. */
const refused = (field: string, what: string): OperatorError => new OperatorError(`"backup.${field}" ${what}`)

/** Opens what a target names. Throws an OperatorError. */
export function backendOf(text: string, options: TargetOptions, deps: PlaceDeps): Backend {
  const target = targetOf(text)
  if (target.kind === 'directory') return new DirectoryBackend(target.path)
  if (target.kind === 'exec') return new ExecBackend(target.words, text, deps)
  const { given, kind, url } = target
  const beside: Record<string, unknown> = { ...options[kind] }
  const field: FieldOf = (name) => given.get(name) || (beside[name] as string | undefined) || undefined
  if (kind === 's3') return s3Of({ title: text, url, field }, deps)
  return kind === 'sftp'
    ? sftpOf({ title: text, url, field }, options.sftp?.host_keys ?? [], deps)
    : davOf({ title: text, url, field }, deps)
}

/** The value of a field: what stands in the target, over what stands beside it. */
type FieldOf = (name: string) => string | undefined

interface UrlTarget {
  title: string
  url: URL
  field: FieldOf
}

/** What a file holds that the operator named. Throws an OperatorError. */
function contentOf(field: string, path: string | undefined, holds: string): Buffer {
  if (path === undefined) throw refused(field, `is missing; name a file with ${holds}.`)
  if (!isAbsolute(path)) throw refused(field, `is "${path}"; give the absolute path of a file with ${holds}.`)
  try {
    return readNamed(path)
  } catch (thrown) {
    throw refused(
      field,
      `is ${path}, which cannot be read (${whyUnread(thrown)}); it must be a file with ${holds} that the server's user may read.`,
    )
  }
}

const firstLine = (content: Buffer): string => content.toString('utf8').split(/\r?\n/)[0] ?? ''

function passwordIn(field: string, path: string | undefined): string {
  const password = firstLine(contentOf(field, path, 'the password in its first line'))
  if (password === '') throw refused(field, `is ${path}, whose first line is empty; write the password there.`)
  return password
}

/** A bucket that can stand in a host name. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{1,61}[a-z0-9])$/

function s3Of({ field, title, url }: UrlTarget, deps: PlaceDeps): Backend {
  const bucket = url.hostname
  const prefix = url.pathname.replace(/^\/|\/$/g, '')
  const region = field('region') ?? 'us-east-1'
  if (!/^[\w-]{1,50}$/.test(region))
    throw refused('s3.region', `is "${region}"; give the region's name, such as us-east-1.`)
  const style = field('style') ?? 'path'
  if (style !== 'path' && style !== 'host') throw refused('s3.style', `is "${style}"; give "path" or "host".`)
  const endpoint = URL.parse(field('endpoint') ?? `https://s3.${region}.amazonaws.com`)
  if (!endpoint || !isPrivate(endpoint) || endpoint.username !== '' || endpoint.search !== '' || endpoint.hash !== '')
    throw refused('s3.endpoint', `is "${field('endpoint')}"; give the https URL of the service.`)
  const [accessKeyId = '', secretAccessKey = ''] = contentOf(
    's3.key_file',
    field('key_file'),
    'the id of the access key in its first line and the secret in its second',
  )
    .toString('utf8')
    .split(/\r?\n/)
    .map((line) => line.trim())
  if (accessKeyId === '' || secretAccessKey === '')
    throw refused(
      's3.key_file',
      `is ${field('key_file')}, which must have two lines: the id of the access key, and the secret.`,
    )
  const base = new URL(endpoint)
  if (style === 'host') {
    if (isIP(base.hostname.replace(/[[\]]/g, '')) !== 0)
      throw refused(
        's3.style',
        `is "host", but an address such as ${base.hostname} has no names below it; give "path".`,
      )
    if (!LABEL.test(bucket))
      throw refused(
        's3.style',
        `is "host", but "${bucket}" is not a single label of a host name, which certificates cover (a-z, 0-9, "-"); give "path".`,
      )
    base.hostname = `${bucket}.${base.hostname}`
  }
  base.pathname = `${base.pathname.replace(/\/$/, '')}/${style === 'path' ? `${bucket}/` : ''}`
  return new S3Backend(
    { title, bucket: base, prefix: prefix === '' ? '' : `${prefix}/`, region, accessKeyId, secretAccessKey },
    deps,
  )
}

function davOf({ field, title, url }: UrlTarget, deps: PlaceDeps): Backend {
  const user = decodeURIComponent(url.username)
  const password = passwordIn('dav.password_file', field('password_file'))
  url.username = ''
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return new DavBackend({ title, folder: url, user, password }, deps)
}

function sftpOf({ field, title, url }: UrlTarget, pinned: readonly string[], deps: PlaceDeps): Backend {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = url.port === '' ? 22 : Number(url.port)
  const name = port === 22 ? host : `[${host}]:${port}`
  // "/~/" is the folder of the user, where a server does not begin at its root.
  const path = decodeURIComponent(url.pathname).replace(/^\/~(?:\/|$)/, '')
  const folder = path === '' ? './' : path.endsWith('/') ? path : `${path}/`
  const hostKeys = pinnedFor(name, pinned)
  return new SftpBackend(
    { title, host, port, user: decodeURIComponent(url.username), folder, secret: secretOf(field), hostKeys },
    deps,
  )
}

function secretOf(field: FieldOf): SftpAccess['secret'] {
  const file = field('key_file')
  if (file === undefined && field('password_file') !== undefined)
    return { password: passwordIn('sftp.password_file', field('password_file')) }
  const privateKey = contentOf('sftp.key_file', file, 'a private key of OpenSSH')
  if (!/^-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(privateKey.toString('latin1')))
    throw refused(
      'sftp.key_file',
      `is ${file}, which is not a private key; make one that opens without a passphrase with ssh-keygen -N "".`,
    )
  return { privateKey }
}

const KINDS = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521', 'ssh-rsa']

/** The keys that are pinned for a host. Throws an OperatorError when there is none. */
function pinnedFor(host: string, lines: readonly string[]): SftpAccess['hostKeys'] {
  const field = 'sftp.host_keys'
  const found: { kind: string; key: Buffer }[] = []
  for (const line of lines) {
    const [hosts = '', kind = '', text = ''] = line.trim().split(/\s+/)
    const key = Buffer.from(text, 'base64')
    // The key names its own kind (RFC 4253 §6.6).
    if (!KINDS.includes(kind) || key.subarray(4, 4 + kind.length).toString('latin1') !== kind)
      throw refused(
        field,
        `has the line "${line.slice(0, 100)}"; give lines as "ssh-keyscan ${host}" prints them: HOST ssh-ed25519 AAAA….`,
      )
    if (hosts.split(',').includes(host)) found.push({ kind, key })
  }
  if (found.length === 0)
    throw refused(
      field,
      `has no key of ${host}; ask who runs the server for the line "${host} ssh-ed25519 AAAA…" (ssh-keyscan shows what the network says, which may be somebody else).`,
    )
  return found
}
