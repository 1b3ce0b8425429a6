// A signed-in user's request for a page: the account that it shows, the user's rights, and requests to the API for that
// user. All rules are in the API, and a page only reads and shows.
import type { Context } from 'hono'
import { getCookie } from 'hono/cookie'
import type { Clock } from '../../base/clock.ts'
import { JSON_API } from '../../jsonapi/media.ts'
import type { Caller, Resource } from '../../jsonapi/resource.ts'
import type { AttributesOf, LinkageOf, NamesOf } from '../../jsonapi/shown.ts'
import { permits, rightsOf, ROLES, type Rights, type RoleName } from '../../jsonapi/roles.ts'
import { isScope, type Scope } from '../../jsonapi/scopes.ts'
import { chosenLook } from './look.ts'
import { entryOf, type MenuEntry, type Navigation } from './navigation.ts'
import type { Once } from './once.ts'
import type { Inside } from '../../jsonapi/in-process-api.ts'
import { refuse } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { isZone } from '../../base/zone.ts'

/** A resource of the API, as pages read it. Without `R`, its attributes are unknown. */
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
  /** The API's errors, each with the name of its attribute. */
  errors: { detail: string; field: string | undefined; code: string; pointer?: string | undefined }[]
}

export interface AskedDocument {
  type: string
  id?: string
  attributes?: Record<string, unknown>
  relationships?: object
}

/** The request document of a resource. */
export const wholeOf = (data: AskedDocument): { data: AskedDocument } => ({ data: { attributes: {}, ...data } })

/** The labels of a form's fields by the names of their attributes. */
export type Labels = Readonly<Record<string, string>>

/** Returns the API's error with the label that a user sees in place of the attribute's name. */
export const worded = ({ detail, field }: Answer['errors'][number], labels: Labels): string => {
  const label = field === undefined || !Object.hasOwn(labels, field) ? undefined : labels[field]
  return label === undefined ? detail : detail.replace(/^"[^"]*"/, () => `"${label}"`)
}

/** Returns a function that finds the API's error about a form field, or undefined. */
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

interface AskedRequest {
  method: string
  path: string
  /** A document, or a stream of its bytes. */
  document?: AskedDocument | ReadableStream<Uint8Array> | undefined
  headers?: Record<string, string>
}

/** Makes a request to the API inside the process. */
export async function askInside(
  inside: Inside,
  caller: Caller,
  { document, headers = {}, method, path }: AskedRequest,
): Promise<Answer> {
  const response = await inside(
    caller,
    new Request(`http://inside${path}`, {
      method,
      headers: { ...headers, ...(document ? { 'Content-Type': JSON_API } : {}) },
      ...(document instanceof ReadableStream
        ? { body: document, duplex: 'half' }
        : document && { body: JSON.stringify(wholeOf(document)) }),
    }),
  )
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
      detail,
      pointer: source?.pointer,
      field: /^\/data\/(?:attributes|relationships)\/([^/]+)/.exec(source?.pointer ?? '')?.[1],
    })),
  }
}

/** The rows of a list, page by page, until there are `most` or more. */
export async function rowsOf(read: (path: string) => Promise<Answer>, path: string, most = Infinity): Promise<Thing[]> {
  const rows: Thing[] = []
  for (let cursor: string | null = ''; cursor !== null && rows.length < most;) {
    const joint = path.includes('?') ? '&' : '?'
    const page = cursor === '' ? '' : `&page%5Bcursor%5D=${encodeURIComponent(cursor)}`
    const { many, next }: Answer = await read(`${path}${joint}page%5Bsize%5D=100${page}`)
    rows.push(...many)
    cursor = next
  }
  return rows
}

/** An account as pages know it. */
interface Account {
  key: number
  id: string
  email: string
}

/** A signed-in user with their session, as pages know them. */
export interface Visitor {
  user: Account & { name: string; operator: 0 | 1 }
  session: { id: string }
  /** The account that the pages show, and the user's role in it. */
  account: Account
  role: RoleName
}

/** A counter next to a menu entry. */
export interface MenuCounter {
  shown: string
  /** The meaning of the number, for a screen reader and as a title. */
  means: string
  bad?: true
}

/** The counters of a visit's menu, by the paths of their places. */
export type MenuCounters = (visit: Visit) => Promise<Record<string, MenuCounter>>

/** An IANA time zone, and a language as a BCP 47 tag. */
export interface TimePlace {
  zone: string
  language: string
}

interface VisitParts {
  clock: Pick<Clock, 'now'>
  inside: Inside
  once: Once
  people: { proofFor(context: Context, visitor: Visitor, request: string): string }
  counters: MenuCounters
  navigation: Navigation
  /** The client's IP address. */
  address: () => string
}

