// Parses mutations in a thread of its own, and says what each cost in CPU time of the thread.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { serveJobs } from '../../src/base/threads/jobs.ts'
import { threadSlowness } from '../kit/cost.ts'
import { mutate } from './mutate.ts'
import { PARSERS } from './parsers.ts'

export interface Lot {
  parser: string
  from: number
  to: number
  octets: number
}

export interface Finding {
  seed: number
  what: string
}

export interface Done {
  findings: Finding[]
  parsed: number
  /** The dearest octet against that of plain text. */
  worst: number
}

/**
 * What takes more CPU time than this, and for each octet more than RATIO times what plain text costs the same parser,
 * is looked at: four times the octets may cost GROWTH times as much (linear: 4, quadratic: 16), and no input may
 * cost MOST_MS. The least of several runs counts, so that a busy machine or a pause of the garbage collector
 * is not a finding. Milliseconds are those of the machine that test/kit/cost.ts names: on a slower or a faster one, the
 * same mutations are findings.
 */
const FLOOR_MS = 100
const RATIO = 200
const GROWTH = 8
const MOST_MS = 5000
const RUNS = 4
const HEAP = 512 * 1024 * 1024

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const slowness = threadSlowness()

const PLAIN = 'From: ann@there.test\r\nSubject: plain\r\n\r\nThis is a line of plain text for a person to read.\r\n'

/** CPU time of a run, in ms of the machine of the limits. */
async function cost(parser: string, bytes: Buffer): Promise<{ ms: number; thrown?: unknown }> {
  const { declared = () => false, parse } = PARSERS[parser]!
  const before = process.threadCpuUsage()
  let thrown: unknown
  try {
    await parse(bytes)
  } catch (error) {
    if (!declared(error)) thrown = error
  }
  const { system, user } = process.threadCpuUsage()
  const ms = (user - before.user + system - before.system) / 1000 / slowness
  return thrown === undefined ? { ms } : { ms, thrown }
}

async function leastCost(parser: string, bytes: Buffer): Promise<number> {
  const costs: number[] = []
  for (let n = 0; n < RUNS; n++) costs.push((await cost(parser, bytes)).ms)
  return Math.min(...costs)
}

/** Four times the octets, with the same beginning and end: a header stays one header. */
function stretched(bytes: Buffer): Buffer {
  const [from, to] = [Math.floor(bytes.length / 4), Math.floor((bytes.length * 3) / 4)]
  const middle = bytes.subarray(from, to)
  return Buffer.concat([bytes.subarray(0, from), ...Array.from({ length: 7 }, () => middle), bytes.subarray(to)])
}

/** What is wrong with the time that these octets take, if anything. */
async function tooDear(parser: string, bytes: Buffer, plain: number): Promise<string | undefined> {
  const once = await leastCost(parser, bytes)
  const ratio = once / bytes.length / plain
  if (once <= FLOOR_MS || ratio <= RATIO) return undefined
  const larger = [Buffer.concat([bytes, bytes, bytes, bytes]), stretched(bytes)]
  const growth = Math.max(await leastCost(parser, larger[0]!), await leastCost(parser, larger[1]!)) / once
  if (growth <= GROWTH && once <= MOST_MS) return undefined
  const figures = `${Math.round(ratio)} times plain text, ${growth.toFixed(1)} times as much for four times the octets`
  return `${Math.round(once)} ms for ${bytes.length} octets: ${figures}`
}

const plainCosts = new Map<string, number>()

/** CPU time of an octet of plain text, in ms. */
async function plainCost(parser: string): Promise<number> {
  const known = plainCosts.get(parser)
  if (known !== undefined) return known
  const bytes = Buffer.from(PLAIN.repeat(500))
  const costs: number[] = []
  for (let n = 0; n < 5; n++) costs.push((await cost(parser, bytes)).ms / bytes.length)
  const least = Math.max(Math.min(...costs), 1e-6)
  plainCosts.set(parser, least)
  return least
}

/** Octets of the heap that are still in use after a collection, where they are more; 0 where they are not. */
function heldAbove(octets: number): number {
  if (process.memoryUsage().heapUsed <= octets) return 0
  collect()
  const { heapUsed } = process.memoryUsage()
  return heapUsed > octets ? heapUsed : 0
}

async function run({ from, octets, parser, to }: Lot): Promise<Done> {
  const seeds = PARSERS[parser]!.seeds(octets)
  const plain = await plainCost(parser)
  const done: Done = { findings: [], parsed: 0, worst: 0 }
  for (let seed = from; seed < to; seed++) {
    const bytes = mutate(seeds[seed % seeds.length]!, seeds[(seed * 7) % seeds.length]!, seed)
    const { ms, thrown } = await cost(parser, bytes)
    done.parsed++
    const ratio = ms / bytes.length / plain
    if (ms > FLOOR_MS) done.worst = Math.max(done.worst, ratio)
    if (thrown !== undefined)
      done.findings.push({ seed, what: thrown instanceof Error ? (thrown.stack ?? thrown.message) : 'no Error' })
    else if (ms > FLOOR_MS && ratio > RATIO) {
      const what = await tooDear(parser, bytes, plain)
      if (what !== undefined) done.findings.push({ seed, what })
    }
    const held = heldAbove(HEAP)
    if (held > 0) done.findings.push({ seed, what: `${held} octets of heap` })
  }
  return done
}

serveJobs(run, { lot: 1 })
