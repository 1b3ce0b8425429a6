// A statement in a form that SQLite compiles once.
//
// SQLite's planner reads the value of a parameter that it compares with a column, or that limits the rows. From then on
// the plan depends on the value, and SQLite compiles the statement again before every run: 5 to 50 microseconds, which
// is more than most statements take. The planner does not look into `likely(?)`, which is otherwise the same
// (https://sqlite.org/lang_corefunc.html#likely).

/** Texts and names in quotes, which stay as they are; or what stands before a parameter that the planner would read. */
const PLANNED = /'[^']*'|"[^"]*"|((?:\bin\s*\((?=\?\s*\))|\blimit|\bis(?:\s+not)?|[<>]=?|(?<![<>])=|<>|!=)\s*)\?/gi

/**
 * The statement with hidden parameters. A condition that a partial index needs must be a literal in the statement: the
 * planner does not see the value of a parameter.
 */
export const stablePlan = (sql: string): string =>
  sql.replace(PLANNED, (all, before: string | undefined) => (before === undefined ? all : `${before}likely(?)`))
