// A resource is described once. From the description follow its routes, scope checks, strict validators with JSON pointers,
// allow-lists for sort, filter, include and fields, its serialisation and its part of the OpenAPI document.
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
import type { TableName } from '../store/tables.ts'

/** How a column's value becomes JSON. */
export type Kind = 'plain' | 'time' | 'json' | 'flag'

export interface FieldOptions {
  /** Whether a create request may or must give it; absent: it may not. */
  create?: 'required' | 'optional'
  /** Whether an update request may give it. */
  update?: true
  /** Shown always (default), only where the document is about one resource, only in the answer to the write that made it,
   *  or never. */
  read?: 'always' | 'single' | 'once' | 'never'
  kind?: Kind
  sort?: true
  about: string
  /** The form in which it is shown, where that is not the form in which it is given. */
  answer?: z.ZodType
  /** A value for the documentation; one is made up where a schema leaves no doubt. */
  example?: unknown
}

export interface Field extends FieldOptions {
  schema: z.ZodType
}

export function field<S extends z.ZodType, const O extends FieldOptions>(schema: S, options: O): { schema: S } & O {
  return { schema, ...options }
}

type Fields = Record<string, Field>
type Outputs<F extends Fields, K extends keyof F> = { [P in K]: z.output<F[P]['schema']> }
type KeysWith<F extends Fields, Slot> = { [K in keyof F]: F[K] extends Slot ? K : never }[keyof F]

/** What a validated create request holds. */
export type CreateOf<F extends Fields> = Outputs<F, KeysWith<F, { create: 'required' }>> &
  Partial<Outputs<F, KeysWith<F, { create: 'optional' }>>>
/** What a validated update request holds. */
export type UpdateOf<F extends Fields> = Partial<Outputs<F, KeysWith<F, { update: true }>>>

export interface Relationship {
  type: string
  /** The column that holds the related row's key; null means no relation. */
  column: string
  /** A create request must give it; absent: it may not. */
  create?: true
  /** There may be no related resource. */
  optional?: true
}

export interface Filter {
  column: string
  /** Values that stand for several in the column. */
  means?: Readonly<Record<string, readonly string[]>>
  /** The filter takes public ids of this type; they are translated to keys. */
  type?: string
  /** The forms in which the column may hold what a value means. */
  forms?: (value: string, keyring: Keyring) => readonly string[]
  /** The column is a flag: the filter takes true and false. */
  flag?: true
  /** The condition in SQL, where no column holds the value; the value is taken whole, commas too. Throws 400 for a value that is none. */
  sql?: (value: string, reader: Reader) => Sql
  /** Said in the OpenAPI document in place of "only those with this …". */
  about?: string
}

/** A condition with its parameters. */
export interface Sql {
  sql: string
  parameters: readonly (string | number)[]
}

/** Who asks, as the gate found out. */
export interface Caller {
  userKey: number
  userId: string
  tokenId: string
  scopes: ReadonlySet<string>
  /** May see and steer the whole server. */
  operator: boolean
  /** What the operator has set for the token: the agent it sends as, and its key where its recipients in a day are counted. */
  agentId?: string | undefined
  cappedToken?: number | undefined
}

/** One request that has passed the wire's rules. */
export interface Call<Parts, Attributes = Record<string, never>> {
  parts: Parts
  caller: Caller
  now: number
  /** The row that the path names; undefined where it names none. */
  row: ListedRow
  /** What a new resource comes into; undefined where the path names none. */
  parent: ListedRow
  /** What the path names, by name. */
  params: Record<string, string>
  /** Ids of to-one relationships given on create. */
  related: Record<string, string>
  attributes: Attributes
}

/** What a writing action answers: the row as it now is, once-only values, extra response headers. */
export interface Written {
  row: ListedRow
  once?: Record<string, unknown>
  headers?: Record<string, string>
}

/** `inbox` is the one filter that is also a parameter of its own (specification "Inbound emails"). */
export type Param = 'filter' | 'sort' | 'include' | 'fields' | 'page' | 'inbox'

interface Common {
  /** Hono's form, below the API's base: `/domains/:domain/records`. */
  path: string
  scope: string
  about: string
  /** Its name in generated clients; made of kind and type when absent. */
  id?: string
  /** What it may be refused for beyond what its kind always may. */
  refuses?: readonly Code[]
  /** For operators alone; to others it is as if there were nothing. */
  operator?: true
}

