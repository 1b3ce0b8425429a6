// Fixtures that the tests of a file, or of a suite, share because they are expensive to start.
import { after, before } from 'node:test'

/** The fixture that was started last. The next waits for it. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Runs once before the first test, and after earlier `setUp` and `ofFile` calls. With `before`, Node would run all
 * those of a file at the same time.
 */
export function setUp(run: () => unknown): void {
  before(() => {
    const mine = last.then(run)
    last = mine.catch(() => {})
    return mine
  })
}

/**
 * Started before the first test that runs, and disposed of after the last. The result can be used immediately as a
 * name, and has its parts when tests run. A fixture that is made from another one follows it:
 *
 *     const exchanger = testExchanger()
 *     const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
 *     const domain = ofFile(() => postrider.activeDomain('here.test'))
 *
 * `start` returns a plain object: methods that need `this`, as of a class, would not find it.
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
