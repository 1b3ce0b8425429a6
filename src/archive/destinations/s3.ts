// An S3 bucket as a backup destination. Objects are uploaded in parts of 8 MB, at most two of which are in memory: one
// is filled while the other is sent. Each part is signed with its hash, so that the service rejects a modified one. The
// object appears when the upload is completed. A failed upload is aborted, one of a killed process after a day.
import { createHash } from 'node:crypto'
import { AwsV4Signer } from 'aws4fetch'
import { BACKUP_PREFIX } from '../../base/backup-target.ts'
import { DAY, type Clock } from '../../base/clock.ts'
import { isNameIn } from '../../base/one-of.ts'
import { messageOf } from '../../base/errors.ts'
import type { HttpsAnswer } from '../../net/https.ts'
import { ByteReader } from '../byte-reader.ts'
import type { Backend, DestinationDeps, StoredObject } from './backend.ts'
import { DestinationFault, type FaultReason } from './fault.ts'
import { PIECE, S3Requests, type S3Request } from './s3-requests.ts'
import { readElements, type TextElement } from './s3-xml.ts'

/** The most parts of an upload: 84 GB. */
const MOST_PARTS = 10_000
/** The most pages of a list, each of a thousand objects. */
const MOST_PAGES = 1000

export interface S3Access {
  title: string
  /** Ends with a slash. */
  bucket: URL
  /** Ends with a slash, or is ''. */
  prefix: string
  region: string
  accessKeyId: string
  secretAccessKey: string
}

/** The reasons of error codes. For other codes, the status determines the reason. */
const REASONS: Record<string, FaultReason> = {
  RequestTimeTooSkewed: 'clock',
  RequestExpired: 'clock',
  NoSuchBucket: 'bucket',
  InvalidBucketName: 'bucket',
  PermanentRedirect: 'bucket',
  TemporaryRedirect: 'bucket',
  AuthorizationHeaderMalformed: 'bucket',
  EntityTooLarge: 'space',
  QuotaExceeded: 'space',
  XMinioStorageFull: 'space',
  XMinioAdminBucketQuotaExceeded: 'space',
  BadDigest: 'damaged',
  XAmzContentSHA256Mismatch: 'damaged',
}

interface S3Operation {
  method: S3Request['method']
  /** The name of an object with its prefix, or '' for the bucket. */
  key: string
  query?: Record<string, string>
  headers?: Record<string, string>
  body?: Uint8Array
}

export class S3Backend implements Backend {
  readonly title: string
  readonly #access: S3Access
  readonly #clock: Clock
  readonly #requests: S3Requests
  /** Signing keys by day. */
  readonly #keys = new Map<string, ArrayBuffer>()

  constructor(access: S3Access, deps: DestinationDeps) {
    this.title = access.title
    this.#access = access
    this.#clock = deps.clock
    this.#requests = new S3Requests(access.title, deps)
  }

  async put(name: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#abortStale()
    const key = this.#key(name)
    const source = new ByteReader(bytes)
    try {
      const first = await source.take(PIECE)
      if (await source.ended()) this.#demand(await this.#send({ method: 'PUT', key, body: first }))
      else await this.#putParts(key, first, source)
    } finally {
      await source.close()
    }
  }

  async *list(): AsyncIterable<StoredObject> {
    const { prefix } = this.#access
    const seen = new Set<string>()
    let token: string | undefined
    for (let pages = 0; pages < MOST_PAGES; pages++) {
      const more: Record<string, string> = token === undefined ? {} : { 'continuation-token': token }
      const query = { 'list-type': '2', prefix, delimiter: '/', ...more }
      const elements = this.#elements(await this.#send({ method: 'GET', key: '', query }), 'ListBucketResult')
      yield* objectsIn(elements, prefix)
      if (textOf(elements, 'ListBucketResult/IsTruncated') !== 'true') return
      token = textOf(elements, 'ListBucketResult/NextContinuationToken') ?? ''
      // A truncated or repeated list would hide backups.
      if (token === '' || seen.has(token))
        throw new DestinationFault(
          'refused',
          this.title,
          `the service returned a truncated list with ${token === '' ? 'no' : 'a repeated'} continuation token`,
        )
      seen.add(token)
    }
    throw new DestinationFault(
      'large',
      this.title,
      `there are more than ${MOST_PAGES * 1000} objects under the prefix`,
      false,
      'use another prefix, or delete some of them',
    )
  }

