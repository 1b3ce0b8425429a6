// A bucket of S3, or of a service that speaks the same, as a place for backups. Objects are uploaded in parts of 8 MB,
// of which at most two are in memory: one is filled while the other is sent. Each part is signed with its own hash, so
// that the service refuses a changed one. Nothing is to be seen before the upload is completed; one that ended badly is
// aborted, and those that a kill left are after a day.
import { createHash } from 'node:crypto'
import { AwsV4Signer } from 'aws4fetch'
import { DAY, type Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import type { HttpsAnswer } from '../../net/https.ts'
import { Octets } from '../octets.ts'
import { OURS, type Backend, type BackupObject, type PlaceDeps } from './backend.ts'
import { readElements, type TextElement } from './elements.ts'
import { PlaceFault, type PlaceReason } from './place-fault.ts'
import { PIECE, Web, type WebRequest } from './web.ts'

/** The most parts of an upload: 84 GB. */
const MOST_PARTS = 10_000
/** The most pages of a list, of a thousand objects each. */
const MOST_PAGES = 1000

export interface S3Access {
  title: string
  /** Of the bucket; ends with a slash. */
  bucket: URL
  /** What stands before each name, with a slash at its end, or ''. */
  prefix: string
  region: string
  accessKeyId: string
  secretAccessKey: string
}

/** What the codes of errors mean; the status says it of the others. */
const REASONS: Record<string, PlaceReason> = {
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

interface Asked {
  method: WebRequest['method']
  /** The name of an object with its prefix; '' is the bucket. */
  key: string
  query?: Record<string, string>
  headers?: Record<string, string>
  body?: Uint8Array
}

export class S3Backend implements Backend {
  readonly title: string
  readonly #access: S3Access
  readonly #clock: Clock
  readonly #web: Web
  /** Keys of the signature, by day. */
  readonly #keys = new Map<string, ArrayBuffer>()

  constructor(access: S3Access, deps: PlaceDeps) {
    this.title = access.title
    this.#access = access
    this.#clock = deps.clock
    this.#web = new Web(access.title, deps)
  }

  async put(name: string, octets: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#abortStale()
    const key = this.#key(name)
    const source = new Octets(octets)
    let size = 0
    try {
      const first = await source.take(PIECE)
      size = first.length
      if (await source.ended()) this.#demand(await this.#ask({ method: 'PUT', key, body: first }))
      else size = await this.#putParts(key, first, source)
    } finally {
      await source.close()
    }
    const kept = await this.head(name)
    if (kept?.size !== size)
      throw new PlaceFault('damaged', this.title, `the service kept ${kept?.size ?? 0} of ${size} octets`)
  }

  async *entries(): AsyncIterable<BackupObject> {
    const { prefix } = this.#access
    let token: string | undefined
    for (let pages = 0; pages < MOST_PAGES; pages++) {
      const more: Record<string, string> = token === undefined ? {} : { 'continuation-token': token }
      const query = { 'list-type': '2', prefix, delimiter: '/', ...more }
      const elements = this.#elements(await this.#ask({ method: 'GET', key: '', query }))
      yield* objectsIn(elements, prefix)
      token = textOf(elements, 'ListBucketResult/NextContinuationToken')
      if (textOf(elements, 'ListBucketResult/IsTruncated') !== 'true' || token === undefined) return
    }
    throw new PlaceFault('large', this.title, `more than ${MOST_PAGES * 1000} objects lie under the prefix`)
  }

  async head(name: string): Promise<BackupObject | undefined> {
    const answer = await this.#ask({ method: 'HEAD', key: this.#key(name) })
    if (answer.status === 404) return undefined
    this.#demand(answer)
    const at = Date.parse(answer.headers['last-modified'] ?? '')
    return { name, size: Number(answer.headers['content-length']), at: Number.isNaN(at) ? undefined : at }
  }

  get(name: string, from: number): AsyncIterable<Uint8Array> {
    const key = this.#key(name)
    return this.#web.ranges(name, from, (range) => this.#signed({ method: 'GET', key, headers: { range } }))
  }

  async remove(name: string): Promise<void> {
    const answer = await this.#ask({ method: 'DELETE', key: this.#key(name) })
    if (answer.status !== 404 || codeIn(answer) === 'NoSuchBucket') this.#demand(answer)
  }

  async close(): Promise<void> {
    this.#web.close()
  }

  #key(name: string): string {
    return `${this.#access.prefix}${name}`
  }

  async #putParts(key: string, first: Uint8Array, source: Octets): Promise<number> {
    const begun = this.#elements(await this.#ask({ method: 'POST', key, query: { uploads: '' } }))
    const uploadId = textOf(begun, 'InitiateMultipartUploadResult/UploadId')
    if (uploadId === undefined) throw new PlaceFault('refused', this.title, 'the service names no upload')
    try {
      const tags: string[] = []
      let size = 0
      for (let part = first; part.length > 0;) {
        const query = { partNumber: String(tags.length + 1), uploadId }
        if (tags.length === MOST_PARTS)
          throw new PlaceFault('large', this.title, `it has more than ${MOST_PARTS} parts`)
        size += part.length
        const [answer, next] = await both(this.#ask({ method: 'PUT', key, query, body: part }), source.take(PIECE))
        this.#demand(answer)
        tags.push(answer.headers.etag ?? '')
        part = next
      }
      await this.#complete(key, uploadId, tags)
      return size
    } catch (thrown) {
      // What made it fail is what is said; an upload that cannot be aborted now is after a day.
      await this.#ask({ method: 'DELETE', key, query: { uploadId } }).catch(messageOf)
      throw thrown
    }
  }

  async #complete(key: string, uploadId: string, tags: readonly string[]): Promise<void> {
    const parts = tags.map((tag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escaped(tag)}</ETag></Part>`)
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`)
    const answer = await this.#ask({ method: 'POST', key, query: { uploadId }, body })
    // An answer that did not come may have been a success: the size of the object says so afterwards.
    if (answer.status === 404 && codeIn(answer) === 'NoSuchUpload') return
    // The status comes before the work is done, so that an error can stand below a 200.
    if (textOf(this.#elements(answer), 'Error/Code') !== undefined) throw this.#refusal(answer)
  }

  /** Aborts uploads of ours that began more than a day ago. */
  async #abortStale(): Promise<void> {
    const { prefix } = this.#access
    const answer = await this.#ask({ method: 'GET', key: '', query: { uploads: '', prefix } })
    // A key that may not list uploads, and a service that cannot, may still make them.
    if (answer.status === 501 || (answer.status === 403 && codeIn(answer) === 'AccessDenied')) return
    let key = ''
    let uploadId = ''
    for (const { path, text } of this.#elements(answer)) {
      if (path === 'ListMultipartUploadsResult/Upload/Key') key = text
      if (path === 'ListMultipartUploadsResult/Upload/UploadId') uploadId = text
      if (path !== 'ListMultipartUploadsResult/Upload/Initiated') continue
      if (!key.startsWith(`${prefix}${OURS}`) || key.slice(prefix.length).includes('/')) continue
      if (Date.parse(text) < this.#clock.now() - DAY) await this.#ask({ method: 'DELETE', key, query: { uploadId } })
    }
  }

  #ask(asked: Asked): Promise<HttpsAnswer> {
    return this.#web.again(() => this.#signed(asked))
  }

  async #signed({ body, headers, key, method, query = {} }: Asked): Promise<WebRequest> {
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

  /** What is to be set when the service says that the bucket is in another region, or has another address. */
  #elsewhere(answer: HttpsAnswer): string | undefined {
    const { headers, status } = answer
    const elements = readElements(answer.octets) ?? []
    if (!(status >= 300 && status < 400) && codeIn(answer) !== 'AuthorizationHeaderMalformed') return undefined
    const { bucket, region } = this.#access
    const named = String(headers['x-amz-bucket-region'] ?? textOf(elements, 'Error/Region') ?? '')
    const settings = /^[\w-]{1,50}$/.test(named) && named !== region ? [`"backup.s3.region" to "${named}"`] : []
    const host = textOf(elements, 'Error/Endpoint') ?? URL.parse(headers['location'] ?? '')?.host ?? ''
    // Where the bucket stands in the host, it stands before the address.
    const name = textOf(elements, 'Error/Bucket') ?? ''
    const address = name !== '' && host.startsWith(`${name}.`) ? host.slice(name.length + 1) : host
    if (/^[\w.-]{1,253}(?::\d{1,5})?$/.test(address) && address !== bucket.host)
      settings.push(`"backup.s3.endpoint" to "https://${address}"`)
    return settings.length === 0 ? undefined : `set ${settings.join(' and ')}`
  }

  #elements(answer: HttpsAnswer): TextElement[] {
    this.#demand(answer)
    const elements = readElements(answer.octets)
    if (!elements) throw new PlaceFault('refused', this.title, 'the service does not answer in the XML of S3')
    return elements
  }

  #refusal(answer: HttpsAnswer): PlaceFault {
    const code = codeIn(answer)
    const reason = REASONS[code]
    const elsewhere = this.#elsewhere(answer)
    if (elsewhere !== undefined)
      return new PlaceFault('bucket', this.title, `the service says ${code || answer.status}`, false, elsewhere)
    return reason ? new PlaceFault(reason, this.title, `the service says ${code}`) : this.#web.refusal(answer, code)
  }
}

/** Both values; when one fails, the other is waited for all the same. */
async function both<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  const settled = await Promise.allSettled([one, other])
  for (const each of settled) if (each.status === 'rejected') throw each.reason
  return [await one, await other]
}

const textOf = (elements: readonly TextElement[], path: string): string | undefined =>
  elements.find((element) => element.path === path)?.text

/** The code of an error; '' when there is none. */
const codeIn = ({ octets }: HttpsAnswer): string => textOf(readElements(octets) ?? [], 'Error/Code') ?? ''

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

function* objectsIn(elements: readonly TextElement[], prefix: string): Iterable<BackupObject> {
  let key = ''
  let at: number | undefined
  let size = NaN
  for (const { path, text } of elements) {
    if (path === 'ListBucketResult/Contents/Key') key = text
    if (path === 'ListBucketResult/Contents/LastModified') at = Date.parse(text)
    if (path === 'ListBucketResult/Contents/Size') size = Number(text)
    if (path !== 'ListBucketResult/Contents') continue
    if (key.startsWith(prefix) && Number.isSafeInteger(size)) yield { name: key.slice(prefix.length), size, at }
  }
}
