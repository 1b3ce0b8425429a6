// Queues in groups (a recipient domain, an endpoint): which groups have waiting rows, and when the first is due.
import type { Reader } from './database.ts'
import { raw } from './query.ts'

/**
 * A queue: rows of `status` in `table`, grouped by `group`. It needs an index on (group, next_attempt_at) where status
 * = ….
 */
export interface Queue {
  table: 'deliveries' | 'outbound_webhooks'
  group: string
  status: string
}

/**
 * Every group with waiting rows, and the due time (ms) of its first row. The query makes one step through the index for
 * each group, so that the cost depends on the number of groups and not on the number of rows.
 */
export function dueGroups<Group extends string | number>(
  reader: Reader,
  { table, group, status }: Queue,
): { name: Group; due: number }[] {
  const waiting = `${table} where status = '${status}'`
  return reader.all(
    raw<{ name: Group; due: number }>(
      `with recursive groups(name) as (
         select min(${group}) from ${waiting}
         union all
         select (select min(${group}) from ${waiting} and ${group} > groups.name) from groups where groups.name is not null
       )
       select name, (select min(next_attempt_at) from ${waiting} and ${group} = groups.name) as due
       from groups where name is not null`,
    ),
  )
}

/** When the first row of a group is due (ms), or null if the group is empty. */
export function groupDue(reader: Reader, { table, group, status }: Queue, name: string | number): number | null {
  const query = raw<{ due: number | null }>(
    `select min(next_attempt_at) as due from ${table} where status = '${status}' and ${group} = ?`,
    [name],
  )
  return reader.first(query)?.due ?? null
}
