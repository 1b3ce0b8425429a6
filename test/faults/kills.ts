// A kill at every call: a scenario runs once, and before each call that changes or reads data the files are copied,
// with the accepted work and the captured messages at that time. This is the state after kill -9: the system keeps
// written data, even if it was not synced. Each copy is then started. After a power cut less is left: data that was not
// synced is removed first.
import { cpSync, existsSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { control, files, ROOT } from './layer.ts'
import { open, strays, wrong } from './demands.ts'
import type { Scenario } from './scenarios.ts'
import { Stage, type Ledger } from './stage.ts'
import type { World } from './world.ts'
import type { Heard } from '../kit/exchanger.ts'
import { messageOf } from '../../src/base/errors.ts'

/** The parts of a file or folder that would outlast a power cut. */
interface Lasting {
  content: boolean
  entry: boolean
}

/** Records which files were synced via node:fs. SQLite syncs its own files at each commit. */
export class Syncs {
  readonly #files = new Map<string, Lasting>()

  see(call: string, path: string, to?: string): void {
    const known = this.#files.get(path)
    if (call === 'mkdir' && !known) this.#files.set(path, { content: true, entry: false })
    else if (call === 'open' || call === 'writeFile' || call === 'appendFile') {
      if (call === 'open' && !(to && /[wa]/.test(to))) return
      this.#files.set(path, { content: false, entry: known?.entry ?? false })
    } else if (/^(?:write|append)/.test(call) && known) known.content = false
    else if (/^fd?a?t?a?sync/.test(call)) {
      if (known) known.content = true
      // A folder's sync is for the names in it.
      for (const [name, file] of this.#files) if (dirname(name) === path) file.entry = true
    } else if (call === 'rename' && to) {
      this.#files.set(to, { content: known?.content ?? true, entry: false })
      this.#files.delete(path)
    } else if ((call === 'link' || call === 'copyFile') && to)
      this.#files.set(to, { content: call === 'link', entry: false })
    else if (/^(?:rm|unlink)/.test(call)) this.#files.delete(path)
  }

  copy(): Map<string, Lasting> {
    return new Map([...this.#files].map(([path, file]) => [path, { ...file }]))
  }
}

interface Shot {
  call: string
  dir: string
  ledger: Ledger
  heard: Map<string, Heard[]>
  /** How many requests the endpoint had. */
  pushed: number
  lasting: Map<string, Lasting>
}

let copies = 0
/** Files that SQLite creates again, and the lock of an ended process. */
const LEFT_OUT = /(?:postrider\.db-shm|serve\.lock|serving\.json)/

export function copyOf(dir: string): string {
  const to = join(ROOT, `shot-${++copies}`)
  cpSync(dir, to, { recursive: true, filter: (path) => !LEFT_OUT.test(path) })
  return to
}

/** Runs it once. A shot before each call at which files, promises or the world had changed. */
async function shoot(world: World, scenario: Scenario) {
  world.heard.clear()
  const stage = new Stage(world)
  const syncs = new Syncs()
  files.witness = (call, path, to) => syncs.see(call, path, to)
  await stage.start()
  const ready = await scenario.prepare?.(stage)
  const shots: Shot[] = []
  let changed = true
  let last = ''
  control.onCall = (family, call) => {
    const heard = [...world.heard.values()].flat().length
    const promised = JSON.stringify(stage.ledger)
    const state = `${heard} ${promised}`
    if (changed || state !== last)
      shots.push({
        call,
        dir: changed || shots.length === 0 ? copyOf(stage.dataDir) : shots.at(-1)!.dir,
        ledger: structuredClone(stage.ledger),
        heard: new Map(world.heard),
        pushed: world.receiver.requests.length,
        lasting: syncs.copy(),
      })
    last = state
    changed = family === 'fs' || /^(?:commit|exec|pragma wal|backup)/.test(call)
  }
  const left = (): string[] => (stage.runs ? [...open(stage), ...(scenario.open?.(stage, ready) ?? [])] : [])
  try {
    await scenario.act(stage, ready)
    await stage.settle(left)
  } finally {
    control.onCall = undefined
    files.witness = undefined
    await stage.stop().catch(() => {})
  }
  return { calls: shots.length, shots, ready, stage }
}

/** Emails that the receiving server has, but whose result is not in the database of a copy. */
function unwritten(shot: Shot): Set<string> {
  return control.quiet(() => {
    const database = new Database(join(shot.dir, 'postrider.db'), { readonly: true })
    try {
      const done = new Set(
        database.prepare(`select address from deliveries where status in ('delivered', 'bounced')`).pluck().all(),
      )
      return new Set([...shot.heard.keys()].filter((to) => !done.has(to)))
    } finally {
      database.close()
    }
  })
}

/** Removes the data that a power cut would. */
function cut(dir: string, origin: string, lasting: Map<string, Lasting>): void {
  for (const [path, { content, entry }] of lasting) {
    const here = path.replace(origin, dir)
    if (!path.startsWith(`${origin}/`) || !existsSync(here)) continue
    if (!entry) rmSync(here, { recursive: true, force: true })
    else if (!content && statSync(here).isFile()) truncateSync(here, 0)
  }
}

export interface Killed {
  calls: number
  runs: number
  findings: { way: string; n: number; call: string; what: string[] }[]
}

export async function killEverywhere(
  world: World,
  scenario: Scenario,
  chosen: (shots: number) => number[],
  uncaught: () => string[],
): Promise<Killed> {
  const { calls, ready, shots, stage } = await shoot(world, scenario)
  const result: Killed = { calls, runs: 0, findings: [] }
  const now = stage.clock.now()
  const pushed = world.receiver.requests.splice(0)
  for (const n of chosen(shots.length))
    for (const power of [false, true]) {
      const shot = shots[n - 1]!
      const doubted = unwritten(shot)
      const dir = copyOf(shot.dir)
      if (power) cut(dir, stage.dataDir, shot.lasting)
      world.heard.clear()
      for (const [to, heard] of shot.heard) world.heard.set(to, [...heard])
      world.receiver.requests.splice(0, Infinity, ...pushed.slice(0, shot.pushed))
      const next = new Stage(world, dir, now)
      next.ledger = structuredClone(shot.ledger)
      const found: string[] = []
      result.runs++
      try {
        await next.start()
        found.push(...strays(next))
        const left = (): string[] => [...open(next), ...(scenario.open?.(next, ready) ?? [])]
        found.push(...(await next.settle(left)))
        found.push(...wrong(next, (to) => doubted.has(to)), ...((await scenario.wrong?.(next, ready)) ?? []))
      } catch (thrown) {
        found.push(`the start after it threw: ${messageOf(thrown)}`)
      }
      await next.stop().catch((thrown: unknown) => found.push(`the stop after it threw: ${messageOf(thrown)}`))
      next.remove()
      found.push(...uncaught())
      if (found.length > 0)
        result.findings.push({ way: power ? 'power cut' : 'kill', n, call: shot.call, what: [...new Set(found)] })
    }
  for (const name of readdirSync(ROOT)) if (name.startsWith('shot-')) rmSync(join(ROOT, name), { recursive: true })
  stage.remove()
  return result
}
