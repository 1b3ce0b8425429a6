// `postrider evidence import snds|gmail FILE`: what Microsoft and Google say of this server's mail (DV81).
import { Argument, type Command } from 'commander'
import { codeOf, OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import { asCallerAt } from '../base/ownership.ts'
import { counted } from '../base/text.ts'
import { readNamed } from '../base/plain-file.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'
import { EVIDENCE_KINDS, MOST_OCTETS, type EvidenceKind } from './evidence-csv.ts'
import { importGmail, importSnds, type ImportedEvidence } from './evidence.ts'

export function evidenceCommand(program: Command, invocation: () => Invocation): void {
  const evidence = program.command('evidence').description('what large receivers say of this server’s mail')
  evidence
    .command('import')
    .description('import a table of Microsoft’s SNDS, or of Google’s Postmaster Tools, as CSV')
    .addArgument(new Argument('<kind>', 'whose table it is').choices(EVIDENCE_KINDS))
    .argument('<file>', 'the file that was exported there')
    .option('--domain <name>', 'of a table of Google that names no domain: the sending domain that it is about')
    .action((kind: EvidenceKind, file: string, { domain }: { domain?: string }) =>
      withDeps(invocation(), async ({ clock, store }) => {
        const now = clock.now()
        if (kind === 'snds' && domain !== undefined)
          throw new OperatorError('--domain is for tables of Google; SNDS is about addresses.')
        const from = { octets: octetsOf(file), name: file }
        const imported =
          kind === 'snds' ? await importSnds(store, from, now) : await importGmail(store, from, { domain, now })
        answer(invocation().terminal, imported, textOf)
      }),
    )
}

/** A file that the command line names, as the caller may read it. Throws an OperatorError. */
function octetsOf(file: string): Buffer {
  try {
    return asCallerAt(file, () => readNamed(file, MOST_OCTETS))
  } catch (thrown) {
    if (codeOf(thrown) === 'EFBIG') throw new OperatorError(`${file} is larger than 10 MB; export fewer days.`)
    const why = codeOf(thrown) === 'ENOENT' ? 'there is no such file' : whyUnread(thrown)
    throw new OperatorError(`${file} cannot be read: ${why}; give the CSV file that was exported.`)
  }
}

const textOf = ({ columns, lines, rows, skipped }: ImportedEvidence): string =>
  [
    `${counted(rows, 'row')} imported, ${counted(skipped, 'line')} left out.`,
    ...(columns.length === 0 ? [] : [`Columns that are not known and were left out: ${columns.join(', ')}.`]),
    ...lines.map(({ line, why }) => (line === 0 ? `  ${why}` : `  line ${line}: ${why}`)),
  ].join('\n')
