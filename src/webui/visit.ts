// A signed-in person's request for a page: the account that it shows, the person's rights, and requests to the API for
// that person. All rules are in the API; a page only reads and shows.
import type { Context } from 'hono'
import { getCookie } from 'hono/cookie'
import { JSON_API } from '../jsonapi/media.ts'
import type { Caller, Resource } from '../jsonapi/resource.ts'
import type { AttributesOf, LinkageOf, NamesOf } from '../jsonapi/shown.ts'
import { SCOPES } from '../identity/scopes.ts'
import { userByKey, type User } from '../identity/users.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { chosenLook } from './look.ts'
import type { Once } from './once.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import type { People, Person } from './browser-session.ts'
import { refuse } from '../base/errors.ts'
import { isObject } from '../base/json.ts'

/** A resource of the API, as pages read it; without `R`, one whose attributes are not known. */
export interface Thing<R extends Resource = Resource> {
  type: string
  id: string
  attributes: AttributesOf<R>
  relationships?: LinkageOf<R>
}

export interface Answer<R extends Resource = Resource> {
  status: number
  headers: Headers
  one: Thing<R> | undefined
  many: Thing<R>[]
  included: Thing[]
  next: string | null
  previous: string | null
  /** The API's own sentences, each with the name of its attribute. */
  errors: { detail: string; field: string | undefined; code: string }[]
}

interface AskedDocument {
  type: string
  id?: string
  attributes?: Record<string, unknown>
  relationships?: object
}

/** The request document of a resource. */
export const wholeOf = (data: AskedDocument): { data: AskedDocument } => ({ data: { attributes: {}, ...data } })

/** The labels of a form's fields by the names of their attributes. */
export type Labels = Readonly<Record<string, string>>

/** The API's sentence with the label that a person sees in place of the attribute's name. */
export const worded = ({ detail, field }: Answer['errors'][number], labels: Labels): string => {
  const label = field === undefined || !Object.hasOwn(labels, field) ? undefined : labels[field]
  return label === undefined ? detail : detail.replace(/^"[^"]*"/, () => `"${label}"`)
}

/** A function that gives the API's sentence about a form field, if there is one. */
export const faultIn =
  (errors: Answer['errors'], labels: Labels = {}) =>
  (name: string): string | undefined => {
    const error = errors.find(({ field }) => field === name)
    return error && worded(error, labels)
  }

interface ReceivedDocument {
  data?: Thing | Thing[]
  included?: Thing[]
  meta?: { next_cursor?: string | null; prev_cursor?: string | null }
  errors?: { detail: string; code: string; source?: { pointer?: string } }[]
}

/** The scopes of a person who may only read another person's account. */
const READING = new Set(SCOPES.filter((scope) => scope.endsWith(':read')))
const ALL: ReadonlySet<string> = new Set(SCOPES)

export const READS = 'You may look at this account, and change nothing in it.'

/** The key of the account that a person sees. */
export const shownTo = ({ session, user }: Person): number =>
  (user.operator === 1 ? session.open_as : user.reads_for) ?? user.key

/** A counter beside a place of the menu. */
export interface MenuCounter {
  shown: string
  /** What is counted, for a screen reader and as a title. */
  means: string
  bad?: true
}

/** The counters of a visit's menu, by the paths of their places. */
export type MenuCounters = (visit: Visit) => Promise<Record<string, MenuCounter>>

interface VisitParts {
  deps: Pick<ApiDeps, 'clock' | 'store'>
  inside: Inside
  once: Once
  people: People
  counters: MenuCounters
}

export class Visit {
  readonly context: Context
  readonly person: Person
  /** The account that the pages show. */
  readonly account: User
  /** The person may not change anything. */
  readonly reading: boolean
  readonly now: () => number
  readonly #caller: Caller
  readonly #inside: Inside
  readonly #people: People
  readonly #once: Once

  /** The counters of the menu. */
  readonly counters: () => ReturnType<MenuCounters>

