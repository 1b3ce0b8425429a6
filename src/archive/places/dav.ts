// A folder on a WebDAV server (RFC 4918) as a place for backups. An object is sent under a name with a dot, its size is
// looked at, and it is moved to its own name: a server may keep a part of what was cut off.
import { messageOf } from '../../base/errors.ts'
import type { HttpsAnswer } from '../../net/https.ts'
import { partName, type Backend, type BackupObject, type PlaceDeps } from './backend.ts'
import { readElements } from './elements.ts'
import { PlaceFault } from './place-fault.ts'
import { Web, type WebRequest } from './web.ts'

const PROPERTIES = `<?xml version="1.0" encoding="utf-8"?>
<propfind xmlns="DAV:"><prop><getcontentlength/><getlastmodified/><resourcetype/></prop></propfind>`

export interface DavAccess {
  title: string
  /** Of the folder; ends with a slash. */
  folder: URL
  user: string
  password: string
}

export class DavBackend implements Backend {
  readonly title: string
  readonly leavesParts = true
  readonly #web: Web
  readonly #folder: URL
  readonly #authorization: string

  constructor({ folder, password, title, user }: DavAccess, deps: PlaceDeps) {
    this.title = title
    this.#folder = folder
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
    this.#web = new Web(title, deps)
  }

  async put(name: string, octets: AsyncIterable<Uint8Array>): Promise<void> {
    const part = partName(name)
    let size = 0
    const counted = async function* (): AsyncIterable<Uint8Array> {
      for await (const piece of octets) {
        size += piece.length
        yield piece
      }
    }
    try {
      const type = { 'content-type': 'application/octet-stream' }
      this.#demand(await this.#web.once(this.#request('PUT', part, type, counted())), [200, 201, 204])
      const kept = await this.head(part)
      if (kept?.size !== size)
        throw new PlaceFault('damaged', this.title, `the server kept ${kept?.size ?? 0} of ${size} octets`)
      const destination = { destination: this.#url(name).href, overwrite: 'T' }
      this.#demand(await this.#web.once(this.#request('MOVE', part, destination)), [200, 201, 204])
    } catch (thrown) {
      // What made it fail is what is said, also where this fails too.
      await this.remove(part).catch(messageOf)
      throw thrown
    }
  }

  async *entries(): AsyncIterable<BackupObject> {
    yield* (await this.#properties('', 1)) ?? this.#absent()
  }

  async head(name: string): Promise<BackupObject | undefined> {
    const found = await this.#properties(name, 0)
    return found?.find((each) => each.name === name)
  }

  get(name: string, from: number): AsyncIterable<Uint8Array> {
    // A proxy that packs answers would count other octets.
    return this.#web.ranges(name, from, async (range) =>
      this.#request('GET', name, { range, 'accept-encoding': 'identity' }),
    )
  }

  async remove(name: string): Promise<void> {
    this.#demand(await this.#web.again(async () => this.#request('DELETE', name)), [200, 202, 204, 404])
  }

  async close(): Promise<void> {
    this.#web.close()
  }

  /** The files of the folder (depth 1), or one; undefined when there is none of this name. */
  async #properties(name: string, depth: 0 | 1): Promise<BackupObject[] | undefined> {
    const headers = { depth, 'content-type': 'application/xml' }
    const answer = await this.#web.again(async () => this.#request('PROPFIND', name, headers, PROPERTIES))
    if (answer.status === 404) return undefined
    this.#demand(answer, [207])
    const elements = readElements(answer.octets)
    if (!elements) throw new PlaceFault('refused', this.title, 'the server does not answer in the XML of WebDAV')
    const found: BackupObject[] = []
    let next: Partial<BackupObject> & { folder?: true } = {}
    for (const { path, text } of elements) {
      const end = path.slice(path.lastIndexOf('/') + 1)
      if (end === 'href') next.name = lastOf(text)
      else if (end === 'getcontentlength' && /^\d{1,15}$/.test(text)) next.size = Number(text)
      else if (end === 'getlastmodified') next.at = Date.parse(text)
      else if (end === 'collection') next.folder = true
      else if (end === 'response') {
        const { at, folder, name: named, size } = next
        if (!folder && named !== undefined && size !== undefined)
          found.push({ name: named, size, at: at === undefined || Number.isNaN(at) ? undefined : at })
        next = {}
      }
    }
    return found
  }

  #request(
    method: WebRequest['method'],
    name: string,
    headers: WebRequest['headers'] = {},
    body?: WebRequest['body'],
  ): WebRequest {
    return { method, url: this.#url(name), headers: { authorization: this.#authorization, ...headers }, body }
  }

  #url(name: string): URL {
    return new URL(name, this.#folder)
  }

  #demand(answer: HttpsAnswer, statuses: readonly number[]): void {
    if (!statuses.includes(answer.status)) throw this.#web.refusal(answer)
  }

  #absent(): never {
    throw new PlaceFault('bucket', this.title, 'there is no such folder')
  }
}

/** The last part of the path of a URL; '' for one that cannot be read. */
function lastOf(href: string): string {
  try {
    return decodeURIComponent(href.replace(/\/$/, '').replace(/^.*\//, ''))
  } catch {
    return ''
  }
}
