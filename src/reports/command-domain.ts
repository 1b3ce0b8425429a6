// `postrider domain reports` and `domain dmarc`: the reports that came about a domain, its DMARC record, and what the
// next policy would cost by what the reports say.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { must, OperatorError, Refusal } from '../base/errors.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'
import { dmarcAdvice, dmarcText } from '../domains/command-dmarc.ts'
import type { Domain } from '../domains/find.ts'
import { theDomain, whose, type Whose } from '../domains/find-domain.ts'
import { followConfig } from '../domains/issue.ts'
import { setDmarcPolicy } from '../domains/records.ts'
import { db } from '../store/query.ts'
import { shownReport } from './api.ts'
import { dmarcEvidence, evidenceText } from './evidence.ts'
import { nameSource } from './known.ts'
import type { ReportRow } from './receipt.ts'
import { wordsOf } from './words.ts'

/** The most reports that a command lists. */
const MOST = 1000

interface DmarcOptions extends Whose {
  policy?: Domain['dmarc_policy']
  know?: string
  name?: string
  automatic?: 'on' | 'off'
}

/** Adds the commands to `postrider domain`, which is there already. */
export function domainReportCommands(program: Command, invocation: () => Invocation): void {
  const domain = must(
    program.commands.find((each) => each.name() === 'domain'),
    'The command "domain"',
  )
  reports(domain, invocation)
  dmarc(domain, invocation)
}

function reports(domain: Command, invocation: () => Invocation): void {
  whose(
    domain.command('reports <name>').description('the DMARC and TLS reports of others about a domain, newest first'),
  )
    .addOption(new Option('--kind <kind>', 'only reports of this kind').choices(['dmarc', 'tls']))
    .option('--since <time>', 'received since, such as 2026-11-01 or 2026-11-01T12:00:00Z')
    .action((name: string, options: Whose & { kind?: ReportRow['kind']; since?: string }) =>
      withDeps(invocation(), ({ store }) => {
        const from = options.since === undefined ? 0 : Date.parse(options.since)
        if (Number.isNaN(from))
          throw new OperatorError(`"${options.since}" is not a time such as 2026-11-01T12:00:00Z.`)
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
            ? `No report about ${name} came yet. Providers send one a day once its DMARC and TLS_RPT records are published: "postrider domain records ${name}".`
            : table(
                ['RECEIVED (UTC)', 'KIND', 'REPORTER', 'PROVEN', 'DAY', 'PASS', 'FAIL', 'OUTCOME'],
                rows.map((row) => [
                  row.received_at.slice(0, 16).replace('T', ' '),
                  row.kind,
                  row.reporter ?? '',
                  row.authenticated ? 'yes' : 'no',
                  row.begin?.slice(0, 10) ?? '',
                  row.pass ?? row.success ?? '',
                  row.fail ?? row.failure ?? '',
                  row.why === null ? readOf(row) : `refused: ${wordsOf(row.why)}`,
                ]),
              ),
        )
      }),
    )
}

const readOf = ({ records, skipped_records }: Pick<ReportRow, 'records' | 'skipped_records'>): string =>
  skipped_records === 0 ? 'read' : `read in part: ${skipped_records} of ${records + skipped_records} records not used`

/** A report as the API shows it. */
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
    why: row.why,
    form: row.form,
    records: row.records,
    skipped_records: row.skipped_records,
  }
}

function dmarc(domain: Command, invocation: () => Invocation): void {
  whose(
    domain
      .command('dmarc <name>')
      .description('what a domain’s DMARC record says, what it should say next, and what that would cost'),
  )
    .addOption(
      new Option('--policy <policy>', 'what receivers are asked to do with mail that fails').choices([
        'none',
        'quarantine',
        'reject',
      ]),
    )
    .option('--know <address>', 'an address or a network that sends in the domain’s name and that you know')
    .option('--name <text>', 'whose it is, such as "newsletter service"')
    .addOption(new Option('--automatic <switch>', 'change the policy by itself').choices(['on', 'off']))
    .action((name: string, options: DmarcOptions) =>
      withDeps(invocation(), async (deps) => {
        const found = theDomain(deps.store, name, options)
        if (options.automatic === 'on')
          throw new OperatorError(
            'Not switched on: to change the policy by itself the server would have to write to your DNS, which this version does not do. "--policy" sets the next policy by hand.',
          )
        await know(deps, found, options)
        const wanted = options.policy ?? found.dmarc_policy
        if (options.policy !== undefined) {
          await setDmarcPolicy(deps, found.key, options.policy)
          await followConfig(deps)
        }
        const shown = await dmarcAdvice(deps.resolver, found, wanted, options.policy !== undefined)
        const evidence = await dmarcEvidence(deps, found)
        answer(invocation().terminal, { name: found.name, ...shown, evidence }, () =>
          [dmarcText(found.name, shown), '', evidenceText(found.name, evidence)].join('\n'),
        )
      }),
    )
}

/** Names the address of `--know`. Throws an OperatorError. */
async function know(deps: Deps, domain: Domain, { know: network, name }: DmarcOptions): Promise<void> {
  if (network === undefined && name === undefined) return
  if (network === undefined || name === undefined)
    throw new OperatorError('"--know ADDRESS" and "--name TEXT" go together.')
  try {
    await nameSource(deps, domain, { network, name })
  } catch (thrown) {
    throw thrown instanceof Refusal ? new OperatorError(thrown.message) : thrown
  }
}
