// `postrider contacts import` and `export`, `postrider suppression import` and `export`: lists from files and to files.
import { basename } from 'node:path'
import { Option, type Command } from 'commander'
import type { Audience } from '../campaigns/audiences.ts'
import { theAudience, theSegment } from '../campaigns/find-audience.ts'
import type { NewConsent } from '../campaigns/consents.ts'
import {
  nameForHistory,
  noteImport,
  pastByKey,
  type ImportNote,
  importContactsWithStatus,
  noCounts,
  type ContactWithStatus,
  type ImportCounts,
} from '../campaigns/import-with-status.ts'
import { theDomain, whose, type Whose } from '../domains/find-domain.ts'
import { importSuppressions } from '../suppressions/import-with-status.ts'
import { forTerminal } from '../base/clean-text.ts'
import { counted } from '../base/text.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, progress, table, type Terminal } from '../views/command/terminal.ts'
import type { Columns } from './columns.ts'
import { contactsIn, readMap, readWords } from './contact-columns.ts'
import { openNamed, openSource } from './csv-source.ts'
import { exportContacts, exportSuppressions } from './export.ts'
import { checkErrors, importList, judge, tooWrong, type Imported, type Judged, type ListImport } from './import.ts'
import { PRESETS, SUPPRESSORS, type Preset, type PresetName } from './programs.ts'
import { listIn } from './rows.ts'
import { REASONS, suppressionsIn, type SuppressionWishes } from './suppression-columns.ts'

interface ImportOptions {
  from?: PresetName
  map?: string[]
  status?: string[]
  consent?: string | null
  consentDate?: string
  dryRun?: true
  force?: true
}

const CONTACTS_HELP = `
Columns are matched by title: email, name (or first and last name), and "attributes", a JSON object. All other columns become custom fields.

Status columns (status, subscription status, unsubscribed, email_blacklist, …) are applied: unsubscribed contacts stay unsubscribed, and
blocked, bounced or complained addresses are suppressed. An import never resubscribes a contact. If a column looks like a status but is
unknown, the import stops until you map it:

  --map status=COLUMN         a column of status values; --status pending=unconfirmed maps one
  --map subscribed=COLUMN     yes, no or a date
  --map unsubscribed=COLUMN   yes, no or a date
  --map COLUMN=COLUMN         a custom field
  --map status=               no status

Contacts with a time in UNSUB_TIME or CLEAN_TIME, and all contacts of files named unsubscribed_… or cleaned_… (Mailchimp), are imported as
unsubscribed or suppressed. If more than 10 % of the rows are invalid, the import stops before it writes anything.`

const EXPORT_HELP = `
The columns are email, name, status, and one per custom field. Values that are not plain text are JSON in "attributes" and "preferences".
"postrider contacts import" reads this format.`

const SUPPRESSIONS_HELP = `
The file has a column of addresses and a column of reasons (hard_bounce, complaint, unsubscribe, manual or list_import). A file with addresses
only gets the reason list_import. --from selects the format of another service, including the JSON of Amazon SES and Postmark. An import never
removes or weakens an existing suppression.`

interface NamedFile {
  file: string
  /** undefined: standard input. */
  fd: number | undefined
}

/** Imports a file, or standard input for "-". `or` adds alternatives to the error for too many invalid rows. */
async function importFile<Columns extends { headless: boolean }, Item, Outcome extends string>(
  deps: Deps,
  terminal: Terminal,
  { fd, file }: NamedFile,
  {
    force,
    or,
    ...how
  }: Pick<ListImport<Columns, Item, Outcome>, 'importBatch' | 'counts' | 'kind'> & {
    force: boolean
    or: string
  },
) {
  const source = await openSource(file, deps.config.data_dir, deps.clock.now(), fd)
  try {
    const list = Object.assign(await listIn(source), { source })
    const judged = await judge(list, how.kind)
    if (!force) checkErrors(source.name, judged, or)
    const bar = progress(terminal, source.size)
    const result = await importList({ ...how, list, bar, clock: deps.clock })
    bar.end()
    return { judged, result }
  } finally {
    source.close()
  }
}

