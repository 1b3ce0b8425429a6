// `postrider warmup …`: shows and sets daily limits. A running server applies a change within a second.
import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { givenName } from '../message/address.ts'
import { providerNamed, shapingRules, useShaping } from '../smtp/shaping.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { pairIn, receiversOf, type Pair } from './pairs.ts'
import { TOTAL } from './schedule.ts'
import { setPair, type Setting } from './settings.ts'
import { historyOfPair, NO_PAIR, shownWarmups, type ShownWarmup } from './shown.ts'
import { sourceNames } from './sources.ts'

interface Chosen {
  source?: string
  all?: true
}

export function warmupCommand(program: Command, invocation: () => Invocation): void {
  const warmup = program.command('warmup').description('manage the daily limits of new sending IP addresses')
  show(warmup, invocation)
  fix(warmup, invocation)
  move(warmup, invocation)
}

/** Runs with the rules of the shaping files in force. */
const withRules = <T>(invocation: Invocation, work: (deps: Deps) => Promise<T> | T): Promise<T> =>
  withDeps(invocation, (deps) => {
    useShaping(deps.config.delivery.shaping)
    return work(deps)
  })

/** The user who runs the command, even with sudo. */
const typist = ({ environment }: Invocation): string =>
  `${environment['SUDO_USER'] || userInfo().username} (command line)`

function show(warmup: Command, invocation: () => Invocation): void {
  warmup
    .command('show')
    .description('show daily limits and their use, by sending IP and receiver')
    .option('--source <address>', 'only this sending IP address')
    .option('--receiver <name>', 'only this receiver')
    .action(({ receiver, source }: { source?: string; receiver?: string }) =>
      withRules(invocation(), (deps) => {
        const { clock, config, store } = deps
        const rows = shownWarmups(deps, clock.now(), {
          source: source === undefined ? undefined : [source],
          receiver: receiver === undefined ? undefined : [receiverCalled(store, receiver)],
        })
        const off = !config.warmup.enabled
        answer(invocation().terminal, documentsOf(store, rows, clock.now()), () =>
          [...(off ? ['Warm-up is off; there are no daily limits.', ''] : []), textOf(rows)].join('\n'),
        )
      }),
    )
}

/** Rows with the attributes of the API. */
const documentsOf = (reader: Reader, rows: readonly ShownWarmup[], now: number) =>
  rows.map(({ key, next_at, since, ...row }) => ({
    ...row,
    since: iso(since),
    next_at: next_at === null ? null : iso(next_at),
    history: historyOfPair(reader, key, now, row.daily_limit),
  }))

const textOf = (rows: readonly ShownWarmup[]): string =>
  rows.length === 0
    ? NO_PAIR
    : table(
        ['SENDING IP', 'RECEIVER', 'STATE', 'DAILY LIMIT', 'USED', 'REMAINING', 'QUEUED', 'REASON'],
        rows.map((row) => [
          row.source,
          row.receiver === TOTAL ? '* (all)' : row.receiver,
          row.state,
          row.daily_limit ?? 'unlimited',
          row.used,
          row.remaining ?? 'unlimited',
          row.waiting,
          row.reason ?? '',
        ]),
      )

function fix(warmup: Command, invocation: () => Invocation): void {
  warmup
    .command('set <receiver>')
    .description('set a daily limit ("*": for all receivers together)')
    .requiredOption('--daily-limit <number>', 'recipients per day')
    .option('--source <address>', 'only this sending IP address')
    .action((receiver: string, { dailyLimit, source }: Chosen & { dailyLimit: string }) => {
      if (!/^\d{1,9}$/.test(dailyLimit))
        throw new OperatorError(`--daily-limit "${dailyLimit}" is not a number; use one such as 500.`)
      return act(invocation(), { receiver, source }, { fix: Number(dailyLimit) })
    })
}

function move(warmup: Command, invocation: () => Invocation): void {
  for (const [name, about] of [
    ['skip', 'remove the daily limit of a receiver'],
    ['restart', 'restart the warm-up schedule of a receiver at its first step'],
  ] as const)
    warmup
      .command(`${name} [receiver]`)
      .description(about)
      .option('--all', 'all receivers and sending IP addresses')
      .option('--source <address>', 'only this sending IP address')
      .action((receiver: string | undefined, { all, source }: Chosen) => {
        if ((receiver === undefined) === (all === undefined))
          warmup.error(
            `Give either a receiver or --all; use "postrider warmup ${name} RECEIVER" or "postrider warmup ${name} --all".`,
            { exitCode: 2 },
          )
        return act(invocation(), { receiver, source }, name)
      })
}

/** Sets the chosen pairs and prints them. */
function act(
  invocation: Invocation,
  { receiver, source }: { receiver: string | undefined; source: string | undefined },
  setting: Setting,
): Promise<void> {
  return withRules(invocation, async (deps) => {
    const { clock, store } = deps
    const pairs = receiver === undefined ? everyPair(store, source) : namedPairs(deps, receiver, source)
    if (pairs.length === 0)
      throw new OperatorError('No email has been sent yet; name a receiver to change its limit in advance.')
    const now = clock.now()
    const changed = await store.write((tx) =>
      pairs.flatMap((pair) => {
        const row = pairIn(tx, pair, now)
        return setPair({ ...deps, noticed: deps.ring, tx, now }, row, setting, typist(invocation)) ? [row.key] : []
      }),
    )
    const rows = shownWarmups(deps, clock.now()).filter(({ key }) => changed.includes(key))
    answer(invocation.terminal, documentsOf(store, rows, now), () => textOf(rows))
  })
}

const everyPair = (reader: Reader, source: string | undefined): Pair[] => {
  const pairs = db.selectFrom('warmups').select(['source', 'receiver'])
  return reader.all(source === undefined ? pairs : pairs.where('source', '=', source))
}

/** The pairs of a receiver with one source, or with all. Throws an OperatorError. */
function namedPairs({ config, store }: Deps, receiver: string, source: string | undefined): Pair[] {
  const known = store.all(db.selectFrom('warmup_sources').select('source'))
  const sources = known.length > 0 ? known.map((each) => each.source) : sourceNames(config)
  if (source !== undefined && !sources.includes(source))
    throw new OperatorError(`This server does not send from ${source}; use one of ${sources.join(', ')}.`)
  const name = receiverCalled(store, receiver)
  return (source === undefined ? sources : [source]).map((each) => ({ source: each, receiver: name }))
}

/** A provider by its name, or the receiver of a domain if it is known. Throws an OperatorError. */
function receiverCalled(reader: Reader, given: string): string {
  if (given === TOTAL) return TOTAL
  const provider = providerNamed(given)
  if (provider) return provider.name
  const domain = givenName(given)
  if (domain?.includes('.')) return receiversOf(reader, [domain]).get(domain) || domain
  const names = shapingRules().provider.map(({ name }) => name)
  throw new OperatorError(
    `"${given}" is not a receiver; use a domain such as example.net, or one of ${names.join(', ')}.`,
  )
}
