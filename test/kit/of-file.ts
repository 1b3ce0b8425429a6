// What the tests of a file, or of a suite, share because it is expensive to start.
import { after, before } from 'node:test'

/** What was begun last; the next waits for it. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Runs once before the first test, whichever that is, and after the `setUp` and `ofFile` above it. With `before` alone
 * Node would run those of a file all at the same time.
 */
export function setUp(run: () => unknown): void {
  before(() => {
    const mine = last.then(run)
    last = mine.catch(() => {})
    return mine
  })
}

/**
 * Started before the first test that runs, whichever that is, and disposed of after the last. The result can be named
 * at once, and has its parts when tests run. What is made from another `ofFile` stands below it:
 *
 *     const exchanger = testExchanger()
 *     const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
 *     const domain = ofFile(() => postrider.activeDomain('here.test'))
 *
 * `start` gives a plain object: methods that need `this`, as of a class, would not find it.
 */
export function ofFile<T extends object>(start: () => Promise<T>): T {
  let started: (T & Partial<AsyncDisposable>) | undefined
  const parts = {} as T
  setUp(async () => {
    started = await start()
    Object.defineProperties(parts, Object.getOwnPropertyDescriptors(started))
  })
  after(() => started?.[Symbol.asyncDispose]?.())
  return parts
}