export class Visit {
  readonly context: Context
  readonly person: Visitor
  /** The account that the pages show. */
  readonly account: Account
  /** What the role of the user allows. */
  readonly rights: Rights
  /** The user cannot change anything on this page. */
  readonly reading: boolean
  /** The user may not see this page. */
  readonly forbidden: boolean
  readonly now: () => number
  readonly #caller: Caller
  readonly #inside: Inside
  readonly #people: VisitParts['people']
  readonly #once: Once

  readonly navigation: Navigation
  /** The counters of the menu. */
  readonly counters: () => ReturnType<MenuCounters>

  constructor(
    context: Context,
    person: Visitor,
    { address, clock, counters, inside, navigation, once, people }: VisitParts,
  ) {
    const { account, role, session, user } = person
    this.context = context
    this.person = person
    this.account = account
    this.rights = rightsOf(role)
    const here = entryOf(navigation, context.req.path)
    this.forbidden = here !== undefined && !this.sees(here)
    this.reading = here?.scope !== undefined && !this.rights.scopes.has(`${here.scope}:write`)
    this.#inside = inside
    this.#people = people
    this.#once = once
    this.now = () => clock.now()
    this.counters = () => counters(this)
    this.navigation = navigation
    this.#caller = {
      userKey: this.account.key,
      userId: this.account.id,
      tokenId: session.id,
      via: 'console',
      address,
      ...this.rights,
      operator: this.operator,
      person: { key: user.key, email: user.email },
    }
  }

  /** Whether the user may open the page of a menu entry. */
  sees({ changes, marketing, operator, scope }: MenuEntry): boolean {
    if (operator) return this.operator
    if (scope === undefined) return true
    const read = `${scope}:read`
    return permits(this.rights, isScope(read) && !changes ? read : `${scope}:write`, marketing ? { marketing: '' } : {})
  }

  /** Whether the user may use a scope of the account for all its data. */
  allows(scope: Scope): boolean {
    return permits(this.rights, scope, {})
  }

  /** Whether the user may open a page. `changes`: and change data on it. */
  opens(path: string, changes = false): boolean {
    const entry = entryOf(this.navigation, path)
    if (entry === undefined) return true
    return (
      this.sees(entry) && !(changes && entry.scope !== undefined && !this.rights.scopes.has(`${entry.scope}:write`))
    )
  }

  /** Why the user cannot do something. */
  get denied(): string {
    const { name } = ROLES[this.person.role]
    return `Your role in the account of ${this.account.email} (${name}) does not allow this. Ask an owner of the account.`
  }

  get operator(): boolean {
    return this.person.user.operator === 1
  }

  /** Whether an operator views another user's account. */
  get elsewhere(): boolean {
    return this.operator && this.account.key !== this.person.user.key
  }

  /** The proof in every form of the console. */
  get proof(): string {
    return this.#people.proofFor(this.context, this.person, 'console')
  }

  /** Redirects to a page that shows a secret, once. */
  leadToSecret(path: string, secret: string): Response {
    return this.#leadOnce(path, 'secret', secret)
  }

  /** The secret for this page, or undefined if it was already shown or belongs to another session. */
  get secret(): string | undefined {
    return this.#take('secret')
  }

  /**
   * Redirects to a page that confirms an action, once, in a sentence that names the resource: "Paused. 1,974 of 1,994
   * not sent yet." The sentence is kept in memory, so that a link of another site cannot show its own.
   */
  say(path: string, sentence: string): Response {
    return this.#leadOnce(path, 'said', sentence)
  }

  /** The confirmation for this page. */
  get said(): string | undefined {
    return this.#take('said')
  }

  /** HEAD shows no secret, so it uses none up. */
  #take(what: string): string | undefined {
    if (this.context.req.method === 'HEAD') return undefined
    return this.#once.take(this.person.session.id, this.query(what))
  }

  #leadOnce(path: string, what: string, words: string): Response {
    const joint = path.includes('?') ? '&' : '?'
    return this.context.redirect(`${path}${joint}${what}=${this.#once.keep(this.person.session.id, words)}`, 303)
  }

  /** The user's time zone from the cookie of the browser. It is UTC without a valid one, and by choice. */
  get zone(): string {
    if (chosenLook(this.context, 'times') === 'utc') return 'UTC'
    const zone = getCookie(this.context, 'tz') ?? ''
    return isZone(zone) ? zone : 'UTC'
  }

  /** The zone and the first language of the browser, in which charts write times. */
  get place(): TimePlace {
    const [language = ''] = /^[\w-]+/.exec(this.context.req.header('accept-language') ?? '') ?? []
    return { zone: this.zone, language: isLanguage(language) ? language : 'en-GB' }
  }

  /** A query parameter of the page. */
  query(name: string): string {
    return this.context.req.query(name) ?? ''
  }

  async #read(path: string): Promise<Answer> {
    const answer = await this.ask('GET', path)
    // An error, because the page would otherwise show an empty list.
    if (answer.status === 403) throw refuse('insufficient_scope', this.denied)
    return answer
  }

  /** Reads a resource from the API. Throws a refusal if the user may not see it. */
  async get<R extends Resource>(resource: R, path: string): Promise<Answer<R>> {
    const answer = await this.#withDomains(path)
    const many = answer.many.map((thing) => thingOf(resource, thing))
    return { ...answer, one: answer.one && many[0], many }
  }

  /** Users without access to domains see only their names. */
  async #withDomains(path: string): Promise<Answer> {
    if (this.allows('domains:read') || !path.includes(INCLUDE_DOMAIN)) return this.#read(path)
    const [answer, names] = await Promise.all([
      this.#read(path.replace(INCLUDE_DOMAIN, 'include=')),
      this.names('/sender-domains'),
    ])
    return { ...answer, included: names.map(([id, name]) => ({ type: 'domains', id, attributes: { name } })) }
  }

  /** Makes a request to the API with the rights of the user. */
  async ask(
    method: string,
    path: string,
    document?: AskedDocument | ReadableStream<Uint8Array>,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const answer = await askInside(this.#inside, this.#caller, { method, path, document, headers })
    // An error, because the page would otherwise show an empty list.
    if (method === 'GET' && answer.status === 405) throw new Error(`The API has no GET ${path}`)
    const errors = answer.errors.map((error) =>
      error.code === 'insufficient_scope' ? { ...error, detail: this.denied } : error,
    )
    return { ...answer, errors }
  }

  /** The response of a download. */
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

  #rows(path: string, most: number): Promise<Thing[]> {
    return rowsOf((page) => this.#read(page), path, most)
  }
}

