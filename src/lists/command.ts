// `postrider contacts import` and `export`, `postrider suppression import` and `export`: lists from files and to files.
import { basename } from 'node:path'
import { Option, type Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import type { Audience } from '../campaigns/audiences.ts'
import { nameForHistory, noteImport, pastByKey, type ImportNote } from '../campaigns/import-history.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import {
  importContactsWithStatus,
  noCounts,
  type ContactWithStatus,
  type ImportCounts,
} from '../campaigns/import-with-status.ts'
import { theDomain, whose, type Whose } from '../domains/find-domain.ts'
import { importSuppressions } from '../suppressions/import-with-status.ts'
import { forTerminal } from '../base/clean-text.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { answer, progress, table, type Terminal } from '../commands/terminal.ts'
import type { Columns } from './chosen-columns.ts'
import { contactsIn, readMap } from './contact-columns.ts'
import { openSource } from './csv-source.ts'
import { exportContacts, exportSuppressions } from './export.ts'
import { checkErrors, importList, judge, tooWrong, type Imported, type Judged, type ListImport } from './import.ts'
import { PRESETS, SUPPRESSORS, type Preset, type PresetName } from './programs.ts'
import { listIn } from './rows.ts'
import { REASONS, suppressionsIn, type SuppressionWishes } from './suppression-columns.ts'

interface ImportOptions {
  from?: PresetName
  map?: string[]
  dryRun?: true
  force?: true
}

const CONTACTS_HELP = `
Columns are found by their titles: email, name (or first and last name), a JSON object "attributes"; all others become custom fields.
Columns of status (status, subscription status, unsubscribed, email_blacklist …) are obeyed: who unsubscribed is kept as unsubscribed, who
is blocked, bounced or complained gets a suppression, and nobody who left is subscribed again. "--map status=" says that there are none.
Who has a time in the column UNSUB_TIME or CLEAN_TIME left; a file called unsubscribed_… or cleaned_…, as Mailchimp calls it, holds such
people alone.
More than a tenth of rows in error stop the import before anything is written.`

const EXPORT_HELP = `
The columns are email, name, status and one for each custom field; what is not plain text stands in "attributes" and "preferences" as JSON.
"postrider contacts import" reads it back.`

const SUPPRESSIONS_HELP = `
The file has a column of addresses and one of reasons (hard_bounce, complaint, unsubscribe, manual, list_import); a bare list of addresses is
suppressed as list_import. --from knows what the columns of a program mean, and takes the JSON of Amazon SES and Postmark as well. An entry
that is there is never removed or weakened.`

/** Imports a file, or standard input for "-". `or` says what else can be done when too many of its rows are wrong. */
async function importFile<Columns extends { headless: boolean }, Item, Outcome extends string>(
  deps: Deps,
  terminal: Terminal,
  file: string,
  {
    force,
    or,
    ...how
  }: Pick<ListImport<Columns, Item, Outcome>, 'bring' | 'counts' | 'kind'> & {
    force: boolean
    or: string
  },
) {
  const source = await openSource(file, deps.config.data_dir, deps.clock.now())
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
  const contacts = program.command('contacts').description('the contacts of audiences')
  contacts
    .command('import <audience> <file>')
    .description('bring people in from a CSV or JSON file ("-": standard input); who has left stays out')
    .addOption(new Option('--from <program>', 'whose export it is').choices(Object.keys(PRESETS)))
    .option('--map <field=column>', 'which column a field is taken from; may be repeated', collected)
    .option('--dry-run', 'show the first rows and what would be done; write nothing')
    .option('--force', 'import the sound rows, however many are in error')
    .addHelpText('after', CONTACTS_HELP)
    .action((name: string, file: string, { dryRun, force, from, map = [] }: ImportOptions) =>
      withDeps(invocation(), async (deps) => {
        const { terminal } = invocation()
        const audience = theAudience(deps.store, name, deps.config.http.public_url)
        const wishes = { preset: from === undefined ? undefined : PRESETS[from], map: readMap(map) }
        const history = commandHistory(deps, audience, file)
        const { judged, result } = await importFile(deps, terminal, file, {
          kind: contactsIn(wishes),
          counts: noCounts(),
          bring: dryRun ? (lot) => importContactsWithStatus(deps, audience, lot, { dry: true }) : history.bring,
          force: force === true || dryRun === true,
          or: ', name the right columns with --map, or import the others with --force',
        })
        if (!dryRun) await history.end(result)
        if (dryRun) answer(terminal, foretold(result, judged), (shown) => preview(shown, audience, wishes.preset))
        else answer(terminal, result, (shown) => told(shown, audience, 'were', silence(judged, wishes.preset)))
      }),
    )
  contacts
    .command('export <audience>')
    .description('write the contacts of an audience to standard output as CSV')
    .addHelpText('after', EXPORT_HELP)
    .action((name: string) =>
      withDeps(invocation(), ({ config, store }) =>
        exportContacts(store, theAudience(store, name, config.http.public_url), invocation().terminal),
      ),
    )
}