export function contactsCommand(program: Command, invocation: () => Invocation): void {
  const contacts = program.command('contacts').description('import and export the contacts of audiences')
  contacts
    .command('import <audience> <file>')
    .description('import contacts from CSV or JSON ("-": standard input)')
    .addOption(new Option('--from <service>', 'service that exported the file').choices(Object.keys(PRESETS)))
    .option('--map <field=column>', 'column of a field (repeatable)', collected)
    .option('--status <value=status>', 'meaning of a value in a status column (repeatable)', collected)
    .option('--consent <text>', 'proof why the contacts agreed, kept with each of them')
    .option('--consent-date <column>', 'column with the dates on which the contacts agreed')
    .option('--dry-run', 'preview the first rows and the result without changes')
    .option('--force', 'import the valid rows, however many are invalid')
    .addHelpText('after', CONTACTS_HELP)
    .action(
      async (
        name: string,
        file: string,
        { consent: evidence = null, consentDate, dryRun, force, from, map = [], status = [] }: ImportOptions,
      ) => {
        // Before root becomes the owner of the data directory.
        const opened = { file, fd: await openNamed(file) }
        return withDeps(invocation(), async (deps) => {
          const { terminal } = invocation()
          const audience = theAudience(deps.store, name, deps.config.http.public_url)
          const wishes = {
            preset: from === undefined ? undefined : PRESETS[from],
            map: readMap(map),
            consentDate,
            words: readWords(status),
          }
          const consent = { state: 'imported', source: 'cli', person: 'the command line', evidence } as const
          const history = commandHistory(deps, audience, file, consent)
          const { judged, result } = await importFile(deps, terminal, opened, {
            kind: contactsIn(wishes),
            counts: noCounts(),
            importBatch: dryRun
              ? (lot) => importContactsWithStatus(deps, audience, lot, { consent, dry: true })
              : history.importBatch,
            force: force === true || dryRun === true,
            or: ', choose the columns with --map, or import the valid rows with --force',
          })
          if (!dryRun) await history.end(result)
          if (dryRun) answer(terminal, foretold(result, judged), (shown) => preview(shown, audience, wishes.preset))
          else answer(terminal, result, (shown) => summary(shown, audience, 'were', silence(judged, wishes.preset)))
        })
      },
    )
  exportCommand(contacts, invocation)
}

function exportCommand(contacts: Command, invocation: () => Invocation): void {
  contacts
    .command('export <audience>')
    .description('export the contacts of an audience to standard output as CSV')
    .option('--segment <name>', 'only the contacts that match a segment of the audience')
    .addHelpText('after', EXPORT_HELP)
    .action((name: string, { segment }: { segment?: string }) =>
      withDeps(invocation(), async ({ clock, config, store }) => {
        const audience = theAudience(store, name, config.http.public_url)
        // Loaded when needed, as in every command.
        const { segmentCondition } = await import('../campaigns/segments.ts')
        const only =
          segment === undefined
            ? undefined
            : segmentCondition(store, theSegment(store, audience, segment).key, clock.now())
        return exportContacts(store, audience, invocation().terminal, only)
      }),
    )
}

/** Imports the batches of a file as one import of the history, and adds the rejected lines at the end. */
function commandHistory(deps: Deps, audience: Audience, file: string, consent: NewConsent) {
  const note: ImportNote = { by: 'the command line', file: file === '-' ? '' : nameForHistory(basename(file)) }
  const noted = new Set<number>()
  return {
    importBatch: async (lot: ContactWithStatus[], lines: number[]) => {
      const done = await importContactsWithStatus(deps, audience, lot, { consent, note: { ...note, lines } })
      note.continues = done.past?.key
      for (const { index } of done.problems) noted.add(lines[index] ?? 0)
      return done
    },
    end: ({ errors, more_errors = 0, skipped }: ImportedContacts): Promise<unknown> => {
      const refused = errors
        .filter(({ line }) => !noted.has(line))
        .map(({ line, reason }) => ({ line, detail: reason, row: [] }))
      return deps.store.write((tx) => {
        const before = note.continues === undefined ? undefined : pastByKey(tx, note.continues)
        const rest = {
          refused,
          refusedCount: refused.length + more_errors,
          passed: Math.max(skipped - (before?.skipped ?? 0), 0),
          titles: [],
        }
        noteImport(tx, audience, { ...note, ...rest }, { counts: noCounts(), problems: [] }, deps.clock.now())
      })
    },
  }
}

const collected = (value: string, before: string[] = []): string[] => [...before, value]

/** A warning for a file without information about unsubscribed contacts. */
function silence({ columns: { standings } }: JudgedContacts, preset: Preset | undefined): string[] {
  if (standings.columns.length > 0 || standings.whole !== 'subscribed') return []
  return preset?.silent === undefined ? [] : [preset.silent]
}

type JudgedContacts = Judged<Columns, ContactWithStatus>
type ImportedContacts = Imported<keyof ImportCounts>

/** The rows in error, and whether the file is all of the list. */
const faults = ({ errors, incomplete, more_errors = 0 }: Imported<never>): string[] => [
  ...errors.map(({ line, reason }) => `  line ${line}: ${forTerminal(reason)}`),
  ...(more_errors > 0 ? [`  and ${more_errors} more`] : []),
  ...(incomplete ? ['This file is one page of several. Export and import the next pages as well.'] : []),
]

/** How many rows were skipped, and how many of them are in error. */
const passedOver = ({ errors, more_errors = 0, skipped }: Imported<never>): string => {
  const failed = errors.length + more_errors
  return `${skipped} skipped${failed > 0 ? ` (${failed} invalid)` : ''}`
}

