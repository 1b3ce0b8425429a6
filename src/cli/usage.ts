// `postrider usage`: the space in the data directory by table and kind, and the space per 1,000 emails.
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { TABLES, type TableName } from '../store/schema/tables.ts'
import type { Reader } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import { raw } from '../store/query.ts'
import { DAY, systemClock } from '../base/clock.ts'
import { livesOnFor } from '../checks/backups.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'
import { isNameIn } from '../base/one-of.ts'
import { countedGrouped } from '../base/text.ts'

interface TableUsage {
  table: string
  kind: string
  rows: number
  octets: number
  /** The bytes of the indexes, included in the total. */
  index_octets: number
}

export function usageCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('usage')
    .description('show disk usage, in total and per 1,000 emails')
    .option('--all', 'include empty tables')
    .action(({ all }: { all?: true }) =>
      withDeps(invocation(), ({ config, store }) => {
        const tables = tablesOf(store)
        const mails = countOf(store, 'outbound_emails')
        const received = countOf(store, 'inbound_messages')
        const free = Number(store.one(raw<{ free: number }>(FREE)).free)
        const octets = {
          ...byKind(tables),
          free,
          log: sizeOf(join(config.data_dir, `${DATABASE}-wal`)),
          spool: sizeOf(join(config.data_dir, 'spool')),
        }
        const livesOn = livesOnFor(config.backup, systemClock.now())
        const days = livesOn === undefined ? null : Math.ceil(livesOn / DAY)
        const total = Object.values(octets).reduce((sum, each) => sum + each, 0)
        const kinds = Object.entries(octets).map(([kind, size]) => ({
          kind,
          octets: size,
          per_thousand_mails: perThousand(size, mails + received),
        }))
        answer(
          invocation().terminal,
          {
            octets: total,
            mails,
            received,
            per_thousand_mails: perThousand(total, mails + received),
            erased_in_backups_days: days,
            kinds,
            tables,
          },
          () =>
            [
              table(
                ['KIND', 'BYTES', 'PER 1,000 EMAILS'],
                kinds.map((row) => [row.kind, size(row.octets), optional(row.per_thousand_mails)]),
              ),
              table(
                ['TABLE', 'KIND', 'ROWS', 'BYTES', 'INDEX BYTES'],
                tables
                  .filter(({ rows }) => all || rows > 0)
                  .map((row) => [row.table, row.kind, number(row.rows), size(row.octets), size(row.index_octets)]),
              ),
              `${size(total)} in ${config.data_dir}: ${countedGrouped(mails, 'email')} sent, ${number(received)} received. "[retention]" sets how long they are kept.`,
              days === null
                ? 'Automatic backups are off ("backup.to" is empty). An erased address stays in backups that you made yourself until you delete them; "postrider restore" erases it again.'
                : `An erased address stays in older backups for up to ${countedGrouped(days, 'day')} ("backup.keep"); "postrider restore" erases it again.`,
            ].join('\n\n'),
        )
      }),
    )
}

const FREE = `select freelist_count * page_size as free from pragma_freelist_count, pragma_page_size`

/** The kind of data in a table, in words of the configuration. Other tables have the source folder that owns them. */
const KINDS: Partial<Record<TableName, string>> = {
  outbound_emails: 'emails',
  deliveries: 'emails',
  outbound_bodies: 'email bodies',
  outbound_batches: 'email bodies',
  digests: 'email bodies',
  events: 'events',
  event_sums: 'events',
  outbound_webhooks: 'webhook deliveries',
  webhook_attempts: 'webhook deliveries',
  contacts: 'contacts',
  suppressions: 'suppressions',
  inbound_messages: 'received email',
  inbound_emails: 'received email',
  inbound_bodies: 'received email',
  inbound_waiting: 'received email',
}

function tablesOf(reader: Reader): TableUsage[] {
  // Counts every page once: an index belongs to its table, the schema is "sqlite".
  const rows = reader.all(
    raw<{ owner: string; octets: number; index_octets: number }>(
      `select coalesce(m.tbl_name, 'sqlite') as owner, sum(s.pgsize) as octets,
         total(s.pgsize) filter (where m.type = 'index') as index_octets
       from dbstat s left join sqlite_schema m on m.name = s.name where s.aggregate = true
       group by owner order by octets desc`,
    ),
  )
  return rows.map(({ index_octets, octets, owner }) => ({
    table: owner,
    kind: (isNameIn(TABLES, owner) ? KINDS[owner] : undefined) ?? 'other',
    rows: isNameIn(TABLES, owner) ? countOf(reader, owner) : 0,
    octets,
    index_octets,
  }))
}

const countOf = (reader: Reader, name: TableName): number =>
  reader.one(raw<{ count: number }>(`select count(*) as count from ${name}`)).count

function byKind(tables: readonly TableUsage[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const { kind, octets } of tables) sums[kind] = (sums[kind] ?? 0) + octets
  return sums
}

/** The size of a file, or of all files below a directory. 0 if it does not exist. */
function sizeOf(path: string): number {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found?.isDirectory()) return found?.size ?? 0
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0)
}

/** Below a thousand emails, the empty tables take more space than the emails. */
const perThousand = (bytes: number, mails: number): number | null =>
  mails < 1000 ? null : Math.round((bytes * 1000) / mails)

const number = (value: number): string => value.toLocaleString('en')
const optional = (bytes: number | null): string => (bytes === null ? '-' : size(bytes))

function size(bytes: number): string {
  const [unit, divisor] = (
    [
      ['GB', 1e9],
      ['MB', 1e6],
      ['KB', 1e3],
    ] as const
  ).find(([, each]) => bytes >= each) ?? ['', 1]
  return unit === '' ? number(bytes) : `${(bytes / divisor).toFixed(1)} ${unit}`
}
