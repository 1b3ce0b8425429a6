// Tests the second factor when the device is lost: recovery codes that work once, and the QR code of the key.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TOTP } from 'otpauth'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
const postrider = ofFile(() => startTestAppliance())
let ann: Guest
let secret = ''
let codes: string[] = []

const codesIn = (text: string): string[] => /id="codes">([^<]+)</.exec(text)?.[1]!.split('\n') ?? []
const appCode = (): string => new TOTP({ secret }).generate({ timestamp: postrider.clock.now() })

setUp(async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const account = await ann.open('/account')
  secret = /name="secret" value="([A-Z2-7]+)"/.exec(account.text)![1]!
  const on = await ann.send(account, 'factor', { code: appCode() })
  codes = codesIn(on.text)
  assert.doesNotMatch((await ann.open(on.path)).text, /id="codes"/, 'the codes are shown once')
})

/** Signs in with the password and this code. Returns the status, which is 200 after a successful sign-in. */
async function enter(code: string): Promise<number> {
  // Wrong codes slow down the next tries.
  postrider.clock.advance(30 * 60_000)
  const guest = new Guest(postrider)
  const step = await guest.signIn(postrider.user.email, PASSWORD)
  assert.match(step.text, /Recovery code/)
  const { path, status } = await guest.send(step, 'code', { code })
  return path === '/' ? 200 : status
}

test('shows ten recovery codes once, and stores only hashes', () => {
  assert.equal(codes.length, 10)
  assert.equal(new Set(codes).size, 10)
  for (const code of codes) assert.match(code, /^[a-z2-7]{5}-[a-z2-7]{5}$/)
  const { store } = postrider.appliance.deps
  const rows = store.all(raw<{ mac: Buffer }>('select mac from recovery_codes', []))
  assert.equal(rows.length, 10)
  assert.ok(rows.every(({ mac }) => mac.length === 32))
})

test('a recovery code signs its user in once, in any notation', async () => {
  const [first = '', second = ''] = codes
  assert.equal(await enter(first), 200)
  assert.equal(await enter(first), 403)
  assert.equal(await enter(` ${second.toUpperCase().replace('-', ' ')} `), 200)
  assert.equal(await enter('aaaaa-aaaaa'), 403)
  assert.match((await ann.open('/account')).text, /8 recovery codes left/)
})

test('new recovery codes require a password and replace the old ones', async () => {
  const refused = await ann.send(await ann.open('/account'), 'codes', { old: 'wrong' })
  assert.equal(refused.status, 422)
  assert.deepEqual(codesIn(refused.text), [])
  const made = await ann.send(await ann.open('/account'), 'codes', { old: PASSWORD })
  const fresh = codesIn(made.text)
  assert.equal(fresh.length, 10)
  assert.equal(await enter(codes[2]!), 403)
  assert.equal(await enter(fresh[0]!), 200)
  codes = fresh
})

test('shows a wrong recovery code at its field, and an empty code as missing', async () => {
  postrider.clock.advance(30 * 60_000)
  const guest = new Guest(postrider)
  const step = await guest.signIn(postrider.user.email, PASSWORD)
  assert.doesNotMatch(step.text, /<details open>/)
  const wrong = await guest.send(step, 'code', { recovery: 'aaaaa-aaaaa' })
  assert.match(wrong.text, /<details open>[^]*id="code-recovery-error">The recovery code is wrong\./)
  const empty = await guest.send(wrong, 'code', {})
  assert.equal(empty.status, 422)
  assert.match(empty.text, /id="code-error">Enter a code\./)
})

test('there are no recovery codes without a second factor', async () => {
  const off = await ann.send(await ann.open('/account'), 'no-factor', { old: PASSWORD })
  const keyIn = ({ text }: { text: string }) => /name="secret" value="([A-Z2-7]+)"/.exec(text)?.[1]
  assert.notEqual(keyIn(off), secret, 'a key that was turned on is not offered again')
  assert.equal(keyIn(await ann.open('/account')), keyIn(off), 'a reload keeps a key that may be scanned already')
  const empty = await ann.send(off, 'factor', { code: ' ', old: PASSWORD })
  assert.match(empty.text, /Enter the six-digit code/)
  assert.equal(keyIn(empty), keyIn(off))
  postrider.clock.advance(10 * 60_000)
  assert.notEqual(keyIn(await ann.open('/account')), keyIn(off), 'after ten minutes it is another')
  const { store } = postrider.appliance.deps
  assert.equal(store.all(raw('select mac from recovery_codes', [])).length, 0)
})

test('the QR code of the key has three finder patterns and a quiet zone (ISO/IEC 18004)', async () => {
  const { text } = await ann.open('/account')
  const [, size, path] = /class="qr" viewBox="0 0 (\d+) \d+"[^]*?<path d="([^"]+)"/.exec(text)!
  const dark = new Set([...path!.matchAll(/M(\d+) (\d+)h1/g)].map(([, x, y]) => `${x} ${y}`))
  const side = Number(size)
  const edge = [4, side - 11]
  for (const [x, y] of [
    [edge[0]!, edge[0]!],
    [edge[1]!, edge[0]!],
    [edge[0]!, edge[1]!],
  ] as const)
    for (let n = 0; n < 7; n++)
      for (const cell of [`${x + n} ${y}`, `${x + n} ${y + 6}`, `${x} ${y + n}`, `${x + 6} ${y + n}`])
        assert.ok(dark.has(cell), cell)
  for (let n = 0; n < side; n++)
    for (let m = 0; m < 4; m++) assert.ok(!dark.has(`${n} ${m}`) && !dark.has(`${m} ${n}`), 'the margin is light')
})
