// `postrider contacts import` and `export`: an audience from a CSV file and to a CSV file.
import { Option, type Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import type { Audience } from '../campaigns/audiences.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { exportContacts } from './contacts-export.ts'
import { checkErrors, checkFile, importFile, type Checked, type FileImported } from './contacts-import.ts'
import { openSource } from './csv-source.ts'
import { readMap } from './import-columns.ts'
import { PRESETS, type Preset, type PresetName } from './import-presets.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { printable } from '../base/printable.ts'
import { answer, progress, table } from '../commands/terminal.ts'

interface ImportOptions {
  from?: PresetName
  map?: string[]
  dryRun?: true
  force?: true
}

const IMPORT_HELP = `
Columns are found by their titles: email, name (or first and last name), a JSON object "attributes"; all others become custom fields.
Columns of status (status, subscription status, unsubscribed, email_blacklist …) are obeyed: who unsubscribed is kept as unsubscribed, who
is blocked, bounced or complained gets a suppression, and nobody who left is subscribed again. "--map status=" says that there are none.
A file with the column UNSUB_TIME or CLEAN_TIME, or called unsubscribed_… or cleaned_… as Mailchimp calls it, holds such people alone.
More than a tenth of rows in error stop the import before anything is written.`

const EXPORT_HELP = `
The columns are email, name, status and one for each custom field; what is no plain text stands in "attributes" and "preferences" as JSON.
"postrider contacts import" reads it back.`

export function contactsCommand(program: Command, invocation: () => Invocation): void {
  const contacts = program.command('contacts').description('the contacts of audiences')
  contacts
    .command('import <audience> <file>')
    .description('bring people in from a CSV file ("-": standard input); who has left stays out')
    .addOption(new Option('--from <program>', 'whose export it is').choices(Object.keys(PRESETS)))
    .option('--map <field=column>', 'which column a field is taken from; may be repeated', collected)
    .option('--dry-run', 'show the first rows and what would be done; write nothing')
    .option('--force', 'import the sound rows, however many are in error')
    .addHelpText('after', IMPORT_HELP)
    .action((name: string, file: string, { dryRun, force, from, map = [] }: ImportOptions) =>
      withDeps(invocation(), async (deps) => {
        const { terminal } = invocation()
        const audience = theAudience(deps.store, name)
        const wishes = { preset: from === undefined ? undefined : PRESETS[from], map: readMap(map) }
        const source = await openSource(file, deps.config.data_dir, deps.clock.now())
        try {
          const checked = await checkFile(source, wishes)
          if (!force && !dryRun) checkErrors(source, checked)
          const bar = progress(terminal, source.size)
          const result = await importFile(deps, { audience, source, checked, wishes, bar, dry: dryRun === true })
          bar.end()
          if (dryRun) answer(terminal, foretold(result, checked), (shown) => preview(shown, audience, wishes.preset))
          else answer(terminal, result, (shown) => told(shown, audience, 'were', silence(checked, wishes.preset)))
        } finally {
          source.close()
        }
      }),
    )
  contacts
    .command('export <audience>')
    .description('write the contacts of an audience to standard output as CSV')
    .addHelpText('after', EXPORT_HELP)
    .action((name: string) =>
      withDeps(invocation(), ({ store }) => exportContacts(store, theAudience(store, name), invocation().terminal)),
    )
}

const collected = (value: string, before: string[] = []): string[] => [...before, value]

/** An audience by its id, or by its name when the name is unique. Throws an OperatorError. */
function theAudience(reader: Reader, text: string): Audience {
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
      ? `There is no audience "${text}"; give its id or its name.`
      : `${found.length} audiences are called "${text}"; give the id of one.`,
  )
}

/** A warning for a file without information about unsubscribed people. */
function silence({ columns: { standings } }: Checked, preset: Preset | undefined): string[] {
  if (standings.columns.length > 0 || standings.whole !== 'subscribed') return []
  return preset?.silent === undefined ? [] : [preset.silent]
}

function told(
  { created, errors, more_errors = 0, skipped, suppressed, unsubscribed, updated }: FileImported,
  { name }: Audience,
  were: string,
  more: readonly string[],
): string {
  const failed = errors.length + more_errors
  const parts = [
    ...(updated > 0 ? [`${updated} updated`] : []),
    ...(unsubscribed > 0 ? [`${unsubscribed} kept as unsubscribed`] : []),
    ...(suppressed > 0 ? [`${suppressed} suppressed`] : []),
    `${skipped} skipped${failed > 0 ? `, ${failed} of them in error` : ''}`,
  ]
  return [
    `${created} contacts ${were} added to ${printable(name)}, ${parts.join(', ')}.`,
    ...errors.map(({ line, reason }) => `  line ${line}: ${printable(reason)}`),
    ...(more_errors > 0 ? [`  and ${more_errors} more`] : []),
    ...more,
  ].join('\n')
}

function foretold(result: FileImported, { columns, failed, rows, samples }: Checked) {
  const titled = (index: number): string => columns.titles[index]!
  return {
    dry_run: true,
    ...result,
    stops: failed * 10 > rows,
    columns: {
      email: columns.headless ? null : titled(columns.email),
      name: columns.names.map(titled),
      status: columns.standings.columns.map(({ title }) => title),
      fields: columns.fields.filter((title) => title !== undefined),
    },
    rows: samples.map(({ contact, line }) => ({
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
    `Address: ${printable(columns.email ?? 'the only column')}. Name: ${printable(columns.name.join(' + ')) || 'none'}. Status: ${printable(columns.status.join(', ')) || 'no column'}.`,
    told(shown, audience, 'would be', silent && preset?.silent !== undefined ? [preset.silent] : []),
    stops
      ? 'Nothing was written. More than a tenth of the rows are in error: the import would stop, unless with --force.'
      : 'Nothing was written.',
  ].join('\n')
}
