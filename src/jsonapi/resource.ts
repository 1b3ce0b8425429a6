// A resource is described once. Its routes, scope checks, strict validators with JSON pointers, allow-lists for sort,
// filter, include and fields, its serialisation and its part of the OpenAPI document follow from the description.
//
//   export const webhooks = define('webhooks', {
//     table: 'webhooks',
//     path: '/webhooks/:webhook',
//     scope: 'webhooks',
//     attributes: { name: field(z.string().min(1), { create: 'required', update: true, sort: true, about: '…' }), … },
//     relationships: { domain: { type: 'domains', column: 'domain_key' } },
//     actions: [{ kind: 'list', about: '…' }, { kind: 'create', about: '…', run: … }, …],
//   })
import type { z } from 'zod'
import type { Code } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Reader } from '../store/database.ts'
import type { ListedRow, SqlCondition } from '../store/list.ts'
import type { RowOf, TableName } from '../store/schema/tables.ts'

/** The conversion of a column's value to JSON. */
export type FieldKind = 'plain' | 'time' | 'json' | 'flag'

export interface FieldOptions {
  /** Whether a create request must or may have it. If absent, it must not. */
  create?: 'required' | 'optional'
  /** An update request may have it. */
  update?: true
  /**
   * Where answers show it: always (default), only in a document about one resource, only in the answer to the write
   * that created it, or never.
   */
  read?: 'always' | 'single' | 'once' | 'never'
  kind?: FieldKind
  /** `key`: in the order in which the rows were committed. */
  sort?: true | 'key'
  about: string
  /** The schema in answers, if it differs from the schema in requests. */
  answer?: z.ZodType
  /** A value for the documentation. By default it is derived from the schema. */
  example?: unknown
}

export interface Field extends FieldOptions {
  schema: z.ZodType
}

/** An attribute: its schema in requests and its options. */
export function field<S extends z.ZodType, const O extends FieldOptions>(schema: S, options: O): { schema: S } & O {
  return { schema, ...options }
}

type Fields = Record<string, Field>
type Links = Record<string, Relationship>
type Outputs<F extends Fields, K extends keyof F> = { [P in K]: z.output<F[P]['schema']> }
type KeysWith<F extends Fields, Slot> = { [K in keyof F]: F[K] extends Slot ? K : never }[keyof F]

/** The attributes of a validated create request. */
export type CreateOf<F extends Fields> = Outputs<F, KeysWith<F, { create: 'required' }>> &
  Partial<Outputs<F, KeysWith<F, { create: 'optional' }>>>
/** The attributes of a validated update request. */
export type UpdateOf<F extends Fields> = Partial<Outputs<F, KeysWith<F, { update: true }>>>

export interface Relationship {
  type: string
  /** The column with the related row's key, which is null without a relation. */
  column: string
  /** A create request must have it, or may have it if it is optional. If absent, it must not. */
  create?: true
  /** An update request can change it. */
  update?: true
  /** The column may be null. */
  optional?: true
}

/** The list that a filter is part of: the account, the parent that its path names, and the time. */
export interface Filtered {
  keyring: Keyring
  userKey: number
  parent: number | undefined
  now: number
}

export interface Filter {
  column: string
  /** Filter values that mean several column values. */
  means?: Readonly<Record<string, readonly string[]>>
  /** The filter takes public ids of this type, which become keys. */
  type?: string
  /** A condition for rows with these keys that costs less than one on the column, or undefined. */
  cheaper?: (keys: readonly number[], reader: Reader) => SqlCondition | undefined
  /** All forms in which the column may store a value. */
  forms?: (value: string, keyring: Keyring) => readonly string[]
  /** The column is a flag: the filter's values are true and false. */
  flag?: true
  /**
   * The condition in SQL, if no column has the value. Several conditions must all be met. Throws 400 for an invalid
   * value.
   */
  sql?: (value: string, reader: Reader, filtered: Filtered) => SqlCondition | Promise<SqlCondition[]>
  /** The value is not split at commas. The number is its maximum length in characters. */
  whole?: number
  /** The description in the OpenAPI document, in place of the default one. */
  about?: string
  extension?: true
}

/** A token that creates another one. */
export interface Maker {
  key: number
  agentId: string | null
  daily: number | null
}

/** The authenticated caller. */
export interface Caller {
  userKey: number
  userId: string
  tokenId: string
  /** Where the request comes from, for the audit log. */
  via: 'console' | 'api' | 'mcp' | 'command'
  /** The client's IP address. */
  address?: () => string
  scopes: ReadonlySet<string>
  /** Of email and suppressions, they can use only those of campaigns (roles.ts). */
  marketing?: true
  /** They can view and control the whole server. */
  operator: boolean
  /**
   * The user who is signed in to the console, even while they view another account. Undefined for an application's
   * token.
   */
  person?: { key: number; email: string }
  /**
   * The operator's settings for the token: the agent with which it sends, and the token's key if its recipients per day
   * are limited.
   */
  agentId?: string | undefined
  cappedToken?: number | undefined
  /** The agent of an OAuth client. The client may name another one, but cannot send while its own is paused. */
  program?: string | undefined
  /**
   * The request comes from a compatibility API, whose clients may set any Reply-To, as over SMTP. No client of the API
   * can set it.
   */
  compat?: true
  /** Called in the transaction that accepts email. Throws a Refusal (503) once the request was answered. */
  begin?: (() => void) | undefined
  /** The calling token. A token that it creates inherits its agent, its limit and its expiry (D117). */
  maker?: Maker | undefined
}

