// The verifier that docs/webhooks.md gives in TypeScript. Those in other languages run in test/interop.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { temporaryDirectory } from '../kit/directory.ts'
import { cases, SECRET, snippet } from '../kit/verifiers.ts'

type IsGenuine = (secret: string, header: (name: string) => string | undefined, body: string | Uint8Array) => boolean

test('the TypeScript sample accepts only genuine requests and never throws', async () => {
  const dir = temporaryDirectory('verifier')
  writeFileSync(join(dir, 'verify.ts'), snippet('ts'))
  const { isGenuine } = (await import(join(dir, 'verify.ts'))) as { isGenuine: IsGenuine }
  for (const { body, genuine, headers, name } of cases(Math.floor(Date.now() / 1000))) {
    const bytes = Buffer.from(body, 'base64')
    assert.equal(
      isGenuine(SECRET, (header) => headers[header], bytes),
      genuine,
      name,
    )
    assert.equal(
      isGenuine(SECRET, (header) => headers[header], bytes.toString()),
      genuine,
      `${name}, as text`,
    )
  }
})

test('the Standard Webhooks library evaluates the cases in the same way', () => {
  for (const { body, genuine, headers, name } of cases(Math.floor(Date.now() / 1000))) {
    // It reads a number up to the first letter.
    if (name === 'another way to write a number') continue
    const verify = () => new Webhook(SECRET).verify(Buffer.from(body, 'base64').toString() || ' ', headers)
    if (genuine && body !== '') assert.doesNotThrow(verify, name)
    else if (!genuine) assert.throws(verify, name)
  }
})
