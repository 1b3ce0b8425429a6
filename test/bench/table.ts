// `npm run bench -- table`: the rows of the table in docs/performance.md, each in turn with its peer, medians of five
// rounds, in Markdown. `--only NAME` runs one of them.
import { loadavg } from 'node:os'
import { campaigned, WIRE_BYTES } from './campaign.ts'
import { withBoth } from './inbound.ts'
import { machine } from './machine.ts'
import { LARGE, paced, posted, relayed, SMALL } from './outbound.ts'
import { missing } from './peer/postfix.ts'
import { withWays } from './submission.ts'
import { inTurn, tell, type Round } from './turns.ts'

const BENCH = 'table'
const HEAD = `| what | Postrider: a second | peer: a second | times | CPU for a mail: Postrider | peer | written for a mail: Postrider | peer |
|---|---|---|---|---|---|---|---|`

/** The results of both sides, one pair for each way to submit the same email. */
type Pair = [ours: Round, theirs: Round]

export interface TableOptions {
  count: number
  rounds: number
}

const ROWS: Record<string, (options: TableOptions) => Promise<string[]>> = {
  async outbound({ count, rounds }) {
    const sides = { ours: () => posted(count, SMALL), theirs: () => relayed(count, SMALL) }
    return [row('outbound', 'outbound, 4 KB, against Postfix with OpenDKIM', [await pair(rounds, sides)])]
  },
  async large({ count, rounds }) {
    const fewer = Math.ceil(count / 3)
    const sides = { ours: () => posted(fewer, LARGE), theirs: () => relayed(fewer, LARGE) }
    return [row('large', 'outbound, 100 KB, against Postfix with OpenDKIM', [await pair(rounds, sides)])]
  },
  async campaign({ count, rounds }) {
    const sides = {
      ours: () => campaigned(3 * count, false),
      theirs: () => relayed(count, { wireBytes: WIRE_BYTES }),
    }
    return [row('campaign', 'campaign, letters of 14 KB, against Postfix with OpenDKIM', [await pair(rounds, sides)])]
  },
  inbound: ({ count, rounds }) =>
    withBoth(async ({ ours, theirs }) => {
      const pairs: Pair[] = []
      for (const reconnect of [true, false])
        pairs.push(await pair(rounds, { ours: () => ours(count, reconnect), theirs: () => theirs(count, reconnect) }))
      const against = 'a connection each; kept, against Postfix'
      return [
        row('inbound', `inbound, accepted, ${against}`, pairs, 'acceptedPerSecond'),
        row('inbound', `inbound, settled (it can be read), ${against}`, pairs),
      ]
    }),
  submission: ({ count, rounds }) =>
    withWays(['smtp', 'post_with_tls'], async (round) => {
      const sides = { ours: () => round('smtp', count), theirs: () => round('post_with_tls', count) }
      return [row('submission', 'submission with TLS, against our own posts with TLS', [await pair(rounds, sides)])]
    }),
  async latency({ rounds }) {
    const all: Awaited<ReturnType<typeof paced>>[] = []
    for (let turn = 0; turn < rounds; turn++) all.push(await paced())
    const [p50, p99] = (['p50', 'p99'] as const).map(
      (name) => all.map((each) => each[name]).toSorted((a, b) => a - b)[Math.floor(rounds / 2)]!,
    )
    return [`| 201 at 400 posts a second (${all[0]!.generator}): p50; p99 | ${ms(p50)}; ${ms(p99)} | | | | | | |`]
  },
}

export async function table(options: TableOptions, only: readonly string[]): Promise<void> {
  const absent = missing()
  if (absent.length > 0) throw new Error(`not installed: ${absent.join(', ')}; run test/interop/setup.sh as root`)
  const names = only.length > 0 ? only : Object.keys(ROWS)
  const load = loadavg()[0]!
  const rows: string[] = []
  for (const name of names) {
    const run = ROWS[name]
    if (!run) throw new Error(`There is no row "${name}"; there are ${Object.keys(ROWS).join(', ')}.`)
    const done = await run(options)
    // A later row may be interrupted.
    console.log(done.join('\n'))
    rows.push(...done)
  }
  const what = only.map((name) => ` --only ${name}`).join('')
  console.log(
    `\n${machine()}; load of the machine before: ${load.toFixed(1)}; medians of ${options.rounds} rounds in turn: ` +
      `\`npm run bench -- table --count ${options.count} --rounds ${options.rounds}${what}\`\n\n${HEAD}\n${rows.join('\n')}`,
  )
}

async function pair(
  rounds: number,
  sides: { ours: () => Promise<Round>; theirs: () => Promise<Round> },
): Promise<Pair> {
  const { ours, theirs } = await inTurn(rounds, sides)
  return [ours, theirs]
}

const number = (value: number | undefined): string =>
  value === undefined ? '-' : Number(value.toPrecision(4)).toLocaleString('en', { maximumFractionDigits: 0 })
const ms = (value: number | undefined): string => (value === undefined ? '-' : `${value.toFixed(2)} ms`)
const kb = (value: number): string => `${value.toFixed(1)} KB`

/** A row of the table. All figures are printed before it, one a line. */
function row(
  name: string,
  title: string,
  pairs: readonly Pair[],
  speed: 'perSecond' | 'acceptedPerSecond' = 'perSecond',
): string {
  for (const [index, [ours, theirs]] of pairs.entries()) {
    const kind = pairs.length > 1 ? `${name}_${index === 0 ? 'each' : 'kept'}` : name
    if (speed === 'perSecond') {
      tell(BENCH, `${kind}_ours`, ours)
      tell(BENCH, `${kind}_peer`, theirs)
    }
  }
  const cell = (of: (pair: Pair) => string): string => pairs.map(of).join('; ')
  return `| ${[
    title,
    cell(([ours]) => number(ours[speed])),
    cell(([, theirs]) => number(theirs[speed])),
    cell(([ours, theirs]) => (ours[speed]! / theirs[speed]!).toFixed(2)),
    cell(([ours]) => ms(ours.cpuMs)),
    cell(([, theirs]) => ms(theirs.cpuMs)),
    cell(([ours]) => kb(ours.writtenKb)),
    cell(([, theirs]) => kb(theirs.writtenKb)),
  ].join(' | ')} |`
}
