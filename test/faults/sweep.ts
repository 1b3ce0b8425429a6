// Runs the sweep in this process: each scenario, each way of failing, each n until no call is left that could fail. The
// last line that it prints is its result as JSON.
//
//   node test/faults/sweep.ts '{"scenarios": ["post"], "every": true}'
import { rmSync } from 'node:fs'
import { control, ROOT } from './layer.ts'
import { open, strays, wrong } from './demands.ts'
import type { Plan } from './plan.ts'
import { killEverywhere } from './kills.ts'
import { goOn, SCENARIOS, type Scenario } from './scenarios.ts'
import { Stage } from './stage.ts'
import { makeWorld, type World } from './world.ts'
import { seeded } from '../kit/seeded.ts'
import { messageOf } from '../../src/base/errors.ts'

export interface Asked {
  /** By name. All when left out. */
  scenarios?: string[]
  /** Every n, in long scenarios every k-th, so that there are at most `most` of one way. Otherwise a sample. */
  every?: boolean
  /** Infinity by default. */
  most?: number
  /** Of the sample, and of where every k-th begins. */
  seed?: number
  /** How many ways of each scenario are drawn for the sample, each with one n, and kills. */
  sample?: number
  /** Only these ways, such as "sqlite full". */
  ways?: string[]
  /** Only this n. */
  n?: number
}

export interface Finding {
  scenario: string
  way: string
  n: number
  /** The call that failed. */
  call: string
  what: string[]
  logged: string[]
}

export interface Result {
  runs: number
  points: number
  findings: Finding[]
}

export interface Way extends Omit<Plan, 'n'> {
  /** The failure is repaired and the server restarted immediately, before it becomes idle. */
  restart?: boolean
}

const WAYS: readonly Way[] = [
  { family: 'sqlite', kind: 'ioerr', lasting: false },
  { family: 'sqlite', kind: 'ioerr', lasting: true },
  { family: 'sqlite', kind: 'ioerr', lasting: true, restart: true },
  { family: 'sqlite', kind: 'full', lasting: true },
  { family: 'sqlite', kind: 'full', lasting: false, restart: true },
  { family: 'sqlite', kind: 'nomem', lasting: false },
  { family: 'sqlite', kind: 'busy', lasting: false },
  { family: 'sqlite', kind: 'cantopen', lasting: false },
  { family: 'sqlite', kind: 'late', lasting: true, restart: true },
  { family: 'fs', kind: 'EIO', lasting: false },
  { family: 'fs', kind: 'EIO', lasting: true, restart: true },
  { family: 'fs', kind: 'ENOSPC', lasting: true },
  { family: 'fs', kind: 'EMFILE', lasting: true },
  { family: 'socket', kind: 'EMFILE', lasting: true },
  { family: 'socket', kind: 'EPIPE', lasting: false },
  { family: 'socket', kind: 'cut', lasting: false },
  { family: 'socket', kind: 'accept', lasting: false },
  { family: 'worker', kind: 'hire', lasting: true },
  { family: 'worker', kind: 'die', lasting: false },
]

export const nameOf = ({ family, kind, lasting, restart }: Way): string =>
  `${family} ${kind}${lasting ? ' lasting' : ''}${restart ? ', then a restart' : ''}`

/** Stops a way after this many findings. */
const ENOUGH = Number(process.env['FAULTS_ENOUGH'] ?? 3)
/** A chain of runs ends with a restart after so many. */
const CHAIN = Number(process.env['CHAIN'] ?? 16)

/** Errors that would have ended the process. */
let uncaught: string[] = []
for (const event of ['uncaughtException', 'unhandledRejection'] as const)
  process.on(event, (thrown: unknown) => {
    uncaught.push(
      `${event === 'uncaughtException' ? 'thrown' : 'rejected'} and caught by nobody, which ends the server: ${messageOf(thrown)}`,
    )
  })

/** Chooses the points to test. */
function chooser({ every = false, most = Infinity, n, seed = 1 }: Asked): (points: number) => number[] {
  const random = seeded(seed * 1000 + drawn)
  return (points) => {
    if (n !== undefined) return [n]
    if (!every) return [1 + Math.floor(random() * points)]
    const step = Math.ceil(points / most)
    const first = Math.floor(random() * step)
    return Array.from({ length: points }, (_, index) => index + 1).filter((at) => (at - 1) % step === first)
  }
}

let drawn = 0

/** The ways to fail in a scenario: all, the requested ones, or a sample that is drawn again each time. */
function waysOf({ every = false, sample = 4, seed = 1, ways }: Asked): readonly Way[] {
  if (ways) return WAYS.filter((each) => ways.includes(nameOf(each)))
  if (every) return WAYS
  const random = seeded(seed * 1000 + drawn++)
  const rest = [...WAYS]
  return Array.from({ length: sample }, () => rest.splice(Math.floor(random() * rest.length), 1)[0]!)
}

class Sweep {
  readonly #world: World
  readonly result: Result = { runs: 0, points: 0, findings: [] }
  #stage: Stage | undefined
  #chain = 0
  /** The last run found something. */
  #red = false

  constructor(world: World) {
    this.#world = world
  }

