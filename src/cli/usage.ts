// `postrider usage`: the space in the data directory by table and kind, and the space for a thousand mails.
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { TABLES, type TableName } from '../schema/tables.ts'
import type { Reader } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import { raw } from '../store/query.ts'
import { DAY, systemClock } from '../base/clock.ts'
import { livesOnFor } from '../checks/backups.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'
import { isNameIn } from '../base/one-of.ts'

interface TableUsage {
  table: string
  kind: string
  rows: number
  octets: number
  /** The octets of the indexes, as a part of all. */
  index_octets: number
}

export function usageCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('usage')
    .description('where the octets of the data directory are, and what a thousand mails cost')
    .option('--all', 'tables without a row, too')
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
                ['KIND', 'OCTETS', 'PER 1,000 MAILS'],
                kinds.map((row) => [row.kind, size(row.octets), optional(row.per_thousand_mails)]),
              ),
              table(
                ['TABLE', 'KIND', 'ROWS', 'OCTETS', 'OF THEM INDEXES'],
                tables
                  .filter(({ rows }) => all || rows > 0)
                  .map((row) => [row.table, row.kind, number(row.rows), size(row.octets), size(row.index_octets)]),
              ),
              `${size(total)} in ${config.data_dir}: ${number(mails)} mails sent, ${number(received)} received. "[retention]" of the configuration says what goes when.`,
              days === null
                ? 'No backup is made by itself ("backup.to" is empty). An address that is erased stays in backups that were made by hand until you remove them; "restore" erases it again.'
                : `An address that is erased stays in older backups for up to ${days} days ("backup.keep"), and is erased again by "restore".`,
            ].join('\n\n'),
        )
      }),
    )
}

const FREE = `select freelist_count * page_size as free from pragma_freelist_count, pragma_page_size`

/** The kind of data in a table, in words of the configuration; for other tables the source folder that owns them. */
const KINDS: Partial<Record<TableName, string>> = {
  outbound_emails: 'mails',
  deliveries: 'mails',
  outbound_bodies: 'bodies of mails',
  digests: 'bodies of mails',
  events: 'events',
  event_sums: 'events',
  outbound_webhooks: 'webhook deliveries',
  webhook_attempts: 'webhook deliveries',
  contacts: 'contacts',
  suppressions: 'suppressions',
  inbound_messages: 'received mail',
  inbound_emails: 'received mail',
  inbound_bodies: 'received mail',
  inbound_waiting: 'received mail',
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
    kind: (isNameIn(TABLES, owner) ? KINDS[owner] : undefined) ?? 'else',
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

/** The size of a file, or of all files below a directory; 0 when it does not exist. */
function sizeOf(path: string): number {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found?.isDirectory()) return found?.size ?? 0
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0)
}

/** Below a thousand mails the empty tables count more than the mails. */
const perThousand = (octets: number, mails: number): number | null =>
  mails < 1000 ? null : Math.round((octets * 1000) / mails)

const number = (value: number): string => value.toLocaleString('en')
const optional = (octets: number | null): string => (octets === null ? '-' : size(octets))

function size(octets: number): string {
  const [unit, divisor] = (
    [
      ['GB', 1e9],
      ['MB', 1e6],
      ['KB', 1e3],
    ] as const
  ).find(([, each]) => octets >= each) ?? ['', 1]
  return unit === '' ? number(octets) : `${(octets / divisor).toFixed(1)} ${unit}`
}