const INCLUDE_DOMAIN = 'include=domain'

function isLanguage(tag: string): boolean {
  try {
    return Intl.DateTimeFormat.supportedLocalesOf(tag).length > 0
  } catch {
    return false
  }
}

/**
 * A thing as one of this resource. Throws if it is of another resource, because the page then requested the wrong path.
 */
export function thingOf<R extends Resource>(resource: R, thing: Thing): Thing<R> {
  if (thing.type !== resource.type) throw new Error(`${resource.type} are expected here, not ${thing.type}`)
  return thing as Thing<R>
}

/** Returns the included things of this resource. */
export const those = <R extends Resource>(resource: R, included: readonly Thing[]): Thing<R>[] =>
  included.filter(({ type }) => type === resource.type).map((thing) => thingOf(resource, thing))

/** The names of things by their ids, for all resources, or '' for one without a name. */
export const namesOf = (things: readonly Thing[]): Map<string, string> =>
  new Map(things.map(({ attributes: { name }, id }) => [id, typeof name === 'string' ? name : '']))

/** Returns the id of the related resource, or undefined. */
export const relatedId = <L extends LinkageOf<Resource>>(
  { relationships }: { relationships?: L },
  name: keyof L,
): string | undefined => relationships?.[name]?.data?.id

/** An object with attributes, as the functions below read it. A name of another kind of value does not compile. */
interface Has<Attributes> {
  attributes: Attributes
}
type Values<List> = NonNullable<List> extends readonly (infer Value)[] ? Value : never

/** Returns an attribute as text, or '' if it is missing. */
export const text = <A>({ attributes }: Has<A>, name: NamesOf<A, string | number>): string => {
  const value: unknown = attributes[name]
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : ''
}
export const number = <A>({ attributes }: Has<A>, name: NamesOf<A, number>): number => Number(attributes[name] ?? 0)
export const flag = <A>({ attributes }: Has<A>, name: NamesOf<A, boolean>): boolean => attributes[name] === true

/** Returns an attribute that is a list of objects. It is empty if the stored value is corrupt. */
export const objects = <A, Name extends NamesOf<A, readonly object[]>>(
  { attributes }: Has<A>,
  name: Name,
): Values<A[Name]>[] => {
  const list: unknown = attributes[name]
  return Array.isArray(list) ? list : []
}

/** Returns an attribute that is a list of texts, without corrupt entries. */
export const texts = <A>({ attributes }: Has<A>, name: NamesOf<A, readonly string[]>): string[] => {
  const list: unknown = attributes[name]
  return Array.isArray(list) ? list.filter((each) => typeof each === 'string') : []
}

/** Returns an attribute that is an object. It is empty if it is missing. */
export const record = <A, Name extends NamesOf<A, Readonly<Record<string, unknown>>>>(
  { attributes }: Has<A>,
  name: Name,
): Record<string, NonNullable<A[Name]>[keyof NonNullable<A[Name]>]> => {
  const value: unknown = attributes[name]
  return isObject(value) ? (value as never) : {}
}
