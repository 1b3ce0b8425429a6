// `npm run test:mutations`: seeded mutations on every parser of strangers' octets. Each must throw nothing but what it
// declares, take CPU time that grows with the octets, and stay within memory. What is found is told with its seed, and
// is the same on every machine. POSTRIDER_MUTATIONS is how many for each parser (1,200), POSTRIDER_MUTATION_SECONDS how
// long at most (0: until all are done), POSTRIDER_MUTATION_SEED the first, POSTRIDER_MUTATION_PARSER the only parser.
import { Pool, TookTooLong } from '../../src/base/threads/pool.ts'
import { threadSlowness } from '../kit/cost.ts'
import { PARSERS } from './parsers.ts'
import type { Done, Lot } from './worker.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const MANY = Number(process.env['POSTRIDER_MUTATIONS'] ?? 1200)
const SECONDS = Number(process.env['POSTRIDER_MUTATION_SECONDS'] ?? 0)
const FIRST = Number(process.env['POSTRIDER_MUTATION_SEED'] ?? 1)
const ONLY = process.env['POSTRIDER_MUTATION_PARSER']
const LOT = 100
/** CPU time in ms for a lot: a thousand times what it takes. */
const CPU = 60_000 * Math.max(1, threadSlowness())
/** Most are small, some large enough to show what grows faster than it should. */
const SIZES = [200, 200, 1000, 1000, 4000, 32_000]

// Databases of parsers that need one lie there: worker threads take over the environment.
const place = temporaryDirectory('mutations')
process.env['TMPDIR'] = place

const pool = new Pool<Lot, Done>(new URL('worker.ts', import.meta.url), { size: 2, cpu: CPU, heapMb: 1024 })
const end = SECONDS === 0 ? Infinity : performance.now() + SECONDS * 1000
const counts = new Map<string, { parsed: number; worst: number; found: number }>()

async function lot(parser: string, n: number): Promise<void> {
  const from = FIRST + n * LOT
  const count = counts.get(parser) ?? { parsed: 0, worst: 0, found: 0 }
  counts.set(parser, count)
  try {
    const octets = SIZES[n % SIZES.length]!
    const { findings, parsed, worst } = await pool.run({ parser, from, to: from + LOT, octets })
    count.parsed += parsed
    count.worst = Math.max(count.worst, worst)
    count.found += findings.length
    for (const { seed, what } of findings) console.error(`${parser}, seed ${seed} of ${octets} octets: ${what}`)
  } catch (thrown) {
    count.found++
    const how = thrown instanceof TookTooLong ? 'without end' : String(thrown)
    console.error(`${parser}, seeds from ${from}: ${how}`)
  }
}

for (let n = 0; n * LOT < MANY && performance.now() < end; n++) {
  const parsers = Object.keys(PARSERS).filter((name) => ONLY === undefined || name === ONLY)
  for (let at = 0; at < parsers.length; at += 2)
    await Promise.all(parsers.slice(at, at + 2).map((parser) => lot(parser, n)))
}
await pool.close()
for (const [parser, count] of counts) console.log(JSON.stringify({ parser, ...count, worst: Math.round(count.worst) }))
process.exitCode = [...counts.values()].some(({ found }) => found > 0) ? 1 : 0
