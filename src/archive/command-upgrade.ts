// `postrider upgrade`: migrates the database of an older version without starting the server (`serve` also migrates it,
// at its start), says beforehand what an upgrade would do, and leads back from one.
import { Option, type Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { openUpgraded } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import { giveUpRoom } from '../store/room.ts'
import { migrations } from '../schema/migrations.ts'
import type { UpgradeProgress } from '../store/upgrade.ts'
import { configOf, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'
import { findWayBack, goBack, lossOf, type Loss } from './upgrade-back.ts'
import { checkUpgrade, summaryOf } from './upgrade-check.ts'
import type { Trial } from './upgrade-trial.ts'

interface UpgradeWishes {
  check?: true
  unsigned?: true
  back?: true
  lose?: true
  trial?: true
}

/** `trial`: what a check of another version runs of this one. */
export function upgradeCommand(
  program: Command,
  invocation: () => Invocation,
  trial: (now: Invocation) => Promise<Trial>,
): void {
  program
    .command('upgrade [file]')
    .description('bring the database up to this version, with a copy of it as it was; the server must be stopped')
    .option(
      '--check',
      'try another version, that of the file, or this one on a copy of the data, beside the running server; nothing is changed',
    )
    .option('--unsigned', 'with --check: a file without a signature will do')
    .option('--back', 'put the copy from before the last upgrade back')
    .option('--lose', 'with --back: although that loses what came since')
    .addOption(new Option('--trial', 'what --check of another version runs of this one').hideHelp())
    .action(async (file: string | undefined, wishes: UpgradeWishes) => {
      if (wishes.trial) return answer(invocation().terminal, await trial(invocation()), JSON.stringify)
      if (wishes.check) return check(invocation(), file, wishes.unsigned === true)
      if (file !== undefined)
        throw new OperatorError(
          `${file.slice(0, 200)} is only tried, by "upgrade --check FILE"; leave it out to upgrade.`,
        )
      return wishes.back ? back(invocation(), wishes.lose === true) : upgrade(invocation())
    })
}

/** Runs work while no server has the data directory. */
async function alone<T>(dataDir: string, otherwise: string, work: () => Promise<T>): Promise<T> {
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`A server uses ${dataDir}; ${otherwise}`)
  try {
    // As a server does at its start: on a full disk SQLite could not even be read (D121).
    giveUpRoom(dataDir)
    return await work()
  } finally {
    release()
  }
}

/** A line a second on stderr. */
export const progressLine = ({ doing, done, of, seconds }: UpgradeProgress): string =>
  doing === 'copy'
    ? `copying the database as it is: ${of === 0 ? 0 : Math.floor((done / of) * 100)} % (${seconds} s)`
    : doing === 'migration'
      ? `step ${done + 1} of ${of} (${seconds} s)`
      : `writing the database again, so that it gives space back (${seconds} s)`

async function upgrade(now: Invocation): Promise<void> {
  const { data_dir } = configOf(now)
  let from = migrations.length
  await alone(data_dir, 'stop it first, or restart it with this version: it upgrades by itself.', async () => {
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
      ? `The database has schema ${schema} already.`
      : `The database went from schema ${from} to ${schema}; as it was before it lies beside it as postrider.db.schema-${from} for a week.`,
  )
}

async function check(now: Invocation, given: string | undefined, unsigned: boolean): Promise<void> {
  const found = await checkUpgrade(now, given, unsigned)
  answer(now.terminal, found, () => summaryOf(found))
  if (!found.ready) process.exitCode = 1
}

/** What would be lost, in words; empty when nothing was promised since. */
function lost({ again, erasures, events, mails, messages, settings }: Loss): string {
  const counted: readonly [number, string, string][] = [
    [mails, 'mail that was accepted', 'mails that were accepted'],
    [messages, 'message that was received', 'messages that were received'],
    [events, 'event', 'events'],
    [
      settings,
      'other row (accounts, domains, contacts and so on)',
      'other rows (accounts, domains, contacts and so on)',
    ],
    [erasures, 'request to erase, which the ledger repeats', 'requests to erase, which the ledger repeats'],
  ]
  const words = counted
    .filter(([count]) => count > 0)
    .map(([count, one, more]) => `${count} ${count === 1 ? one : more}`)
  const twice = again > 0 ? [`${again} ${again === 1 ? 'recipient' : 'recipients'} would get mail a second time`] : []
  return [...(words.length > 0 ? [`lost would be ${words.join(', ')}`] : []), ...twice].join('; ')
}

async function back(now: Invocation, lose: boolean): Promise<void> {
  const { data_dir } = configOf(now)
  await alone(data_dir, 'stop it first.', async () => {
    const way = findWayBack(data_dir)
    const loss = await lossOf(data_dir, way)
    const words = lost(loss)
    if (words !== '' && !lose)
      throw new OperatorError(
        `Nothing was changed, for since the upgrade from schema ${way.to} to ${way.from} others rely on what this would undo: ${words}. Add --lose to go back all the same.`,
      )
    goBack(data_dir, way)
    const version = way.version ?? null
    answer(now.terminal, { from: way.from, schema: way.to, version, lost: loss }, () =>
      [
        `The database has schema ${way.to} again; the newer one lies beside it as postrider.db.schema-${way.from} for a week.`,
        `Start ${version === null ? 'the version from before the upgrade' : `version ${version}`}: this one would upgrade it again.`,
        ...(words === '' ? [] : [`As asked: ${words}.`]),
      ].join('\n'),
    )
  })
}
