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
import type { TableName } from '../schema/tables.ts'

/** The conversion of a column's value to JSON. */
export type Kind = 'plain' | 'time' | 'json' | 'flag'

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
  kind?: Kind
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
  /** Somebody who is signed in to the console, not a program with a token. */
  person?: true
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

/** A request that has passed all checks of the protocol. */
export interface Call<Parts, Attributes = Record<string, never>> {
  parts: Parts
  caller: Caller
  now: number
  /** The row that the path names; undefined without one. */
  row: ListedRow
  /** The parent of a new resource; undefined without one in the path. */
  parent: ListedRow
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

interface Common {
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

export type Action<Parts, F extends Fields> =
  | (Common & { kind: 'list'; params: readonly Param[]; within?: Within })
  | (Common & { kind: 'show'; params?: readonly Param[] })
  | (Common & {
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
  | (Common & { kind: 'update'; bodyLimit?: number; run: (call: Call<Parts, UpdateOf<F>>) => Promise<Written> })
  | (Common & { kind: 'delete'; run: (call: Call<Parts>) => Promise<void> })
  /** A request without a body that acts on one row and gets 202 with the result. `free`: the path names no row. */
  | (Common & {
      kind: 'act'
      id: string
      method?: 'DELETE' | 'GET'
      free?: true
      run: (call: Call<Parts>) => Promise<Written>
    })
  /**
   * A GET of rows that are computed at each request, not stored: a collection, or with `one` a single resource. Each
   * row has an id.
   */
  | (Common & {
      kind: 'view'
      id: string
      params?: readonly Param[]
      within?: Within
      one?: true
      run: (call: Call<Parts> & { filters: ReadonlyMap<string, string[]> }) => Promise<ListedRow[]> | ListedRow[]
    })
  /** A GET whose answer is bytes, not a document. */
  | (Common & { kind: 'download'; id: string; run: (call: Call<Parts>) => Promise<Response> })

export interface Definition<Parts, F extends Fields> {
  table: TableName
  /** An SQL condition that is true for every visible row, e.g. `deleted_at is null`. */
  only?: string
  /** The singular name in generated clients, when the type's name is a reserved word in most languages. */
  called?: string
  about: string
  attributes: F
  relationships?: Record<string, Relationship>
  filters?: Record<string, Filter>
  /** Adds data of other tables to rows before serialisation; one query for the whole page. */
  extend?: (rows: ListedRow[], with_: { reader: Reader; parts: Parts; single: boolean }) => void
  actions: readonly Action<Parts, F>[]
}

/** A described resource. It keeps the types of its attributes and relationships for those who read its answers. */
export interface Resource<Parts = never, F extends Fields = Fields, L extends Links = Links> extends Definition<
  Parts,
  Fields
> {
  type: string
  attributes: F
  relationships?: L
  /** The path of one resource, for `links.self`; undefined when it has none. */
  self: string | undefined
  /** The scope that is needed to read it. */
  reads: string | undefined
}

/** Makes a `define` function for actions that work with these parts. */
export function definer<Parts>() {
  return <F extends Fields, L extends Links = Record<never, Relationship>>(
    type: string,
    definition: Definition<Parts, F> & { relationships?: L },
  ): Resource<Parts, F, L> => {
    const own = definition.actions.find(({ kind }) => kind === 'show' || kind === 'update' || kind === 'delete')
    const reads = definition.actions.find(({ kind }) => kind === 'show' || kind === 'list')?.scope
    return { ...(definition as unknown as Resource<Parts, F, L>), type, self: own?.path, reads }
  }
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

/** The attributes shown only in a document about one resource: lists do not read their columns. */
export const unlisted = ({ attributes }: Resource<never>): string[] =>
  Object.entries(attributes).flatMap(([name, { read }]) => (read === 'single' ? [name] : []))

/** Whether a sparse fieldset names an attribute that lists do not read (D69). */
export const namesUnlisted = (resource: Resource<never>, fields: ReadonlyMap<string, ReadonlySet<string>>): boolean => {
  const wanted = fields.get(resource.type)
  return wanted !== undefined && unlisted(resource).some((name) => wanted.has(name))
}

/** The columns by which a collection can be sorted; created_at is always one of them. */
export function sortable(resource: Resource<never>): string[] {
  return Object.entries(resource.attributes)
    .filter(([, { sort }]) => sort)
    .map(([name]) => name)
}
