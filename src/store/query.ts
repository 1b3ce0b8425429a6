// Queries are built with Kysely, which types and compiles them, and run by database.ts. A query of a hot path is built
// once with slots for its arguments, so that only values move at run time:
//
//   const settle = statement<{ key: number. At: number }>()((arg) =>
//     db.updateTable('deliveries').set({ updated_at: arg.at }).where('key', '=', arg.key))
//   tx.run(settle({ key: 1, at: 2 }))
import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely'
import type { Tables } from './schema/tables.ts'

/** A piece of SQL inside a built query, when the builder cannot express it. */
export { sql } from 'kysely'

export interface Compiled {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** Any object that compiles to SQL. `Output` is the type of its rows. */
export interface Query<Output = unknown> {
  compile(): Compiled
  readonly $rows?: Output
}

/** The typed builder. It never runs anything itself. */
export const db = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (kysely) => new SqliteIntrospector(kysely),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
})

class ParameterSlot {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

type Built = { compile(): Compiled }

/** A Kysely builder, a filled statement or raw SQL. `Output` is the type of its rows. */
export type Runnable<Output> = Query<Output> | (Built & { execute(): Promise<Output[]> })

type RowsOf<Q extends Built> = Q extends { execute(): Promise<infer Rows> }
  ? Rows extends (infer Row)[]
    ? Row
    : Rows
  : unknown

/**
 * A query that is built once and run with other arguments each time. The head of the file shows an example. `Args` are
 * the types of the arguments. A slot may be used wherever Kysely takes a value.
 */
export function statement<Args extends object>() {
  return <Q extends Built>(build: (arg: Args) => Q): ((args: Args) => Query<RowsOf<Q>>) => {
    let sql: string
    let slots: readonly unknown[] | undefined
    return (args) => ({
      compile() {
        if (!slots) {
          const proxy = new Proxy({}, { get: (_, name) => new ParameterSlot(name as string) }) as Args
          const compiled = build(proxy).compile()
          sql = compiled.sql
          slots = compiled.parameters
        }
        const parameters = slots.map((slot) => (slot instanceof ParameterSlot ? args[slot.name as keyof Args] : slot))
        return { sql, parameters }
      },
    })
  }
}

/** Hand-written SQL with its parameters. */
export function raw<Output>(sql: string, parameters: readonly unknown[] = []): Query<Output> {
  return { compile: () => ({ sql, parameters }) }
}
