// Runs each test of a file alone, all in this process: for each test the file and the helpers beside it are loaded once
// more, so that nothing in them remembers another test. The file is named in POSTRIDER_ALONE, from the root.
import { registerHooks } from 'node:module'
import { describe } from 'node:test'

const ROOT = new URL('../../', import.meta.url).href
const COLLECTED = new URL('collected.ts', import.meta.url).href
const file = process.env['POSTRIDER_ALONE']!

registerHooks({
  resolve(specifier, context, next) {
    const round = /\?alone=\d+$/.exec(context.parentURL ?? '')?.[0]
    if (round === undefined || context.parentURL!.startsWith(COLLECTED)) return next(specifier, context)
    if (specifier === 'node:test') return { url: COLLECTED + round, format: 'module-typescript', shortCircuit: true }
    const found = next(specifier, context)
    return found.url.startsWith(`${ROOT}test/`) && found.url.endsWith('.ts')
      ? { ...found, url: found.url + round }
      : found
  },
})

type Collected = typeof import('./collected.ts')

for (let index = 0, count = 1; index < count; index++) {
  const { declare, names } = (await import(`${COLLECTED}?alone=${index}`)) as Collected
  await import(`${ROOT}${file}?alone=${index}`)
  const all = await names()
  count = all.length
  if (count > 0) describe(`alone: ${all[index]!}`, () => declare(index))
}
