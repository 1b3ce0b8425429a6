// `postrider doctor`: problems that may prevent delivery, each with its remedy.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { parseEndpoint } from '../base/network.ts'
import { createResolver } from '../net/resolver.ts'
import { givenName } from '../message/address.ts'
import { grade } from './grade.ts'
import {
  judgeCertificates,
  judgeClock,
  judgeConfig,
  judgeDataDir,
  judgeDate,
  judgeDisk,
  judgeKeyBeside,
  judgeLog,
  type Finding,
} from './doctor-machine.ts'
import { lookAtBackups } from './doctor-backups.ts'
import { lookAtSetUp } from './doctor-set-up.ts'
import { judgeClients, judgeFileSystem, judgeOut } from './doctor-container.ts'
import { judgeDane } from './doctor-dane.ts'
import { judgeDomains } from './doctor-domains.ts'
import { judgeBlocklists, judgeReverse } from './doctor-lists.ts'
import { judgeHeloSpf, judgeWayIn } from './doctor-network.ts'
import { findConfig } from '../base/config-file.ts'
import { configOf, withStore, type Invocation } from '../commands/open.ts'
import { forTerminal } from '../base/clean-text.ts'
import { answer } from '../commands/terminal.ts'
import { DATABASE } from '../store/open.ts'

interface DoctorOptions {
  probe: string
  timeServer: string
  grade?: string
}

const MARKS: Record<Finding['status'], string> = { ok: 'ok  ', warn: 'WARN', fail: 'FAIL' }

/** One line for each finding; its remedy is below, unless the same one was said before. */
function told(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const count = (status: Finding['status']): number => findings.filter((each) => each.status === status).length
  const said = new Set<string>()
  const isNew = (mend: string): boolean => !said.has(mend) && Boolean(said.add(mend))
  const lines = findings.flatMap(({ check, detail, mend, status }) => [
    `${MARKS[status]}  ${check.padEnd(width)}  ${forTerminal(detail)}`,
    ...(mend === null || !isNew(mend) ? [] : [`${' '.repeat(width + 8)}-> ${forTerminal(mend)}`]),
  ])
  return [...lines, '', `${count('ok')} ok, ${count('warn')} to look at, ${count('fail')} to fix.`].join('\n')
}

/** The finding about the key, where there is a database. */
const lookAtKey = async (asked: Invocation, config: Config): Promise<Finding[]> =>
  existsSync(join(config.data_dir, DATABASE)) ? [await withStore(asked, (store) => judgeKeyBeside(store, config))] : []

export function doctorCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('doctor')
    .description('check machine, network and DNS, each with its fix')
    .option('--probe <domain>', 'the domain whose exchangers are used to test outgoing mail', 'gmail.com')
    .option('--time-server <host:port>', 'the time server (NTP)', 'pool.ntp.org:123')
    .option('--grade <domain>', 'only this: the mail test of internet.nl for a domain, as a table with points')
    .action(async ({ grade: graded, probe, timeServer }: DoctorOptions) => {
      const asked = invocation()
      if (graded !== undefined) {
        const domain = givenName(graded)
        if (!domain?.includes('.')) throw new OperatorError(`"${graded}" is not a domain name such as example.org.`)
        const config = configOf(asked)
        return grade(config, createResolver({ servers: config.dns.servers, tries: 2 }), domain, asked.terminal)
      }
      const time = parseEndpoint(timeServer)
      if (!time?.host) throw new OperatorError(`"${timeServer}" is not a time server; write it as host:port.`)
      const config = configOf(asked)
      const world = { config, resolver: createResolver({ servers: config.dns.servers, tries: 2 }) }
      const findings = [
        judgeConfig(config, findConfig(asked) ?? 'defaults (no file was found)'),
        judgeDataDir(config),
        ...(await lookAtSetUp(asked, config)),
        judgeDisk(config),
        ...(await lookAtKey(asked, config)),
        judgeLog(config),
        judgeDate(config, systemClock.now()),
        ...(await lookAtBackups(asked, config)),
        ...judgeCertificates(config, systemClock.now()),
        ...(await judgeDomains(asked, config, world.resolver)),
        ...judgeFileSystem(config),
        ...(await judgeClients(asked, config)),
        ...(
          await Promise.all([
            judgeClock(systemClock, time),
            judgeOut(world, probe),
            judgeWayIn(world),
            judgeReverse(world),
            judgeHeloSpf(world),
            judgeDane(world),
            judgeBlocklists(world),
          ])
        ).flat(),
      ]
      answer(asked.terminal, findings, told)
      if (findings.some(({ status }) => status === 'fail')) process.exitCode = 1
    })
}
