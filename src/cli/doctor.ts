// `postrider doctor`: problems that may prevent delivery, each with its fix.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { forTerminal } from '../base/clean-text.ts'
import { systemClock } from '../base/clock.ts'
import { findConfig } from '../base/config-file.ts'
import { OperatorError } from '../base/errors.ts'
import { parseEndpoint } from '../base/network.ts'
import { counted } from '../base/text.ts'
import { settingsOf, withStore, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'
import { findAll, shownFinding, type Finding } from '../parts/findings/finding.ts'
import { createResolver } from '../net/resolver.ts'
import { findersOf, loadParts } from '../server/parts.ts'
import { DATABASE } from '../store/open.ts'

interface DoctorOptions {
  probe: string
  timeServer: string
}

const MARKS: Record<Finding['severity'], string> = { ok: 'ok  ', warn: 'WARN', fail: 'FAIL' }

/** Returns one line for each finding, followed by its fix unless the same fix was printed before. */
function printed(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ id }) => id.length))
  const count = (severity: Finding['severity']): number => findings.filter((each) => each.severity === severity).length
  const fixes = new Set<string | null>([null])
  const isNew = (fix: string | null): boolean => !fixes.has(fix) && Boolean(fixes.add(fix))
  const lines = findings.flatMap(({ fix, id, severity, summary }) => [
    `${MARKS[severity]}  ${id.padEnd(width)}  ${forTerminal(summary)}`,
    ...(isNew(fix) ? [`${' '.repeat(width + 8)}-> ${forTerminal(fix ?? '')}`] : []),
  ])
  return [
    ...lines,
    '',
    `${count('ok')} ok, ${counted(count('warn'), 'warning')}, ${counted(count('fail'), 'failure')}`,
  ].join('\n')
}

export function doctorCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('doctor')
    .description('check the machine, network and DNS, and suggest fixes')
    .option('--probe <domain>', 'domain whose MX hosts are used to test port 25', 'gmail.com')
    .option('--time-server <host:port>', 'time server (NTP)', 'pool.ntp.org:123')
    .action(async ({ probe, timeServer }: DoctorOptions) => {
      const asked = invocation()
      const time = parseEndpoint(timeServer)
      if (!time?.host) throw new OperatorError(`--time-server "${timeServer}" is not a time server; use host:port.`)
      const config = settingsOf(asked)
      const resolver = createResolver({ servers: config.dns.servers, tries: 2 })
      const configFile = findConfig(asked) ?? 'defaults (no configuration file found)'
      const deps = { config, clock: systemClock, resolver, doctor: { configFile, probe, timeServer: time } }
      const finders = findersOf(await loadParts())
      const findings = await (existsSync(join(config.data_dir, DATABASE))
        ? withStore(asked, (store) => findAll(finders, { ...deps, store }))
        : findAll(finders, { ...deps, store: undefined }))
      answer(asked.terminal, findings.map(shownFinding), () => printed(findings))
      if (findings.some(({ severity }) => severity === 'fail')) process.exitCode = 1
    })
}
