// The licences of the parts of the executable: its bundles and the assets of the console.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { packagesIn } from '../../packaging/bundle.ts'
import { thirdParty } from '../../packaging/third-party.ts'
import { ASSETS, makeAsset } from '../../src/console/assets.ts'

test('lists the packages of the scripts, styles and fonts of the console with their licences', async () => {
  const made = await Promise.all(Object.keys(ASSETS).map(makeAsset))
  const folders = [...packagesIn(made).keys()]
  for (const name of ['htmx.org', '@tiptap/core', '@fontsource-variable/inter'])
    assert.ok(folders.includes(`node_modules/${name}`), `${name} of ${folders.join(', ')}`)
  const text = thirdParty(folders)
  assert.match(text, /@fontsource-variable\/inter [\d.]+, licence OFL-1\.1[^]*SIL Open Font License/)
  for (const { parts } of made)
    assert.ok(Object.keys(parts).every((file) => !file.startsWith('/') && !file.startsWith('..')))
})
