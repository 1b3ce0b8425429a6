// A resource is described once. Its routes, scope checks, strict validators with JSON pointers, allow-lists for sort,
// filter, include and fields, its serialisation and its part of the OpenAPI document follow from the description.
//
//   export const webhooks = define('webhooks', {
//     table: 'webhooks',
//     attributes: { name: field(z.string().min(1), { create: 'required', update: true, sort: true, about: '…' }), … },
//     relationships: { domain: { type: 'domains', column: 'domain_key' } },
//     actions: [create({ path: '/webhooks', scope: 'webhooks:write', run: … }), …],
//   })
import type { z } from 'zod'
import type { Code } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Reader } from '../store/database.ts'
import type { ListedRow } from '../store/list.ts'
import type { RowOf, TableName } from '../schema/tables.ts'

/** The conversion of a column's value to JSON. */
export type FieldKind = 'plain' | 'time' | 'json' | 'flag'

export interface FieldOptions {
  /** Whether a create request must or may have it; absent: must not. */
  create?: 'required' | 'optional'
  /** An update request may have it. */
  update?: true
  /**
   * Where answers show it: always (default), only in a document about one resource, only in the answer to the write
   * that created it, or never.
   */
  read?: 'always' | 'single' | 'once' | 'never'
  kind?: FieldKind
  sort?: true
  about: string
  /** The schema in answers, when it differs from the schema in requests. */
  answer?: z.ZodType
  /** A value for the documentation; by default it is derived from the schema. */
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
  /** The column with the related row's key; null: no relation. */
  column: string
  /** A create request must have it; absent: must not. */
  create?: true
  /** The column may be null. */
  optional?: true
}

export interface Filter {
  column: string
  /** Filter values that mean several column values. */
  means?: Readonly<Record<string, readonly string[]>>
  /** The filter takes public ids of this type, which become keys. */
  type?: string
  /** A condition for rows with these keys that costs less than one on the column; undefined: there is none. */
  cheaper?: (keys: readonly number[], reader: Reader) => Sql | undefined
  /** All forms in which the column may store a value. */
  forms?: (value: string, keyring: Keyring) => readonly string[]
  /** The column is a flag: the filter's values are true and false. */
  flag?: true
  /**
   * The condition in SQL, when no column has the value. The value is not split at commas. Throws 400 for an invalid
   * value.
   */
  sql?: (value: string, reader: Reader, userKey: number) => Sql | Promise<Sql>
  /** The description in the OpenAPI document, in place of "Only those with this …". */
  about?: string
}

/** A condition with its parameters. */
export interface Sql {
  selective?: true
  sql: string
  parameters: readonly (string | number)[]
}

/** A token that makes another one. */
export interface Maker {
  key: number
  agentId: string | null
  daily: number | null
  expiresAt: number
}

/** The authenticated caller. */
export interface Caller {
  userKey: number
  userId: string
  tokenId: string
  scopes: ReadonlySet<string>
  /** May see and control the whole server. */
  operator: boolean
  /** Who is signed in to the console, whatever account they look at; a program with a token is nobody. */
  person?: { key: number; email: string }
  /**
   * The operator's settings for the token: the agent that it sends as, and the token's key when its recipients per day
   * are limited.
   */
  agentId?: string | undefined
  cappedToken?: number | undefined
  /** The agent of an OAuth client; the client may name another one, but sends nothing while its own is paused. */
  program?: string | undefined
  /** The token that asks; what it makes inherits its agent, its limit and its end (D117). */
  maker?: Maker | undefined
}

/** A request that has passed all checks of the protocol; `Row`: the columns of the resource's table. */
export interface Call<Parts, Attributes = Record<string, never>, Row = unknown> {
  parts: Parts
  caller: Caller
  now: number
  /** The row that the path names; undefined without one. */
  row: ListedRow & Row
  /** The parent that the path names; undefined without one. `parentOf` gives it with the type of its table. */
  parent: ListedRow
  /** The type of the parent. */
  within: string | undefined
  /** The path's parameters by name. */
  params: Record<string, string>
  /** Ids of to-one relationships in a create request. */
  related: Record<string, string>
  attributes: Attributes
}

/** The result of a writing action: the row after it, values that are shown only once, additional response headers. */
export interface Written {
  row: ListedRow
  once?: Record<string, unknown>
  headers?: Record<string, string>
}

/** `inbox` is the only filter that is also a separate parameter (specification "Inbound emails"). */
export type Param = 'filter' | 'sort' | 'include' | 'fields' | 'page' | 'inbox'

interface ActionBase {
  /** A path in Hono's syntax, relative to the API's base: `/domains/:domain/records`. */
  path: string
  scope: string
  about: string
  /** Its name in generated clients; derived from kind and type when absent. */
  id?: string
  /** Error codes in addition to those of its kind. */
  refuses?: readonly Code[]
  /**
   * For operators only; other callers get 404, as if the path did not exist. `person`: an operator who is signed in;
   * no token reaches it (D116).
   */
  operator?: true | 'person'
}