/** Imports the lots of a file as one import of the history, and adds the lines that were refused at the end. */
function commandHistory(deps: Deps, audience: Audience, file: string) {
  const note: ImportNote = { by: 'the command line', file: file === '-' ? '' : nameForHistory(basename(file)) }
  const noted = new Set<number>()
  return {
    bring: async (lot: ContactWithStatus[], lines: number[]) => {
      const done = await importContactsWithStatus(deps, audience, lot, { note: { ...note, lines } })
      note.continues = done.past?.key
      for (const { index } of done.problems) noted.add(lines[index] ?? 0)
      return done
    },
    end: ({ errors, more_errors = 0, skipped }: ImportedContacts): Promise<unknown> => {
      const refused = errors
        .filter(({ line }) => !noted.has(line))
        .map(({ line, reason }) => ({ line, detail: reason, cells: [] }))
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

/** So many audiences are named where the one that was meant is not there. */
const NAMED = 5

const collected = (value: string, before: string[] = []): string[] => [...before, value]

/** An audience by its id, or by its name when the name is unique. Throws an OperatorError. */
function theAudience(reader: Reader, text: string, publicUrl: string): Audience {
  const found = reader.all(
    db
      .selectFrom('audiences')
      .selectAll()
      .where('deleted_at', 'is', null)
      .where((eb) => eb.or([eb('id', '=', text), eb('name', '=', text)])),
  )
  if (found.length === 1) return found[0]!
  throw new OperatorError(
    found.length === 0
      ? `There is no audience "${text}"; make it in the console ("New audience" at ${publicUrl}/audiences/new), or give the id or name of one that is there${named(reader)}.`
      : `${found.length} audiences are called "${text}"; give the id of one.`,
  )
}

/** Some audiences that are there, for a sentence. */
function named(reader: Reader): string {
  const some = reader.all(
    db.selectFrom('audiences').select('name').where('deleted_at', 'is', null).orderBy('key', 'desc').limit(NAMED),
  )
  return some.length === 0 ? '' : `, such as ${some.map(({ name }) => `"${name}"`).join(', ')}`
}

/** A warning for a file without information about unsubscribed people. */
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
  ...(incomplete ? ['This file is one page of several: it says so itself. Export and import the next pages too.'] : []),
]

/** How many rows were skipped, and how many of them are in error. */
const passedOver = ({ errors, more_errors = 0, skipped }: Imported<never>): string => {
  const failed = errors.length + more_errors
  return `${skipped} skipped${failed > 0 ? `, ${failed} of them in error` : ''}`
}

function told(imported: ImportedContacts, { name }: Audience, were: string, more: readonly string[]): string {
  const { created, suppressed, unsubscribed, updated } = imported
  const parts = [
    ...(updated > 0 ? [`${updated} updated`] : []),
    ...(unsubscribed > 0 ? [`${unsubscribed} kept as unsubscribed`] : []),
    ...(suppressed > 0 ? [`${suppressed} suppressed`] : []),
    passedOver(imported),
  ]
  return [
    `${created} contacts ${were} added to ${forTerminal(name)}, ${parts.join(', ')}.`,
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
      status: contact.standing,
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
    told(shown, audience, 'would be', silent && preset?.silent !== undefined ? [preset.silent] : []),
    stops
      ? 'Nothing was written. More than a tenth of the rows are in error: the import would stop, unless with --force.'
      : 'Nothing was written.',
  ].join('\n')
}

/** Adds both to the commands of `suppression`. */
export function suppressionListCommands(program: Command, invocation: () => Invocation): void {
  const suppression = program.commands.find((command) => command.name() === 'suppression')!
  type Options = Whose & SuppressionWishes & { domain: string; force?: true }
  whose(suppression.command('import <file>'))
    .description('bring suppressions in from a CSV or JSON file ("-": standard input)')
    .requiredOption('--domain <name>', 'the sending domain')
    .addOption(new Option('--from <program>', 'whose export it is').choices(Object.keys(SUPPRESSORS)))
    .addOption(new Option('--reason <reason>', 'why all of them are suppressed').choices(REASONS))
    .option('--force', 'import the sound rows, however many are in error')
    .addHelpText('after', SUPPRESSIONS_HELP)
    .action((file: string, { domain: name, force, from, reason, ...which }: Options) =>
      withDeps(invocation(), async (deps) => {
        const { terminal } = invocation()
        const domain = theDomain(deps.store, name, which)
        const { result } = await importFile(deps, terminal, file, {
          kind: suppressionsIn({ from, reason }, deps.clock.now()),
          counts: { created: 0, updated: 0, skipped: 0 },
          bring: async (lot) => ({ counts: await importSuppressions(deps, domain, lot) }),
          force: force === true,
          or: ', or import the others with --force',
        })
        answer(terminal, result, (shown) => toldSuppressions(shown, domain.name))
      }),
    )
  whose(suppression.command('export'))
    .description('write the suppressions of a domain to standard output as CSV')
    .requiredOption('--domain <name>', 'the sending domain')
    .action(({ domain: name, ...which }: Whose & { domain: string }) =>
      withDeps(invocation(), (deps) =>
        exportSuppressions(deps.store, theDomain(deps.store, name, which), invocation().terminal),
      ),
    )
}

function toldSuppressions(imported: Imported<'created' | 'updated'>, domain: string): string {
  const { created, updated } = imported
  const wider = updated > 0 ? `${updated} more widely than before, ` : ''
  return [
    `${created} addresses are suppressed on ${domain} now, ${wider}${passedOver(imported)}.`,
    ...faults(imported),
  ].join('\n')
}