/** A request that has passed all checks of the protocol. `Row`: the columns of the resource's table. */
export interface Call<Parts, Attributes = Record<string, never>, Row = unknown> {
  parts: Parts
  caller: Caller
  now: number
  /** The row that the path names, or undefined. */
  row: ListedRow & Row
  /** The parent that the path names, or undefined. `parentOf` returns it with the type of its table. */
  parent: ListedRow
  /** The type of the parent. */
  within: string | undefined
  /** The path's parameters by name. */
  params: Record<string, string>
  /** Ids of to-one relationships in a request. Null removes the relation. */
  related: Record<string, string | null>
  attributes: Attributes
}

/** The result of a writing action: the row after it, values that are shown only once, additional response headers. */
export interface Written {
  row: ListedRow
  once?: Record<string, unknown>
  headers?: Record<string, string>
}

/**
 * `inbox` is the only filter that is also a separate parameter (specification "Inbound emails"). `force=true` deletes a
 * resource even if it is in use.
 */
export type Param = 'filter' | 'sort' | 'include' | 'fields' | 'page' | 'inbox' | 'force'

interface ActionBase {
  /** A path in Hono's syntax, relative to the API's base: `/domains/:domain/records`. */
  path: string
  scope: string
  about: string
  extension?: true
  /** The name in generated clients. By default it is derived from kind and type. */
  id?: string
  /** Error codes in addition to those of its kind. */
  refuses?: readonly Code[]
  /** For operators only. Other callers get 404, as if the path did not exist. */
  operator?: true
  /** For users who are signed in to the console, and not for tokens (D116). */
  person?: true
  /**
   * Which callers have an entry in the audit log after this change: all by default. With `merge`, equal changes within
   * ten minutes are one entry.
   */
  audit?: 'never' | 'people' | 'merge'
}

/**
 * An action as it is described. Its path follows from the path of the resource, which it may continue (`test`), and its
 * scope from that of the resource.
 */
interface DescribedBase extends Omit<ActionBase, 'path' | 'scope'> {
  path?: string
  scope?: string
}

/** Children of another resource: the path's first parameter names the parent. */
export interface Within {
  type: string
  /** The child's column that holds the parent's key. */
  column: string
  /** The parent may be a deleted row. */
  removed?: true
}

export type Action<Parts, F extends Fields, Row = unknown, Base = ActionBase> =
  | (Base & { kind: 'list'; params?: readonly Param[]; within?: Within })
  | (Base & { kind: 'show'; params?: readonly Param[] })
  | (Base & {
      kind: 'create'
      /** The path's first parameter names the parent. */
      within?: Within
      /** The type of the request document, if it differs from the answer's type. */
      accepts?: string
      /** The type of the resource that the answer shows, if it is another one. */
      answers?: string
      /** The maximum size of its body in bytes. */
      bodyLimit?: number
      /** The status instead of 201. */
      status?: 200 | 202
      /**
       * Finds the resources that the request refers to, before the attributes are checked: 404 comes before 422 (D3).
       */
      before?: (call: Omit<Call<Parts>, 'attributes' | 'row'> & { attributes: Record<string, unknown> }) => void
      run: (call: Call<Parts, CreateOf<F>>) => Promise<Written>
    })
  | (Base & {
      kind: 'update'
      bodyLimit?: number
      run: (call: Call<Parts, UpdateOf<F>, Row>) => Promise<Written>
    })
  | (Base & {
      kind: 'delete'
      params?: readonly ['force']
      run: (call: Call<Parts, Record<string, never>, Row> & { force: boolean }) => Promise<void>
    })
  /** A request without a body that acts on one row and gets 202 with the result. `free`: the path names no row. */
  | (Base & {
      kind: 'act'
      id: string
      method?: 'DELETE' | 'GET'
      free?: true
      run: (call: Call<Parts, Record<string, never>, Row>) => Promise<Written>
    })
  /**
   * A GET of rows that are computed at each request, not stored: a collection, or with `one` a single resource. Each
   * row has an id.
   */
  | (Base & {
      kind: 'view'
      id: string
      params?: readonly Param[]
      within?: Within
      one?: true
      run: (call: Call<Parts> & { filters: ReadonlyMap<string, string[]> }) => Promise<ListedRow[]> | ListedRow[]
    })
  /** A GET whose answer is bytes, not a document. */
  | (Base & {
      kind: 'download'
      id: string
      run: (call: Call<Parts, Record<string, never>, Row>) => Promise<Response>
    })

/** An action of any resource. */
export type ActionOf<Parts> = Action<Parts, Fields>

