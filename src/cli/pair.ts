// Commands for a failover pair (docs/high-availability.md): `postrider handover` ends the server so that the other
// machine can take over, and `postrider config compare` shows how the configurations of the two machines differ.
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { SECOND, systemClock } from '../base/clock.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { differences } from '../base/pair-settings.ts'
import { lockHolder, takeLock } from '../store/lock.ts'
import { holdersOf, holderText } from '../store/log.ts'
import { DATABASE } from '../store/open.ts'
import { readServing } from '../store/serving.ts'
import { configOf, settingsAlone, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'

/** A server ends within 14 s of a signal. */
const PATIENCE = 15 * SECOND
const LOOK = SECOND / 10

export function pairCommands(program: Command, invocation: () => Invocation): void {
  program
    .command('handover')
    .description('stop the server so that the other machine of a pair can take over')
    .action(async () => {
      const now = invocation()
      const { data_dir } = configOf(now)
      const seconds = (await handOver(data_dir)) / SECOND
      answer(
        now.terminal,
        { data_dir, seconds },
        () =>
          `The server stopped after ${seconds.toFixed(1)} s. Now unmount ${data_dir}, and mount it on the other machine.`,
      )
    })
  program
    .command('config')
    .description('compare configuration files')
    .command('compare')
    .description('compare the configuration with that of the other machine of a pair')
    .argument('<file>', 'the configuration file of the other machine')
    .action((file: string) => {
      const now = invocation()
      const found = differences(settingsAlone(now), settingsAlone({ configFile: file, environment: {} }))
      const text = (value: unknown): string => JSON.stringify(value)
      const line = ({ here, must_match: must, setting, there }: (typeof found)[number]): string =>
        `${must ? 'FAIL' : 'ok  '}  ${setting}: ${text(here)} here, ${text(there)} there${must ? ' (must be the same)' : ''}`
      answer(now.terminal, found, () => (found.length === 0 ? 'There are no differences.' : found.map(line).join('\n')))
      if (found.some(({ must_match: must }) => must)) process.exitCode = 1
    })
}

/** Ends the server of a data directory. Returns how long that took (ms). Throws an OperatorError. */
async function handOver(dataDir: string): Promise<number> {
  const began = systemClock.elapsed()
  const pid = lockHolder(dataDir)
  if (pid === undefined)
    throw new OperatorError(`No server runs on this machine for ${dataDir}, so there is nothing to hand over.`)
  try {
    process.kill(pid, 'SIGUSR2')
  } catch (thrown) {
    if (codeOf(thrown) !== 'EPERM') throw thrown
    throw new OperatorError('The server belongs to another user; run this command as root.', { cause: thrown })
  }
  for (;;) {
    const elapsed = systemClock.elapsed() - began
    const release = takeLock(dataDir)
    release?.()
    // After the lock, the process closes its last files, which would keep the volume in use.
    if (release && !existsSync(`/proc/${pid}`)) return checked(dataDir, elapsed)
    if (elapsed > PATIENCE)
      throw new OperatorError(`The server (process ${pid}) did not stop within ${PATIENCE / SECOND} s; see its log.`)
    await new Promise<void>((resolve) => void systemClock.wake(systemClock.now() + LOOK, resolve))
  }
}

/** Throws an OperatorError unless the server has recorded the handover, and the volume can be unmounted. */
function checked(dataDir: string, elapsed: number): number {
  if (!readServing(dataDir)?.handed_over)
    throw new OperatorError(`The server stopped, but could not record the handover in ${dataDir}; see its log.`)
  const file = join(dataDir, DATABASE)
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
  const holders = holdersOf(file).map(holderText).join(', ')
  if (log > 0)
    throw new OperatorError(
      `The server stopped, but its database is still open${holders === '' ? '' : ` in ${holders}`}; end that process before you unmount ${dataDir}.`,
    )
  return elapsed
}
