import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { EVENT_TYPES } from '../../src/store/states/events.ts'
import { CATALOGUE } from '../../src/webhooks/catalogue.ts'
import { SAMPLES } from '../../src/webhooks/samples.ts'

for (const type of EVENT_TYPES)
  test(`the sample of ${type} matches the schema in the catalogue`, () => {
    const { error } = CATALOGUE[type].data.safeParse(SAMPLES[type])
    assert.equal(error, undefined)
    assert.ok(JSON.stringify(SAMPLES[type]).length < 20_000)
  })

test('the page about webhooks lists every event type and its cause', () => {
  const page = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')
  for (const type of EVENT_TYPES) assert.ok(page.includes(`| \`${type}\` | ${CATALOGUE[type].about} |`), type)
})