  constructor(context: Context, person: Person, { counters, deps, inside, once, people }: VisitParts) {
    const { session, user } = person
    this.context = context
    this.person = person
    this.account = userByKey(deps.store, shownTo(person)) ?? user
    this.reading = user.reads_for !== null
    this.#inside = inside
    this.#people = people
    this.#once = once
    this.now = () => deps.clock.now()
    this.counters = () => counters(this)
    this.#caller = {
      userKey: this.account.key,
      userId: this.account.id,
      tokenId: session.id,
      scopes: this.reading ? READING : ALL,
      operator: this.operator,
      person: { key: user.key, email: user.email },
    }
  }

  get operator(): boolean {
    return this.person.user.operator === 1
  }

  /** Whether an operator looks at another person's account. */
  get elsewhere(): boolean {
    return this.operator && this.account.key !== this.person.user.key
  }

  /** The proof that every form of the console carries. */
  get proof(): string {
    return this.#people.proofFor(this.context, this.person, 'console')
  }

  /** Leads to a page that shows a secret, this once. */
  leadToSecret(path: string, secret: string): Response {
    return this.#leadOnce(path, 'secret', secret)
  }

  /** The secret that this page was led to show; undefined when it was shown, or is another session's. */
  get secret(): string | undefined {
    return this.#take('secret')
  }

  /**
   * Leads to a page that confirms an action, this once, in a sentence that names the thing: "Paused. 1,974 of 1,994 not
   * sent yet." The sentence waits in memory, so that no link of another site can show its own.
   */
  say(path: string, sentence: string): Response {
    return this.#leadOnce(path, 'said', sentence)
  }

  /** The sentence that this page was led to say. */
  get said(): string | undefined {
    return this.#take('said')
  }

  /** HEAD shows nothing, so it takes nothing. */
  #take(what: string): string | undefined {
    if (this.context.req.method === 'HEAD') return undefined
    return this.#once.take(this.person.session.id, this.query(what))
  }

  #leadOnce(path: string, what: string, words: string): Response {
    const joint = path.includes('?') ? '&' : '?'
    return this.context.redirect(`${path}${joint}${what}=${this.#once.keep(this.person.session.id, words)}`, 303)
  }

  /** The person's time zone, as the browser told it; UTC before it did, for a name that is none, and by choice. */
  get zone(): string {
    if (chosenLook(this.context, 'times') === 'utc') return 'UTC'
    const told = getCookie(this.context, 'tz') ?? ''
    return /^[A-Za-z][\w+/-]{0,60}$/.test(told) && isZone(told) ? told : 'UTC'
  }

  /** A query parameter of the page. */
  query(name: string): string {
    return this.context.req.query(name) ?? ''
  }

  async #read(path: string): Promise<Answer> {
    const answer = await this.ask('GET', path)
    // An error, because the page would otherwise show an empty list.
    if (answer.status === 403 && this.reading)
      throw refuse('insufficient_scope', `Only the owner of the account, ${this.account.email}, sees this.`)
    return answer
  }

  /** Reads a resource from the API. Throws a refusal when the person may not see what is asked for. */
  async get<R extends Resource>(resource: R, path: string): Promise<Answer<R>> {
    const answer = await this.#read(path)
    const many = answer.many.map((thing) => thingOf(resource, thing))
    return { ...answer, one: answer.one && many[0], many }
  }

  /** Makes a request to the API; `attributes` become a document of the type. A stream has the octets of a document. */
  async ask(
    method: string,
    path: string,
    document?: AskedDocument | ReadableStream<Uint8Array>,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await this.#inside(
      this.#caller,
      new Request(`http://inside${path}`, {
        method,
        headers: { ...headers, ...(document ? { 'Content-Type': JSON_API } : {}) },
        ...(document instanceof ReadableStream
          ? { body: document, duplex: 'half' }
          : document && { body: JSON.stringify(wholeOf(document)) }),
      }),
    )
    // An error, because the page would otherwise show an empty list.
    if (method === 'GET' && response.status === 405) throw new Error(`The API has no GET ${path}`)
    const text = response.status === 204 ? '' : await response.text()
    const body = (text === '' ? {} : JSON.parse(text)) as ReceivedDocument
    return {
      status: response.status,
      headers: response.headers,
      one: Array.isArray(body.data) ? body.data[0] : body.data,
      many: Array.isArray(body.data) ? body.data : body.data ? [body.data] : [],
      included: body.included ?? [],
      next: body.meta?.next_cursor ?? null,
      previous: body.meta?.prev_cursor ?? null,
      errors: (body.errors ?? []).map(({ code, detail, source }) => ({
        code,
        detail: this.reading && code === 'insufficient_scope' ? READS : detail,
        field: /^\/data\/(?:attributes|relationships)\/([^/]+)/.exec(source?.pointer ?? '')?.[1],
      })),
    }
  }

  /** Octets of a download. */
  download(path: string): Promise<Response> {
    return this.#inside(this.#caller, new Request(`http://inside${path}`))
  }

  /** All rows of a list, page by page, at most `most`. */
  async all<R extends Resource>(resource: R, path: string, most = 1000): Promise<Thing<R>[]> {
    return (await this.#rows(path, most)).map((thing) => thingOf(resource, thing))
  }

  /** The ids of all rows of a list with their names, as the options of a form's field. */
  async names(path: string): Promise<[id: string, name: string][]> {
    return [...namesOf(await this.#rows(path, 1000))]
  }

  async #rows(path: string, most: number): Promise<Thing[]> {
    const rows: Thing[] = []
    for (let cursor: string | null = ''; cursor !== null && rows.length < most;) {
      const joint = path.includes('?') ? '&' : '?'
      const page = cursor === '' ? '' : `&page%5Bcursor%5D=${encodeURIComponent(cursor)}`
      const { many, next }: Answer = await this.#read(`${path}${joint}page%5Bsize%5D=100${page}`)
      rows.push(...many)
      cursor = next
    }
    return rows
  }
}

function isZone(name: string): boolean {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: name }))
  } catch {
    return false
  }
}

