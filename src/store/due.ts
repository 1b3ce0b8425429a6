// Queues that are worked off by groups (a recipient domain, an endpoint): which groups hold waiting rows, and since when.
import type { Reader } from './database.ts'
import { raw } from './query.ts'

/** A queue: rows of `status` in `table`, grouped by `group`; an index on (group, next_attempt_at) where status = … is needed. */
export interface Queue {
  table: 'deliveries' | 'outbound_webhooks'
  group: string
  status: string
}

/**
 * Every group that holds waiting rows, with the time of its earliest. The index is walked by leaps, one for each group, so that a
 * backlog costs by its groups, not by its rows.
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

/** When the earliest row of a group is due; null when it holds none. */
export function groupDue(reader: Reader, { table, group, status }: Queue, name: string | number): number | null {
  const query = raw<{ due: number | null }>(
    `select min(next_attempt_at) as due from ${table} where status = '${status}' and ${group} = ?`,
    [name],
  )
  return reader.first(query)?.due ?? null
}
