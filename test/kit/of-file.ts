// What the tests of a file, or of a suite, share because it is expensive to start.
import { after, before } from 'node:test'

/**
 * Started before the first test that runs, whichever that is, and disposed of after the last. The result can be named at
 * once, and has its parts when tests run. What is made from another `ofFile` stands below it:
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
  before(async () => {
    started = await start()
    Object.defineProperties(parts, Object.getOwnPropertyDescriptors(started))
  })
  after(() => started?.[Symbol.asyncDispose]?.())
  return parts
}
