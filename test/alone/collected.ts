// Stands in for node:test while a file is read for test/alone.sh: it keeps what the file declares, so that one test can
// be declared with only the hooks and suites around it.
import { AsyncLocalStorage } from 'node:async_hooks'
import * as real from 'node:test'

type Declared = (...given: never[]) => unknown
interface Suite {
  given: unknown[]
  hooks: [(...given: any[]) => unknown, unknown[]][] // oxlint-disable-line typescript/no-explicit-any
  /** The suites and tests within, in order. */
  parts: (Suite | { given: unknown[] })[]
}

const root: Suite = { given: [], hooks: [], parts: [] }
const within = new AsyncLocalStorage<Suite>()
const reading: unknown[] = []
let done = false

const hook =
  (name: 'before' | 'after' | 'beforeEach' | 'afterEach') =>
  (...given: unknown[]): void => {
    // A test that runs may still call one: it is a hook of that test.
    if (done) (real[name] as Declared)(...(given as never[]))
    else (within.getStore() ?? root).hooks.push([real[name], given])
  }
export const before = hook('before')
export const after = hook('after')
export const beforeEach = hook('beforeEach')
export const afterEach = hook('afterEach')

export const test = (...given: unknown[]): void => void (within.getStore() ?? root).parts.push({ given })
test.skip = (): void => {}
test.todo = (): void => {}

export function describe(...given: unknown[]): void {
  const suite: Suite = { given: given.slice(0, -1), hooks: [], parts: [] }
  ;(within.getStore() ?? root).parts.push(suite)
  reading.push(within.run(suite, given.at(-1) as () => unknown))
}
describe.todo = (): void => {}
export const { mock } = real

const title = ({ given: [name] }: { given: unknown[] }): string => String(name)

/** Every way from the file down to a test. */
function* ways(suite: Suite): Generator<(Suite | { given: unknown[] })[]> {
  for (const part of suite.parts)
    if ('parts' in part) for (const way of ways(part)) yield [part, ...way]
    else yield [part]
}

/** The full names of the tests, as --test-name-pattern sees them. */
export async function names(): Promise<string[]> {
  while (reading.length > 0) await reading.shift()
  done = true
  return [...ways(root)].map((way) => way.map(title).join(' '))
}

/** Declares one of the tests with the hooks and suites around it; it is called within a suite of its own. */
export function declare(index: number): void {
  const declareHooks = ({ hooks }: Suite): void => {
    for (const [how, given] of hooks) how(...given)
  }
  const down = ([part, ...rest]: (Suite | { given: unknown[] })[]): void => {
    if (!('parts' in part!)) return void (real.test as Declared)(...(part!.given as never[]))
    const inner = (): void => {
      declareHooks(part)
      down(rest)
    }
    ;(real.describe as Declared)(...([...part.given, inner] as never[]))
  }
  declareHooks(root)
  down([...ways(root)][index]!)
}