  async sizeOf(name: string): Promise<number | undefined> {
    const answer = await this.#send({ method: 'HEAD', key: this.#key(name) })
    if (answer.status === 404) return undefined
    this.#demand(answer)
    return Number(answer.headers['content-length'])
  }

  get(name: string): AsyncIterable<Uint8Array> {
    const key = this.#key(name)
    return this.#requests.download(name, (range) => this.#signed({ method: 'GET', key, headers: { range } }))
  }

  async remove(name: string): Promise<void> {
    const answer = await this.#send({ method: 'DELETE', key: this.#key(name) })
    if (answer.status !== 404 || codeIn(answer) === 'NoSuchBucket') this.#demand(answer)
  }

  async close(): Promise<void> {
    this.#requests.close()
  }

  #key(name: string): string {
    return `${this.#access.prefix}${name}`
  }

  async #putParts(key: string, first: Uint8Array, source: ByteReader): Promise<void> {
    const begun = this.#elements(await this.#send({ method: 'POST', key, query: { uploads: '' } }))
    const uploadId = textOf(begun, 'InitiateMultipartUploadResult/UploadId')
    if (uploadId === undefined) throw new DestinationFault('refused', this.title, 'the service returned no upload ID')
    try {
      const tags: string[] = []
      for (let part = first; part.length > 0;) {
        const query = { partNumber: String(tags.length + 1), uploadId }
        if (tags.length === MOST_PARTS)
          throw new DestinationFault('large', this.title, `the backup has more than ${MOST_PARTS} parts`)
        const [answer, next] = await both(this.#send({ method: 'PUT', key, query, body: part }), source.take(PIECE))
        this.#demand(answer)
        tags.push(answer.headers.etag ?? '')
        part = next
      }
      await this.#complete(key, uploadId, tags)
    } catch (thrown) {
      // If it cannot be aborted now, it is after a day. The first error is reported.
      await this.#send({ method: 'DELETE', key, query: { uploadId } }).catch(messageOf)
      throw thrown
    }
  }

  async #complete(key: string, uploadId: string, tags: readonly string[]): Promise<void> {
    const parts = tags.map((tag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escaped(tag)}</ETag></Part>`)
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`)
    const answer = await this.#send({ method: 'POST', key, query: { uploadId }, body })
    // An earlier attempt may have succeeded although its response was lost: the caller verifies the size of the object.
    if (answer.status === 404 && codeIn(answer) === 'NoSuchUpload') return
    // The service sends the status before it completes the upload, so a 200 can contain an error.
    if (textOf(this.#elements(answer), 'Error/Code') !== undefined) throw this.#refusal(answer)
  }

  /** Aborts our uploads that were started more than a day ago. */
  async #abortStale(): Promise<void> {
    const { prefix } = this.#access
    const answer = await this.#send({ method: 'GET', key: '', query: { uploads: '', prefix } })
    // Uploads work even if the key may not list them, or the service cannot.
    if (answer.status === 501 || (answer.status === 403 && codeIn(answer) === 'AccessDenied')) return
    let key = ''
    let uploadId = ''
    for (const { path, text } of this.#elements(answer)) {
      if (path === 'ListMultipartUploadsResult/Upload/Key') key = text
      if (path === 'ListMultipartUploadsResult/Upload/UploadId') uploadId = text
      if (path !== 'ListMultipartUploadsResult/Upload/Initiated') continue
      if (!key.startsWith(`${prefix}${BACKUP_PREFIX}`) || key.slice(prefix.length).includes('/')) continue
      if (Date.parse(text) < this.#clock.now() - DAY) await this.#send({ method: 'DELETE', key, query: { uploadId } })
    }
  }

  #send(operation: S3Operation): Promise<HttpsAnswer> {
    return this.#requests.send(() => this.#signed(operation))
  }

  async #signed({ body, headers, key, method, query = {} }: S3Operation): Promise<S3Request> {
    const { accessKeyId, bucket, region, secretAccessKey } = this.#access
    const url = new URL(key, bucket)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const hash = createHash('sha256')
      .update(body ?? '')
      .digest('hex')
    const signer = new AwsV4Signer({
      method,
      url: url.href,
      headers: { ...headers, 'x-amz-content-sha256': hash },
      accessKeyId,
      secretAccessKey,
      region,
      service: 's3',
      cache: this.#keys,
      datetime: new Date(this.#clock.now()).toISOString().replace(/[:-]|\.\d{3}/g, ''),
    })
    const signed = await signer.sign()
    return {
      method,
      url: signed.url,
      headers: { ...Object.fromEntries(signed.headers), 'content-length': body?.length ?? 0 },
      body,
    }
  }

  #demand(answer: HttpsAnswer): void {
    if (answer.status !== 200 && answer.status !== 204) throw this.#refusal(answer)
  }

  /** The region of the bucket if the service states that it is another one. */
  #regionIn(answer: HttpsAnswer): string | undefined {
    if (!isRedirect(answer) && codeIn(answer) !== 'AuthorizationHeaderMalformed') return undefined
    const elements = readElements(answer.octets) ?? []
    const region = String(answer.headers['x-amz-bucket-region'] ?? textOf(elements, 'Error/Region') ?? '')
    return /^[\w-]{1,50}$/.test(region) && region !== this.#access.region ? region : undefined
  }

  /** The elements of a response. A document with another root, such as a sign-in page, is an error. */
  #elements(answer: HttpsAnswer, root?: string): TextElement[] {
    this.#demand(answer)
    const elements = readElements(answer.octets)
    // The root element is closed last.
    if (!elements || (root !== undefined && elements.at(-1)?.path !== root))
      throw new DestinationFault('refused', this.title, 'the response is not valid S3 XML')
    return elements
  }

  #refusal(answer: HttpsAnswer): DestinationFault {
    const code = codeIn(answer)
    const reason = isNameIn(REASONS, code) ? REASONS[code] : undefined
    const region = this.#regionIn(answer)
    if (region !== undefined || isRedirect(answer)) {
      const fix =
        region === undefined
          ? 'check "backup.s3.endpoint", "backup.s3.region" and the name of the bucket'
          : `set "backup.s3.region" to "${region}"`
      return new DestinationFault('bucket', this.title, `the service returned ${code || answer.status}`, false, fix)
    }
    return reason
      ? new DestinationFault(reason, this.title, `the service returned ${code}`)
      : this.#requests.refusal(answer, code)
  }
}

/** Waits for both, even if one fails. */
async function both<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  const settled = await Promise.allSettled([one, other])
  for (const each of settled) if (each.status === 'rejected') throw each.reason
  return [await one, await other]
}

const isRedirect = ({ status }: HttpsAnswer): boolean => status >= 300 && status < 400

const textOf = (elements: readonly TextElement[], path: string): string | undefined =>
  elements.find((element) => element.path === path)?.text

/** The code of an error, or ''. */
const codeIn = ({ octets }: HttpsAnswer): string => textOf(readElements(octets) ?? [], 'Error/Code') ?? ''

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

function* objectsIn(elements: readonly TextElement[], prefix: string): Iterable<StoredObject> {
  let key = ''
  let size = NaN
  for (const { path, text } of elements) {
    if (path === 'ListBucketResult/Contents/Key') key = text
    if (path === 'ListBucketResult/Contents/Size') size = Number(text)
    if (path !== 'ListBucketResult/Contents') continue
    if (key.startsWith(prefix) && Number.isSafeInteger(size)) yield { name: key.slice(prefix.length), size }
  }
}