/** Another resource's children: the path's first parameter names the parent. */
export interface Within {
  type: string
  /** The child's column that holds the parent's key. */
  column: string
  /** Also of parents that were removed. */
  removed?: true
}

export type Action<Parts, F extends Fields> =
  | (Common & { kind: 'list'; params: readonly Param[]; within?: Within })
  | (Common & { kind: 'show'; params?: readonly Param[] })
  | (Common & {
      kind: 'create'
      /** The path's first parameter names what it comes into. */
      within?: Within
      /** The type that the request document is of, when it is not the answer's. */
      accepts?: string
      /** Octets that its body may have. */
      bodyLimit?: number
      /** Answered instead of 201. */
      status?: 200
      /** Finds what the request refers to before its attributes are judged: 404 comes before 422 (D3). */
      before?: (call: Omit<Call<Parts>, 'attributes' | 'row'> & { attributes: Record<string, unknown> }) => void
      run: (call: Call<Parts, CreateOf<F>>) => Promise<Written>
    })
  | (Common & { kind: 'update'; bodyLimit?: number; run: (call: Call<Parts, UpdateOf<F>>) => Promise<Written> })
  | (Common & { kind: 'delete'; run: (call: Call<Parts>) => Promise<void> })
  /** A request without a body that does something with one row and answers 202 with what came of it. `free`: its path names no row. */
  | (Common & {
      kind: 'act'
      id: string
      method?: 'DELETE' | 'GET'
      free?: true
      run: (call: Call<Parts>) => Promise<Written>
    })
  /** A GET of what is worked out when it is asked for: a collection, or with `one` a single resource. Each row has an id. */
  | (Common & {
      kind: 'view'
      id: string
      params?: readonly Param[]
      within?: Within
      one?: true
      run: (call: Call<Parts> & { filters: ReadonlyMap<string, string[]> }) => Promise<ListedRow[]> | ListedRow[]
    })
  /** A GET that answers bytes instead of a document. */
  | (Common & { kind: 'download'; id: string; run: (call: Call<Parts>) => Promise<Response> })

export interface Definition<Parts, F extends Fields> {
  table: TableName
  /** SQL that every visible row fulfils, e.g. `deleted_at is null`. */
  only?: string
  /** What one is called in generated clients, where the word of the type is taken in most languages. */
  called?: string
  about: string
  attributes: F
  relationships?: Record<string, Relationship>
  filters?: Record<string, Filter>
  /** Adds to rows what other tables know of them, before they are serialised; one query for the whole page. */
  extend?: (rows: ListedRow[], with_: { reader: Reader; parts: Parts; single: boolean }) => void
  actions: readonly Action<Parts, F>[]
}

export interface Resource<Parts = never> extends Definition<Parts, Fields> {
  type: string
  /** The path of one, if it has one: what `links.self` says. */
  self: string | undefined
  /** The scope that reads it. */
  reads: string | undefined
}

/** Binds `define` to the parts that an application's actions work with. */
export function definer<Parts>() {
  return <F extends Fields>(type: string, definition: Definition<Parts, F>): Resource<Parts> => {
    const own = definition.actions.find(({ kind }) => kind === 'show' || kind === 'update' || kind === 'delete')
    const reads = definition.actions.find(({ kind }) => kind === 'show' || kind === 'list')?.scope
    return { ...(definition as unknown as Definition<Parts, Fields>), type, self: own?.path, reads }
  }
}

/** The families of query parameters that an action takes. */
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

/** What is shown of one alone: a list does not read it. */
export const unlisted = ({ attributes }: Resource<never>): string[] =>
  Object.entries(attributes).flatMap(([name, { read }]) => (read === 'single' ? [name] : []))

/** Whether a sparse fieldset names what only one alone shows by default (D69). */
export const namesUnlisted = (resource: Resource<never>, fields: ReadonlyMap<string, ReadonlySet<string>>): boolean => {
  const wanted = fields.get(resource.type)
  return wanted !== undefined && unlisted(resource).some((name) => wanted.has(name))
}

/** The columns that a collection may be sorted by; created_at always. */
export function sortable(resource: Resource<never>): string[] {
  return Object.entries(resource.attributes)
    .filter(([, { sort }]) => sort)
    .map(([name]) => name)
}