/** A thing as one of this resource. Throws when it is another's: a page asks at the wrong path. */
export function thingOf<R extends Resource>(resource: R, thing: Thing): Thing<R> {
  if (thing.type !== resource.type) throw new Error(`${resource.type} are expected here, not ${thing.type}`)
  return thing as Thing<R>
}

/** Those of an answer's included things that are of this resource. */
export const those = <R extends Resource>(resource: R, included: readonly Thing[]): Thing<R>[] =>
  included.filter(({ type }) => type === resource.type).map((thing) => thingOf(resource, thing))

/** The names of things by their ids, whatever their resource; '' for one without a name. */
export const namesOf = (things: readonly Thing[]): Map<string, string> =>
  new Map(things.map(({ attributes: { name }, id }) => [id, typeof name === 'string' ? name : '']))

/** The id of the related resource; undefined when there is none. */
export const relatedId = <L extends LinkageOf<Resource>>(
  { relationships }: { relationships?: L },
  name: keyof L,
): string | undefined => relationships?.[name]?.data?.id

/** What has attributes, as the functions below read it. A name of another kind of value does not compile. */
interface Has<Attributes> {
  attributes: Attributes
}
type Values<List> = NonNullable<List> extends readonly (infer Value)[] ? Value : never

/** An attribute as text; '' when there is none. */
export const text = <A>({ attributes }: Has<A>, name: NamesOf<A, string | number>): string => {
  const value: unknown = attributes[name]
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : ''
}
export const number = <A>({ attributes }: Has<A>, name: NamesOf<A, number>): number => Number(attributes[name] ?? 0)
export const flag = <A>({ attributes }: Has<A>, name: NamesOf<A, boolean>): boolean => attributes[name] === true

/** An attribute that is a list of objects; empty when the stored value is damaged. */
export const objects = <A, Name extends NamesOf<A, readonly object[]>>(
  { attributes }: Has<A>,
  name: Name,
): Values<A[Name]>[] => {
  const list: unknown = attributes[name]
  return Array.isArray(list) ? list : []
}

/** An attribute that is a list of texts; damaged entries are left out. */
export const texts = <A>({ attributes }: Has<A>, name: NamesOf<A, readonly string[]>): string[] => {
  const list: unknown = attributes[name]
  return Array.isArray(list) ? list.filter((each) => typeof each === 'string') : []
}

/** An attribute that is an object; empty when it is missing. */
export const record = <A, Name extends NamesOf<A, Readonly<Record<string, unknown>>>>(
  { attributes }: Has<A>,
  name: Name,
): Record<string, NonNullable<A[Name]>[keyof NonNullable<A[Name]>]> => {
  const value: unknown = attributes[name]
  return isObject(value) ? (value as never) : {}
}

/** What a server answered, in one line. The text of a report often begins with the codes: they are not said twice. */
export function answerOf({
  enhanced_code: enhanced,
  response,
  smtp_code: code,
}: {
  enhanced_code?: string | null
  response?: string | null
  smtp_code?: number | null
}): string {
  const words = String(response ?? '')
  return /^\d{3}(?:[ -]|$)/.test(words) ? words : [code, enhanced, words].filter(Boolean).join(' ')
}
