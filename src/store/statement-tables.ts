// The tables that a statement may change, read from its text and from the schema: the tables that it names as targets,
// the tables that their triggers change, and the tables with a foreign key to them, whose rows are deleted or changed
// with them.
import type Database from 'better-sqlite3'
import { keepNewest } from '../base/maps.ts'

export interface Effects {
  /** Tables that the statement names in any role. A column with the name of a table counts too. */
  names: readonly string[]
  /** Tables whose rows may be inserted, changed or deleted. */
  changes: readonly string[]
  /** The tables among `changes` whose rows may be deleted. */
  removes: readonly string[]
}

/** A statement's or a trigger's targets: of `insert into`, `replace into`, `update` and `delete from`. */
const TARGET =
  /\b(?:((?:insert|update)\s+or\s+replace(?:\s+into)?|replace\s+into|delete\s+from)|insert\s+(?:or\s+\w+\s+)?into|update(?:\s+or\s+\w+)?)\s+"?(\w+)"?/gi

/** The most statements whose effects are kept, as in statements.ts. */
const MOST_KNOWN = 2000

interface Schema {
  tables: ReadonlySet<string>
  triggers: ReadonlyMap<string, readonly string[]>
  /** The tables with a foreign key to a table: their rows are deleted (true) or changed with the row that they name. */
  children: ReadonlyMap<string, readonly { table: string; deleted: boolean }[]>
}

export class StatementEffects {
  readonly #db: Database.Database
  readonly #known = new Map<string, Effects>()
  #schema: Schema | undefined

  constructor(database: Database.Database) {
    this.#db = database
  }

  /** The effects of a statement. Each text is read once. */
  of(sql: string): Effects {
    let effects = this.#known.get(sql)
    if (!effects) {
      this.#known.set(sql, (effects = this.#read(sql)))
      keepNewest(this.#known, MOST_KNOWN)
    }
    return effects
  }

  #read(sql: string): Effects {
    const changes = new Set<string>()
    const removes = new Set<string>()
    this.#follow(sql, changes, removes)
    const { tables } = this.#schemaNow()
    const names = [...new Set(sql.match(/\w+/g))].filter((word) => tables.has(word))
    return { names, changes: [...changes], removes: [...removes] }
  }

  #follow(text: string, changes: Set<string>, removes: Set<string>): void {
    const { tables } = this.#schemaNow()
    for (const [, deletes, table = ''] of text.matchAll(TARGET))
      if (tables.has(table)) this.#add(table, deletes !== undefined, changes, removes)
  }

  #add(table: string, deleted: boolean, changes: Set<string>, removes: Set<string>): void {
    const { children, triggers } = this.#schemaNow()
    if (!changes.has(table)) {
      changes.add(table)
      for (const text of triggers.get(table) ?? []) this.#follow(text, changes, removes)
    }
    if (!deleted || removes.has(table)) return
    removes.add(table)
    for (const child of children.get(table) ?? []) this.#add(child.table, child.deleted, changes, removes)
  }

  #schemaNow(): Schema {
    return (this.#schema ??= schemaOf(this.#db))
  }
}

function schemaOf(database: Database.Database): Schema {
  const entries = database.prepare(`select type, name, tbl_name, sql from sqlite_schema`).all() as {
    type: string
    name: string
    tbl_name: string
    sql: string | null
  }[]
  const triggers = Map.groupBy(
    entries.filter(({ type }) => type === 'trigger'),
    ({ tbl_name }) => tbl_name,
  )
  const tables = entries.filter(({ type }) => type === 'table').map(({ name }) => name)
  const keys = tables.flatMap((table) =>
    (database.pragma(`foreign_key_list("${table}")`) as { table: string; on_delete: string }[]).map((key) => ({
      parent: key.table,
      table,
      deleted: key.on_delete === 'CASCADE',
      follows: /^(?:CASCADE|SET (?:NULL|DEFAULT))$/.test(key.on_delete),
    })),
  )
  return {
    tables: new Set(tables),
    // The statements of a trigger follow "begin". The text before it names the event that fires the trigger.
    triggers: new Map(
      [...triggers].map(([table, rows]) => [table, rows.map(({ sql }) => (sql ?? '').replace(/^.*?\bbegin\b/is, ''))]),
    ),
    children: Map.groupBy(
      keys.filter(({ follows }) => follows),
      ({ parent }) => parent,
    ),
  }
}