/** Children of another resource: the path's first parameter names the parent. */
export interface Within {
  type: string
  /** The child's column that holds the parent's key. */
  column: string
  /** The parent may be a deleted row. */
  removed?: true
}

export type Action<Parts, F extends Fields, Row = unknown> =
  | (ActionBase & { kind: 'list'; params: readonly Param[]; within?: Within })
  | (ActionBase & { kind: 'show'; params?: readonly Param[] })
  | (ActionBase & {
      kind: 'create'
      /** The path's first parameter names the parent. */
      within?: Within
      /** The type of the request document, when it differs from the answer's type. */
      accepts?: string
      /** The most octets of its body. */
      bodyLimit?: number
      /** The status instead of 201. */
      status?: 200
      /**
       * Finds the resources that the request refers to, before the attributes are checked: 404 comes before 422 (D3).
       */
      before?: (call: Omit<Call<Parts>, 'attributes' | 'row'> & { attributes: Record<string, unknown> }) => void
      run: (call: Call<Parts, CreateOf<F>>) => Promise<Written>
    })
  | (ActionBase & {
      kind: 'update'
      bodyLimit?: number
      run: (call: Call<Parts, UpdateOf<F>, Row>) => Promise<Written>
    })
  | (ActionBase & { kind: 'delete'; run: (call: Call<Parts, Record<string, never>, Row>) => Promise<void> })
  /** A request without a body that acts on one row and gets 202 with the result. `free`: the path names no row. */
  | (ActionBase & {
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
  | (ActionBase & {
      kind: 'view'
      id: string
      params?: readonly Param[]
      within?: Within
      one?: true
      run: (call: Call<Parts> & { filters: ReadonlyMap<string, string[]> }) => Promise<ListedRow[]> | ListedRow[]
    })
  /** A GET whose answer is bytes, not a document. */
  | (ActionBase & {
      kind: 'download'
      id: string
      run: (call: Call<Parts, Record<string, never>, Row>) => Promise<Response>
    })

/** An action of any resource. */
export type ActionOf<Parts> = Action<Parts, Fields>

export interface Definition<Parts, F extends Fields, Row = unknown> {
  table: TableName
  /** An SQL condition that is true for every visible row, e.g. `deleted_at is null`. */
  only?: string
  /** Finds the row that a path names, where rows have no owner; by default it is a row of the caller's account. */
  find?: (id: string, parts: Parts) => ListedRow | undefined
  /** The singular name in generated clients, when the type's name is a reserved word in most languages. */
  called?: string
  about: string
  attributes: F
  relationships?: Record<string, Relationship>
  filters?: Record<string, Filter>
  /** Adds data of other tables to rows before serialisation; one query for the whole page. */
  extend?: (rows: ListedRow[], with_: { reader: Reader; parts: Parts; single: boolean }) => void
  actions: readonly Action<Parts, F, Row>[]
}

/** A described resource. It keeps the types of what it describes for those who read its answers and its rows. */
export interface Resource<
  Parts = never,
  F extends Fields = Fields,
  L extends Links = Links,
  T extends TableName = TableName,
> extends Definition<Parts, Fields> {
  type: string
  table: T
  attributes: F
  relationships?: L
  /** The path of one resource, for `links.self`; undefined when it has none. */
  self: string | undefined
  /** The scope that is needed to read it. */
  reads: string | undefined
}

/** Makes a `define` function for actions that work with these parts. */
export function definer<Parts>() {
  return <F extends Fields, T extends TableName, L extends Links = Record<never, Relationship>>(
    type: string,
    definition: Definition<Parts, F, RowOf<T>> & { table: T; relationships?: L },
  ): Resource<Parts, F, L, T> => {
    const own = definition.actions.find(({ kind }) => kind === 'show' || kind === 'update' || kind === 'delete')
    const reads = definition.actions.find(({ kind }) => kind === 'show' || kind === 'list')?.scope
    return { ...(definition as unknown as Resource<Parts, F, L, T>), type, self: own?.path, reads }
  }
}

/** The parent of a call as a row of its resource. Throws when the action is within another resource. */
export function parentOf<T extends TableName>(
  { type }: { type: string; table: T },
  { parent, within }: Pick<Call<never>, 'parent' | 'within'>,
): ListedRow & RowOf<T> {
  if (within !== type) throw new Error(`The action is within ${within}, not ${type}.`)
  return parent as ListedRow & RowOf<T>
}

/** The groups of query parameters that an action accepts. */
export function paramsOf(action: Action<never, Fields>): readonly Param[] {
  switch (action.kind) {
    case 'list':
      return action.params
    case 'view':
      return action.params ?? (action.one ? ['filter'] : ['filter', 'page'])
    case 'show':
      return action.params ?? ['include', 'fields']
    case 'create':
    case 'update':
      return ['include', 'fields']
    case 'delete':
    case 'act':
    case 'download':
      return []
  }
}

/** The columns by which a collection can be sorted; created_at is always one of them. */
export function sortable(resource: Resource<never>): string[] {
  return Object.entries(resource.attributes)
    .filter(([, { sort }]) => sort)
    .map(([name]) => name)
}
