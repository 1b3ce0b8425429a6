// `postrider upgrade`: upgrades the database without starting the server (`serve` also does so when it starts), checks
// an upgrade on a copy, and rolls the last one back.
import { Option, type Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { counted } from '../base/text.ts'
import { openUpgraded } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import { freeReserve } from '../store/reserve.ts'
import { migrations } from '../store/schema/migrations.ts'
import { refuseUnused } from '../views/command/unused-options.ts'
import { configOf, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'
import { putBack } from '../store/way-back.ts'
import { findRollback, lossOf, type Loss } from './rollback.ts'
import { checkUpgrade, progressLine, runTrial, summaryOf } from './upgrade-check.ts'

interface UpgradeWishes {
  check?: true
  unsigned?: true
  rollback?: true
  discardNewData?: true
  trial?: true
}

export function upgradeCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('upgrade [file]')
    .description('upgrade the database while the server is stopped')
    .option('--check', 'check the upgrade to this version, or to that of the file, on a copy')
    .option('--unsigned', 'with --check: accept a file without a signature')
    .option('--rollback', 'roll back the last upgrade')
    .option('--discard-new-data', 'with --rollback: discard everything stored since the upgrade')
    .addOption(new Option('--trial', 'used by --check of another version').hideHelp())
    .action(async (file: string | undefined, wishes: UpgradeWishes, command: Command) => {
      if (wishes.trial) return answer(invocation().terminal, await runTrial(invocation()), JSON.stringify)
      if (wishes.check) refuseUnused(command, ['check', 'unsigned'], 'with --check')
      else if (wishes.rollback) refuseUnused(command, ['rollback', 'discardNewData'], 'with --rollback')
      else refuseUnused(command, [], 'without --check or --rollback')
      if (wishes.check) return check(invocation(), file, wishes.unsigned === true)
      if (file !== undefined)
        throw new OperatorError(
          `A file is only used with --check; run "postrider upgrade --check ${file.slice(0, 200)}" to try it, or remove it to upgrade.`,
        )
      return wishes.rollback ? back(invocation(), wishes.discardNewData === true) : upgrade(invocation())
    })
}

/** Runs work while no server uses the data directory. */
async function alone<T>(dataDir: string, otherwise: string, work: () => Promise<T>): Promise<T> {
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`A running server uses ${dataDir}; ${otherwise}`)
  try {
    // As the server does when it starts: SQLite cannot even be read on a full disk (D121).
    freeReserve(dataDir)
    return await work()
  } finally {
    release()
  }
}

async function upgrade(now: Invocation): Promise<void> {
  const { data_dir } = configOf(now)
  let from = migrations.length
  await alone(data_dir, 'stop it first, or restart it with this version, which upgrades automatically.', async () => {
    const { store } = await openUpgraded(data_dir, {
      clock: systemClock,
      migrating: (found) => (from = found),
      progress: (progress) => now.terminal.err(`postrider: ${progressLine(progress)}\n`),
    })
    store.close()
  })
  const schema = migrations.length
  answer(now.terminal, { from, schema }, () =>
    from === schema
      ? `The database already has schema ${schema}.`
      : `Upgraded the database from schema ${from} to ${schema}. The previous one is kept as postrider.db.schema-${from} for a week.`,
  )
}

async function check(now: Invocation, given: string | undefined, unsigned: boolean): Promise<void> {
  const found = await checkUpgrade(now, given, unsigned)
  answer(now.terminal, found, () => summaryOf(found))
  if (!found.ready) process.exitCode = 1
}

/** The data that would be lost, as text. Empty if no data would be lost. */
function lost({ again, erasures, events, mails, messages, settings }: Loss): string {
  const parts: readonly [number, string, string][] = [
    [mails, 'accepted email', 'accepted emails'],
    [messages, 'received message', 'received messages'],
    [events, 'event', 'events'],
    [settings, 'other row (accounts, domains, contacts, …)', 'other rows (accounts, domains, contacts, …)'],
    [erasures, 'erasure request, which the erasure log repeats', 'erasure requests, which the erasure log repeats'],
  ]
  const words = parts.filter(([count]) => count > 0).map(([count, one, more]) => counted(count, one, more))
  const twice = again > 0 ? [`${counted(again, 'recipient')} would receive an email a second time`] : []
  return [...(words.length > 0 ? [`${words.join(', ')} would be lost`] : []), ...twice].join('; ')
}

async function back(now: Invocation, lose: boolean): Promise<void> {
  const { data_dir } = configOf(now)
  await alone(data_dir, 'stop it first.', async () => {
    const rollback = findRollback(data_dir)
    const loss = await lossOf(data_dir, rollback)
    const words = lost(loss)
    if (words !== '' && !lose)
      throw new OperatorError(
        `Nothing was changed, because a rollback from schema ${rollback.from} to ${rollback.to} discards data stored since the upgrade: ${words}. Add --discard-new-data to roll back anyway.`,
      )
    putBack(data_dir, rollback.copy, rollback.from)
    const version = rollback.version ?? null
    answer(now.terminal, { from: rollback.from, schema: rollback.to, version, lost: loss }, () =>
      [
        `Rolled the database back to schema ${rollback.to}. The newer one is kept as postrider.db.schema-${rollback.from} for a week.`,
        `Start ${version === null ? 'the version from before the upgrade' : `version ${version}`} now, because this version would upgrade it again.`,
        ...(words === '' ? [] : [`Discarded: ${words}.`]),
      ].join('\n'),
    )
  })
}