function summary(imported: ImportedContacts, { name }: Audience, were: string, more: readonly string[]): string {
  const { created, suppressed, unsubscribed, updated } = imported
  const parts = [
    ...(updated > 0 ? [`${updated} updated`] : []),
    ...(unsubscribed > 0 ? [`${unsubscribed} unsubscribed`] : []),
    ...(suppressed > 0 ? [`${suppressed} suppressed`] : []),
    passedOver(imported),
  ]
  return [
    `${counted(created, 'contact')} ${were === 'were' && created === 1 ? 'was' : were} added to ${forTerminal(name)}, ${parts.join(', ')}.`,
    ...faults(imported),
    ...more,
  ].join('\n')
}

function foretold(result: ImportedContacts, judged: JudgedContacts) {
  const { columns, items } = judged
  const titled = (index: number): string => columns.titles[index]!
  return {
    dry_run: true,
    ...result,
    stops: tooWrong(judged),
    columns: {
      email: columns.headless ? null : titled(columns.email),
      name: columns.names.map(titled),
      status: columns.standings.columns.map(({ title }) => title),
      fields: columns.fields.filter((title) => title !== undefined),
    },
    rows: items.map(({ item: contact, line }) => ({
      line,
      email: contact.email,
      name: contact.name ?? null,
      status: contact.status,
      custom_fields: contact.custom_fields ?? null,
    })),
  }
}

function preview(shown: ReturnType<typeof foretold>, audience: Audience, preset: Preset | undefined): string {
  const { columns, rows, stops } = shown
  const silent = columns.status.length === 0 && rows.every(({ status }) => status === 'subscribed')
  return [
    table(
      ['LINE', 'EMAIL', 'NAME', 'STATUS', 'FIELDS'],
      rows.map(({ custom_fields, email, line, name, status }) => [
        line,
        email,
        name,
        status,
        Object.entries(custom_fields ?? {})
          .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
          .join(' ')
          .slice(0, 60),
      ]),
    ),
    '',
    `Address: ${forTerminal(columns.email ?? 'the only column')}. Name: ${forTerminal(columns.name.join(' + ')) || 'none'}. Status: ${forTerminal(columns.status.join(', ')) || 'no column'}.`,
    summary(shown, audience, 'would be', silent && preset?.silent !== undefined ? [preset.silent] : []),
    stops
      ? 'This was a dry run. More than 10 % of the rows are invalid, so the import would stop; fix the rows or add --force.'
      : 'This was a dry run; remove --dry-run to import.',
  ].join('\n')
}

/** Adds both to the commands of `suppression`. */
export function suppressionListCommands(program: Command, invocation: () => Invocation): void {
  const suppression = program.commands.find((command) => command.name() === 'suppression')!
  type Options = Whose & Pick<SuppressionWishes, 'from' | 'reason'> & { domain: string; map?: string[]; force?: true }
  whose(suppression.command('import <file>'))
    .description('import suppressions from CSV or JSON ("-": standard input)')
    .requiredOption('--domain <name>', 'sending domain')
    .addOption(new Option('--from <service>', 'service that exported the file').choices(Object.keys(SUPPRESSORS)))
    .addOption(new Option('--reason <reason>', 'reason of all suppressions in the file').choices(REASONS))
    .option('--map <field=column>', 'column of a field: email, reason or status (repeatable)', collected)
    .option('--force', 'import the valid rows, however many are invalid')
    .addHelpText('after', SUPPRESSIONS_HELP)
    .action(async (file: string, { domain: name, force, from, map = [], reason, ...which }: Options) => {
      // Before root becomes the owner of the data directory.
      const opened = { file, fd: await openNamed(file) }
      return withDeps(invocation(), async (deps) => {
        const { terminal } = invocation()
        const domain = theDomain(deps.store, name, which)
        const { result } = await importFile(deps, terminal, opened, {
          kind: suppressionsIn({ from, reason, map: readMap(map) }, deps.clock.now()),
          counts: { created: 0, updated: 0, skipped: 0 },
          importBatch: async (lot) => ({ counts: await importSuppressions(deps, domain, lot) }),
          force: force === true,
          or: ', or import the valid rows with --force',
        })
        answer(terminal, result, (shown) => suppressionSummary(shown, domain.name))
      })
    })
  whose(suppression.command('export'))
    .description('export the suppressions of a domain to standard output as CSV')
    .requiredOption('--domain <name>', 'sending domain')
    .action(({ domain: name, ...which }: Whose & { domain: string }) =>
      withDeps(invocation(), (deps) =>
        exportSuppressions(deps.store, theDomain(deps.store, name, which), invocation().terminal),
      ),
    )
}

function suppressionSummary(imported: Imported<'created' | 'updated'>, domain: string): string {
  const { created, updated } = imported
  const wider = updated > 0 ? `${updated} widened in scope, ` : ''
  return [
    `${counted(created, 'address', 'addresses')} added to the suppressions of ${domain}, ${wider}${passedOver(imported)}.`,
    ...faults(imported),
  ].join('\n')
}
