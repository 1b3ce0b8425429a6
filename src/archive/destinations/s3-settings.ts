// The settings of an S3 destination: "backup.s3" and the parameters of the target. The error for a wrong setting names
// it and the fix.
import { isIP } from 'node:net'
import { isAbsolute } from 'node:path'
import type { BackupTarget } from '../../base/backup-target.ts'
import { OperatorError } from '../../base/errors.ts'
import { whyUnread } from '../../base/file-faults.ts'
import { readNamed } from '../../base/plain-file.ts'
import type { DestinationDeps } from './backend.ts'
import { S3Backend } from './s3.ts'

export interface S3Options {
  /** The URL of the service. Default: Amazon's URL of the region. */
  endpoint?: string | undefined
  /** Default: us-east-1. */
  region?: string | undefined
  /** Whether the bucket is in the path of URLs (the default) or in the host name. */
  style?: 'path' | 'host' | undefined
  /** A file of two lines: the access key ID, and the secret. */
  key_file?: string | undefined
}

const wrong = (name: keyof S3Options, what: string): OperatorError => new OperatorError(`"backup.s3.${name}" ${what}`)

/** A bucket name that is valid as a label of a host name. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{1,61}[a-z0-9])$/

/** Opens a bucket. Throws an OperatorError if a setting is wrong. */
export function openS3(
  title: string,
  { bucket, options, prefix }: Extract<BackupTarget, { kind: 's3' }>,
  settings: S3Options,
  deps: DestinationDeps,
): S3Backend {
  const setting = (name: keyof S3Options): string | undefined => options.get(name) || settings[name] || undefined
  const region = setting('region') ?? 'us-east-1'
  if (!/^[\w-]{1,50}$/.test(region)) throw wrong('region', `is "${region}"; use a region name, such as us-east-1.`)
  const style = setting('style') ?? 'path'
  if (style !== 'path' && style !== 'host') throw wrong('style', `is "${style}"; use "path" or "host".`)
  const url = endpointOf(setting('endpoint') ?? `https://s3.${region}.amazonaws.com`)
  if (style === 'host') {
    if (isIP(url.hostname.replace(/[[\]]/g, '')) !== 0)
      throw wrong('style', `is "host", but an IP address such as ${url.hostname} has no subdomains; use "path".`)
    if (!LABEL.test(bucket))
      throw wrong(
        'style',
        `is "host", but "${bucket}" is not a single host name label (a-z, 0-9, "-") that the certificate can cover; use "path".`,
      )
    url.hostname = `${bucket}.${url.hostname}`
  }
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${style === 'path' ? `${bucket}/` : ''}`
  const key = keyIn(setting('key_file'))
  return new S3Backend({ title, bucket: url, prefix: prefix === '' ? '' : `${prefix}/`, region, ...key }, deps)
}

function endpointOf(text: string): URL {
  const url = URL.parse(text)
  const isLocal = url?.protocol === 'http:' && /^(?:localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname)
  if (!url || !(url.protocol === 'https:' || isLocal) || url.username !== '' || url.search !== '' || url.hash !== '')
    throw wrong('endpoint', `is "${text}"; use the https URL of the service.`)
  return url
}

function keyIn(path: string | undefined): { accessKeyId: string; secretAccessKey: string } {
  const content = 'the access key ID on its first line and the secret on its second'
  if (path === undefined) throw wrong('key_file', `is missing; set it to a file with ${content}.`)
  if (!isAbsolute(path)) throw wrong('key_file', `is "${path}"; use the absolute path of a file with ${content}.`)
  let text: string
  try {
    text = readNamed(path).toString('utf8')
  } catch (thrown) {
    throw wrong(
      'key_file',
      `is ${path}, which cannot be read (${whyUnread(thrown)}); use a file with ${content} that the server's user can read.`,
    )
  }
  const [accessKeyId = '', secretAccessKey = ''] = text.split(/\r?\n/).map((line) => line.trim())
  if (accessKeyId === '' || secretAccessKey === '')
    throw wrong('key_file', `is ${path}, which must have two lines: the access key ID and the secret.`)
  return { accessKeyId, secretAccessKey }
}