  async all(scenario: Scenario, asked: Asked): Promise<void> {
    const { every = false, n } = asked
    const choose = chooser(asked)
    for (const way of waysOf(asked)) {
      const calls = await this.#run(scenario, way, 0)
      if (scenario.once) break
      // One run finds problems that occur without a failure.
      if (calls === 0 || this.#red) continue
      this.result.points += calls
      const before = this.result.findings.length
      // A way with many failures is clear after a few.
      const enough = (): boolean => this.result.findings.length - before >= ENOUGH
      for (const at of choose(calls)) if (!enough()) await this.#run(scenario, way, at)
      // A failure may have caused more calls.
      if (every && n === undefined)
        for (let at = calls + 1; at < calls + 30 && !enough() && (await this.#run(scenario, way, at)) > 0; at++);
    }
    await this.end()
  }

  async kills(scenario: Scenario, asked: Asked): Promise<void> {
    if (scenario.once || scenario.unkilled || (asked.ways && !asked.ways.includes('kill'))) return
    uncaught = []
    const { calls, findings, runs } = await killEverywhere(this.#world, scenario, chooser(asked), () =>
      uncaught.splice(0),
    )
    this.result.points += calls
    this.result.runs += runs
    for (const each of findings) this.result.findings.push({ ...each, scenario: scenario.name, logged: [] })
  }

  async end(): Promise<void> {
    const stage = this.#stage
    this.#stage = undefined
    if (!stage) return
    control.heal()
    await stage.stop().catch(() => {})
    stage.remove()
  }

  /** One run. How many calls there were, or for n > 0 how many failed. */
  async #run(scenario: Scenario, way: Way, n: number): Promise<number> {
    uncaught = []
    const began = performance.now()
    if (this.#chain++ % CHAIN === 0) await this.end()
    let stage = this.#stage
    if (!stage) {
      stage = this.#stage = new Stage(this.#world)
      await stage.start()
    }
    stage.newLedger()
    this.result.runs++
    const found: string[] = []
    let call = ''
    let strikes = 0
    try {
      const ready = await scenario.prepare?.(stage)
      const here = stage
      const left = (): string[] => (here.runs ? [...open(here), ...(scenario.open?.(here, ready) ?? [])] : [])
      control.arm({ ...way, n })
      await scenario
        .act(stage, ready)
        .catch((thrown: unknown) => found.push(`the scenario threw: ${messageOf(thrown)}`))
      await goOn(stage, () => left().length === 0)
      control.heal()
      call = control.struck[0] ?? ''
      strikes = n === 0 ? control.count : control.strikes
      // A thread that ends may have been between the final dot and the answer.
      const doubt =
        way.kind === 'die' || (way.kind === 'cut' && control.struck.some((each) => each.includes('final dot')))
      if (process.env['FAULTS_CALLS']) console.error(nameOf(way), n, control.calls)
      if (way.restart || !stage.runs) {
        await stage.stop().catch((thrown: unknown) => found.push(`the stop threw: ${messageOf(thrown)}`))
        await stage.start()
        found.push(...strays(stage))
      }
      found.push(...(await stage.settle(left)))
      found.push(...wrong(stage, () => doubt))
      found.push(...((await scenario.wrong?.(stage, ready)) ?? []))
      // And once more by another process.
      if (found.length === 0 && this.#chain % CHAIN === 0) {
        await stage.restart()
        found.push(...(await stage.settle(left)), ...wrong(stage, () => doubt), ...strays(stage))
      }
    } catch (thrown) {
      found.push(`the run threw: ${thrown instanceof Error ? thrown.stack : String(thrown)}`)
    }
    found.push(...uncaught)
    this.#red = found.length > 0
    if (this.#red) {
      const what = [...new Set(found)]
      this.result.findings.push({
        scenario: scenario.name,
        way: nameOf(way),
        n,
        call,
        what,
        logged: stage.logged.slice(0, 3),
      })
      if (process.env['FAULTS_RUNS']) console.error(JSON.stringify(this.result.findings.at(-1)))
      await this.end()
    }
    if (process.env['FAULTS_RUNS'])
      console.error(scenario.name, nameOf(way), n, call, Math.round(performance.now() - began), 'ms', found.length)
    return strikes
  }
}

const asked = JSON.parse(process.argv[2] ?? '{}') as Asked
const world = await makeWorld()
const sweep = new Sweep(world)
const began = performance.now()
try {
  for (const scenario of SCENARIOS)
    if (!asked.scenarios || asked.scenarios.includes(scenario.name)) {
      const at = performance.now()
      const before = sweep.result.runs
      await sweep.all(scenario, asked)
      await sweep.kills(scenario, asked)
      console.error(`${scenario.name}: ${sweep.result.runs - before} runs, ${Math.round(performance.now() - at)} ms`)
    }
} finally {
  await sweep.end()
  await world.close()
  rmSync(ROOT, { recursive: true, force: true })
}
console.error(`${sweep.result.runs} runs in ${Math.round(performance.now() - began)} ms`)
process.stdout.write(`${JSON.stringify(sweep.result)}\n`)
process.exit(0)