interface Definition<Parts, F extends Fields, Does> {
  table: TableName
  /** An SQL condition that is true for every visible row, e.g. `deleted_at is null`. */
  only?: string
  /** An SQL condition that is true for every row about marketing email, for callers who can use only those. */
  marketing?: string
  /**
   * Finds the row that a path names, for rows without an owner. By default it is a row of the caller's account. If the
   * path has no id, the account has one such resource, with the id of the account.
   */
  find?: (id: string, parts: Parts, caller: Caller) => ListedRow | undefined
  /** The singular name in generated clients, if the type's name is a reserved word in most languages. */
  called?: string
  about: string
  /**
   * True if the interface specification does not have it (D76, D81): the OpenAPI document marks it
   * `x-postrider-extension`. On a resource, it applies to all actions and filters.
   */
  extension?: true
  attributes: F
  relationships?: Record<string, Relationship>
  filters?: Record<string, Filter>
  /** Adds data of other tables to rows before serialisation, with one query for the whole page. */
  extend?: (rows: ListedRow[], with_: { reader: Reader; parts: Parts; single: boolean }) => void
  actions: readonly Does[]
}

/** A resource as it is described. */
interface Description<Parts, F extends Fields, Row> extends Definition<Parts, F, Action<Parts, F, Row, DescribedBase>> {
  /** The path of one resource: `/webhooks/:webhook`. The path of the collection is that without the last part. */
  path?: string
  /** The prefix of `:read` and `:write` in the scopes of the actions. */
  scope?: string
}

/** A described resource. It keeps the types of its attributes and columns for code that reads its answers and rows. */
export interface Resource<
  Parts = never,
  F extends Fields = Fields,
  L extends Links = Links,
  T extends TableName = TableName,
> extends Definition<Parts, Fields, Action<Parts, Fields>> {
  type: string
  table: T
  attributes: F
  relationships?: L
  /** The path of one resource, for `links.self`, or undefined. */
  self: string | undefined
  /** The scope that is needed to read it. */
  reads: string | undefined
}

/** Makes a `define` function for actions that work with these parts. */
export function definer<Parts>() {
  return <F extends Fields, T extends TableName, L extends Links = Record<never, Relationship>>(
    type: string,
    description: Description<Parts, F, RowOf<T>> & { table: T; relationships?: L },
  ): Resource<Parts, F, L, T> => {
    const {
      actions: described,
      path,
      scope,
      ...definition
    } = description as unknown as Description<Parts, Fields, unknown>
    const params = [...(definition.filters ? ['filter'] : []), 'sort', 'include', 'fields', 'page']
    const actions = described.map((action) => ({
      ...(action.kind === 'list' && { params }),
      ...action,
      path: pathOf(action, path),
      scope: action.scope ?? `${scope}:${READS.has(action.kind) ? 'read' : 'write'}`,
    })) as Action<Parts, Fields>[]
    const own = actions.find(({ kind }) => kind === 'show' || kind === 'update' || kind === 'delete')
    const reads = actions.find(({ kind }) => kind === 'show' || kind === 'list')?.scope
    return { ...definition, actions, type, self: own?.path, reads } as unknown as Resource<Parts, F, L, T>
  }
}

const READS: ReadonlySet<string> = new Set(['list', 'show', 'view', 'download'])

/** The whole path of an action. */
function pathOf({ kind, path }: { kind: string; path?: string }, own = ''): string {
  if (path?.startsWith('/')) return path
  if (path !== undefined) return `${own}/${path}`
  return kind === 'list' || kind === 'create' || kind === 'view' ? own.slice(0, own.lastIndexOf('/')) : own
}

/** The parent of a call as a row of its resource. Throws if the action is within another resource. */
export function parentOf<T extends TableName>(
  { type }: { type: string; table: T },
  { parent, within }: Pick<Call<never>, 'parent' | 'within'>,
): ListedRow & RowOf<T> {
  if (within !== type) throw new Error(`The action is within ${within}, not ${type}.`)
  return parent as ListedRow & RowOf<T>
}

/** The type of the resource that the answer to an action shows. */
export const answerType = (action: Action<never, Fields>, { type }: Pick<Resource, 'type'>): string =>
  (action.kind === 'create' ? action.answers : undefined) ?? type

/** The groups of query parameters that an action accepts. */
export function paramsOf(action: Action<never, Fields>): readonly Param[] {
  switch (action.kind) {
    case 'list':
      return action.params ?? []
    case 'view':
      return action.params ?? (action.one ? ['filter'] : ['filter', 'page'])
    case 'show':
      return action.params ?? ['include', 'fields']
    case 'create':
    case 'update':
      return ['include', 'fields']
    case 'delete':
      return action.params ?? []
    case 'act':
    case 'download':
      return []
  }
}

/** The columns by which a collection can be sorted in addition to created_at. */
export function sortable(resource: Resource<never>): string[] {
  return Object.entries(resource.attributes)
    .filter(([, { sort }]) => sort)
    .map(([name]) => name)
}
