// `postrider warmup …`: what each source address may send to a receiver in a day, and what an operator sets. It acts
// within a second beside a running server.
import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { givenName } from '../message/address.ts'
import { providerNamed } from '../smtp/shaping.ts'
import { shapingRules, useShaping } from '../smtp/shaping-file.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { sourceNames } from './begin.ts'
import { TOTAL } from './ladder.ts'
import { isTurnedOff, pairIn, type Pair } from './pairs.ts'
import { setPair, turn, type Setting } from './settings.ts'
import { historyOfPair, NO_PAIR, receiversOf, shownWarmups, type ShownWarmup } from './shown.ts'

interface Chosen {
  source?: string
  all?: true
}

export function warmupCommand(program: Command, invocation: () => Invocation): void {
  const warmup = program
    .command('warmup')
    .description('how many recipients a day a receiver gets from a source address that is new to it')
  show(warmup, invocation)
  fix(warmup, invocation)
  move(warmup, invocation)
  switches(warmup, invocation)
}

/** Runs with the rules of the shaping files in force. */
const withRules = <T>(invocation: Invocation, work: (deps: Deps) => Promise<T> | T): Promise<T> =>
  withDeps(invocation, (deps) => {
    useShaping(deps.config.delivery.shaping)
    return work(deps)
  })

/** Who types: with sudo, whoever called it. */
const typist = ({ environment }: Invocation): string =>
  `${environment['SUDO_USER'] || userInfo().username} (command line)`

function show(warmup: Command, invocation: () => Invocation): void {
  warmup
    .command('show')
    .description('list what each receiver gets from each source address: allowed today, used, left, waiting')
    .option('--source <address>', 'from this source address only')
    .option('--receiver <name>', 'to this receiver only')
    .action(({ receiver, source }: { source?: string; receiver?: string }) =>
      withRules(invocation(), (deps) => {
        const { clock, config, store } = deps
        const rows = shownWarmups(deps, clock.now(), {
          source: source === undefined ? undefined : [source],
          receiver: receiver === undefined ? undefined : [receiverCalled(store, receiver)],
        })
        const off = !config.warmup.enabled || isTurnedOff(store)
        answer(invocation().terminal, documentsOf(store, rows, clock.now()), () =>
          [...(off ? ['Warm-up is off: nothing is held back.', ''] : []), textOf(rows)].join('\n'),
        )
      }),
    )
}

/** Rows with the members of the API. */
const documentsOf = (reader: Reader, rows: readonly ShownWarmup[], now: number) =>
  rows.map(({ key, next_at, since, ...row }) => ({
    ...row,
    since: iso(since),
    next_at: next_at === null ? null : iso(next_at),
    history: historyOfPair(reader, key, now, row.allowance),
  }))

const textOf = (rows: readonly ShownWarmup[]): string =>
  rows.length === 0
    ? NO_PAIR
    : table(
        ['SOURCE', 'RECEIVER', 'STATE', 'ALLOWED', 'USED', 'LEFT', 'WAITING', 'REASON'],
        rows.map((row) => [
          row.source,
          row.receiver === TOTAL ? '* (all)' : row.receiver,
          row.state,
          row.allowance ?? 'no limit',
          row.used,
          row.left ?? 'no limit',
          row.waiting,
          row.reason ?? '',
        ]),
      )

function fix(warmup: Command, invocation: () => Invocation): void {
  warmup
    .command('set <receiver>')
    .description('fix how many recipients a day a receiver gets; "*" is the total of a source address')
    .requiredOption('--allowance <number>', 'recipients a day')
    .option('--source <address>', 'from this source address only')
    .action((receiver: string, { allowance, source }: Chosen & { allowance: string }) => {
      if (!/^\d{1,9}$/.test(allowance))
        throw new OperatorError(`"${allowance}" is not a number of recipients such as 500.`)
      return act(invocation(), { receiver, source }, { fix: Number(allowance) })
    })
}

function move(warmup: Command, invocation: () => Invocation): void {
  for (const [name, about] of [
    ['skip', 'let mail to a receiver go without a limit'],
    ['restart', 'begin again at the first step, also after "set" and "skip"'],
  ] as const)
    warmup
      .command(`${name} [receiver]`)
      .description(about)
      .option('--all', 'every receiver and source address')
      .option('--source <address>', 'from this source address only')
      .action((receiver: string | undefined, { all, source }: Chosen) => {
        if ((receiver === undefined) === (all === undefined))
          warmup.error(`Say which: "postrider warmup ${name} RECEIVER" or "--all".`, { exitCode: 2 })
        return act(invocation(), { receiver, source }, name)
      })
}

/** Sets the pairs that are meant, and answers with them. */
function act(
  invocation: Invocation,
  { receiver, source }: { receiver: string | undefined; source: string | undefined },
  setting: Setting,
): Promise<void> {
  return withRules(invocation, async (deps) => {
    const { clock, store } = deps
    const pairs = receiver === undefined ? everyPair(store, source) : namedPairs(deps, receiver, source)
    if (pairs.length === 0)
      throw new OperatorError('No mail has left yet, so there is nothing to change; name a receiver to set it before.')
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

/** The pairs of a receiver: with the named source, else with every one. Throws an OperatorError. */
function namedPairs({ config, store }: Deps, receiver: string, source: string | undefined): Pair[] {
  const known = store.all(db.selectFrom('warmup_sources').select('source'))
  const sources = known.length > 0 ? known.map((each) => each.source) : sourceNames(config)
  if (source !== undefined && !sources.includes(source))
    throw new OperatorError(`This server does not send from ${source}; it sends from ${sources.join(', ')}.`)
  const name = receiverCalled(store, receiver)
  return (source === undefined ? sources : [source]).map((each) => ({ source: each, receiver: name }))
}

/** A provider by its name, or the receiver of a domain, as far as mail has shown it. Throws an OperatorError. */
function receiverCalled(reader: Reader, given: string): string {
  if (given === TOTAL) return TOTAL
  const provider = providerNamed(given)
  if (provider) return provider.name
  const domain = givenName(given)
  if (domain?.includes('.')) return receiversOf(reader, [domain]).get(domain) || domain
  const names = shapingRules().provider.map(({ name }) => name)
  throw new OperatorError(`"${given}" is neither a domain such as example.net nor a provider: ${names.join(', ')}.`)
}

function switches(warmup: Command, invocation: () => Invocation): void {
  for (const on of [true, false])
    warmup
      .command(on ? 'on' : 'off')
      .description(on ? 'let the limits count again' : 'hold nothing back; what was learned is kept')
      .action(() =>
        withDeps(invocation(), async ({ clock, config, store }) => {
          if (on && !config.warmup.enabled)
            throw new OperatorError('The configuration says "warmup.enabled = false"; remove it first.')
          const changed = await store.write((tx) => turn(tx, on, typist(invocation()), clock.now()))
          answer(invocation().terminal, { on, changed }, () =>
            changed ? `Warm-up is ${on ? 'on' : 'off'}.` : `Warm-up was ${on ? 'on' : 'off'} already.`,
          )
        }),
      )
}
