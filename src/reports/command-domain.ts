// `postrider domain reports` lists received reports. `domain dmarc` prints the DMARC record of a domain, and the effect
// of the next policy according to the reports.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { counted } from '../base/text.ts'
import { must, OperatorError, Refusal } from '../base/errors.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'
import { dmarcAdvice, dmarcText } from '../domains/command-dmarc.ts'
import type { Domain } from '../domains/find.ts'
import { theDomain, whose, type Whose } from '../domains/find-domain.ts'
import { followConfig } from '../domains/issue.ts'
import { setDmarcPolicy } from '../domains/records.ts'
import { db } from '../store/query.ts'
import { dmarcEvidence, evidenceText } from './evidence.ts'
import { nameSource } from './known.ts'
import type { ReportRow } from './receipt.ts'
import { shownReport, WORDS } from './words.ts'

/** The most reports in a list. */
const MOST = 1000

interface DmarcOptions extends Whose {
  policy?: Domain['dmarc_policy']
  knownSource?: string
  name?: string
  automatic?: 'on' | 'off'
}

/** Adds the commands to `postrider domain`. */
export function domainReportCommands(program: Command, invocation: () => Invocation): void {
  const domain = must(
    program.commands.find((each) => each.name() === 'domain'),
    'The command "domain"',
  )
  reports(domain, invocation)
  dmarc(domain, invocation)
}

function reports(domain: Command, invocation: () => Invocation): void {
  whose(domain.command('reports <name>').description('list received DMARC and TLS reports about a domain'))
    .addOption(new Option('--kind <kind>', 'only this kind of report').choices(['dmarc', 'tls']))
    .option('--since <time>', 'only reports since then, such as 2026-11-01T12:00:00Z')
    .action((name: string, options: Whose & { kind?: ReportRow['kind']; since?: string }) =>
      withDeps(invocation(), ({ store }) => {
        const from = options.since === undefined ? 0 : Date.parse(options.since)
        if (Number.isNaN(from))
          throw new OperatorError(`--since "${options.since}" is not a time; use one such as 2026-11-01T12:00:00Z.`)
        const { key } = theDomain(store, name, options)
        let found = db
          .selectFrom('aggregate_reports')
          .selectAll()
          .where('domain_key', '=', key)
          .where('created_at', '>=', from)
          .orderBy('created_at', 'desc')
          .orderBy('key', 'desc')
          .limit(MOST)
        if (options.kind !== undefined) found = found.where('kind', '=', options.kind)
        answer(invocation().terminal, store.all(found).map(reportRow), (rows) =>
          rows.length === 0
            ? `There are no reports about ${name} yet. Providers send them daily when its DMARC and TLS_RPT records are published ("postrider domain records ${name}").`
            : table(
                ['RECEIVED (UTC)', 'KIND', 'REPORTER', 'AUTHENTICATED', 'DAY', 'PASS', 'FAIL', 'OUTCOME'],
                rows.map((row) => [
                  row.received_at.slice(0, 16).replace('T', ' '),
                  row.kind,
                  row.reporter ?? '',
                  row.authenticated ? 'yes' : 'no',
                  row.begin?.slice(0, 10) ?? '',
                  row.pass ?? row.successful_sessions ?? '',
                  row.fail ?? row.failed_sessions ?? '',
                  row.reason === null ? readOf(row) : `rejected: ${WORDS[row.reason]}`,
                ]),
              ),
        )
      }),
    )
}

const readOf = ({ records, skipped_records }: Pick<ReportRow, 'records' | 'skipped_records'>): string =>
  skipped_records === 0
    ? 'read'
    : `partly read: ${skipped_records} of ${counted(records + skipped_records, 'record')} skipped`

/** A report with the attributes of the API. */
function reportRow(row: ReportRow) {
  const { begin, end, received_at, ...shown } = shownReport(row)
  const at = (time: number | null): string | null => (time === null ? null : iso(time))
  return {
    id: row.id,
    kind: row.kind,
    ...shown,
    report_id: row.report_id,
    begin: at(begin),
    end: at(end),
    received_at: iso(received_at),
    authenticated: row.authenticated === 1,
    outcome: row.outcome,
    records: row.records,
    skipped_records: row.skipped_records,
  }
}

function dmarc(domain: Command, invocation: () => Invocation): void {
  whose(domain.command('dmarc <name>').description('show the DMARC record of a domain and the next policy'))
    .addOption(
      new Option('--policy <policy>', 'next policy for email that fails DMARC').choices([
        'none',
        'quarantine',
        'reject',
      ]),
    )
    .option('--known-source <address>', 'IP address or network of yours that sends for the domain')
    .option('--name <text>', 'name for --known-source, such as "newsletter service"')
    .addOption(new Option('--automatic <switch>', 'automatic policy changes (not supported)').choices(['on', 'off']))
    .action((name: string, options: DmarcOptions) =>
      withDeps(invocation(), async (deps) => {
        const found = theDomain(deps.store, name, options)
        if (options.automatic === 'on')
          throw new OperatorError(
            'Automatic policy changes are not supported, because Postrider cannot write to your DNS; set the next policy with --policy.',
          )
        await know(deps, found, options)
        const wanted = options.policy ?? found.dmarc_policy
        if (options.policy !== undefined) {
          await setDmarcPolicy(deps, found.key, options.policy)
          await followConfig(deps)
        }
        const shown = await dmarcAdvice(deps.resolver, deps.store, found, wanted, options.policy !== undefined)
        const evidence = await dmarcEvidence(deps, found)
        answer(invocation().terminal, { name: found.name, ...shown, evidence }, () =>
          [dmarcText(found.name, shown), '', evidenceText(found.name, evidence)].join('\n'),
        )
      }),
    )
}

/** Names the address of `--known-source`. Throws an OperatorError. */
async function know(deps: Deps, domain: Domain, { knownSource: network, name }: DmarcOptions): Promise<void> {
  if (network === undefined && name === undefined) return
  if (network === undefined || name === undefined)
    throw new OperatorError('--known-source and --name must be used together; add the missing one.')
  try {
    await nameSource(deps, domain, { network, name })
  } catch (thrown) {
    throw thrown instanceof Refusal ? new OperatorError(thrown.message) : thrown
  }
}
