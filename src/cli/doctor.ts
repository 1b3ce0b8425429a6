// `postrider doctor`: what stands between this server and mail that arrives, each with its mend.
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { parseEndpoint } from '../base/network.ts'
import { createResolver } from '../base/resolver.ts'
import { judgeCertificate, judgeClock, judgeConfig, judgeDataDir, judgeDisk, type Finding } from './doctor-machine.ts'
import { judgeBlocklists, judgeHeloSpf, judgeReverse, judgeWayIn, judgeWayOut } from './doctor-network.ts'
import { configOf, findConfig, type Invocation } from './open.ts'
import { answer } from './terminal.ts'

interface Options {
  probe: string
  timeServer: string
}

const MARKS: Record<Finding['status'], string> = { ok: 'ok  ', warn: 'WARN', fail: 'FAIL' }

/** A line for each, and below it what to do. */
function told(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const count = (status: Finding['status']): number => findings.filter((each) => each.status === status).length
  const lines = findings.flatMap(({ check, detail, mend, status }) => [
    `${MARKS[status]}  ${check.padEnd(width)}  ${detail}`,
    ...(mend === null ? [] : [`${' '.repeat(width + 8)}-> ${mend}`]),
  ])
  return [...lines, '', `${count('ok')} ok, ${count('warn')} to look at, ${count('fail')} to mend.`].join('\n')
}

export function doctorCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('doctor')
    .description('check machine, network and DNS, each with its mend')
    .option('--probe <domain>', 'whose exchangers are asked for an answer on the way out', 'gmail.com')
    .option('--time-server <host:port>', 'who knows the time (NTP)', 'pool.ntp.org:123')
    .action(async ({ probe, timeServer }: Options) => {
      const asked = invocation()
      const time = parseEndpoint(timeServer)
      if (!time?.host) throw new OperatorError(`"${timeServer}" is no time server; write it as host:port.`)
      const config = configOf(asked)
      const world = { config, resolver: createResolver({ servers: config.dns.servers, tries: 2 }) }
      const findings = [
        judgeConfig(config, findConfig(asked)),
        judgeDataDir(config),
        judgeDisk(config),
        judgeCertificate(config, systemClock.now()),
        ...(await Promise.all([
          judgeClock(systemClock, time),
          judgeWayOut(world, probe),
          judgeWayIn(world),
          judgeReverse(world),
          judgeHeloSpf(world),
          judgeBlocklists(world),
        ])),
      ]
      answer(asked.terminal, findings, told)
      if (findings.some(({ status }) => status === 'fail')) process.exitCode = 1
    })
}
