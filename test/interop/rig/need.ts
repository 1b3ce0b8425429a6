// Tests with other software are skipped with a reason if it is not installed. INTEROP_REQUIRED=1 makes them fail
// instead, so that a machine that is set up for them cannot pass without running them.
import { describe, test, type TestContext } from 'node:test'

/** A suite that only runs if `absent` is empty. */
export function withPrograms(name: string, absent: readonly string[], suite: () => void): void {
  if (absent.length === 0) return void describe(name, suite)
  const reason = `not on this machine: ${absent.join(', ')}; run test/interop/setup.sh as root`
  if (process.env['INTEROP_REQUIRED'] !== '1') return void test(name, { skip: reason }, () => {})
  test(name, () => {
    throw new Error(reason)
  })
}

/** Skips a test that this machine cannot run, for the reason given; throws instead where INTEROP_REQUIRED=1. */
export function passBy(t: TestContext, reason: string): void {
  if (process.env['INTEROP_REQUIRED'] === '1') throw new Error(reason)
  t.skip(reason)
}
