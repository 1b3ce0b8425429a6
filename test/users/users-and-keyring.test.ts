import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { scryptSync } from 'node:crypto'
import { readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { OperatorError } from '../../src/base/errors.ts'
import { Keyring, openKeyring } from '../../src/base/keyring.ts'
import {
  addUser,
  checkPassword,
  findUser,
  hashPassword,
  listUsers,
  requireUser,
  setPassword,
} from '../../src/users/users.ts'
import { removeUser } from '../../src/users/operators.ts'
import { createToken, findToken } from '../../src/users/tokens.ts'
import type { Store } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

let dataDir: string
let store: Store
const clock = new ManualClock()
const directories: string[] = []
const newDirectory = (): string => {
  const directory = temporaryDirectory('accounts')
  directories.push(directory)
  return directory
}

before(() => {
  dataDir = newDirectory()
  store = openStore(dataDir)
})
after(() => {
  store.close()
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

const deps = () => ({ store, clock })
const sentence = (pattern: RegExp) => (thrown: unknown) => {
  assert.ok(thrown instanceof OperatorError, String(thrown))
  assert.match(thrown.message, pattern)
  assert.ok(!thrown.message.includes('\n'), 'one line')
  return true
}

test('stores a password as a salted scrypt hash', async () => {
  const [first, second] = await Promise.all([hashPassword('correct horse'), hashPassword('correct horse')])
  assert.match(first, /^scrypt\$\d+\$\d+\$\d+\$[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}=$/)
  assert.notEqual(first, second, 'salted')
  const [, N, r, p] = first.split('$').map(Number)
  // 128 N r bytes of memory make guessing expensive.
  assert.ok(128 * N! * r! >= 32 * 1024 * 1024 && p! >= 1)
  assert.equal(await checkPassword('correct horse', first), true)
  for (const wrong of ['correct horse ', 'Correct horse', '', 'correct'])
    assert.equal(await checkPassword(wrong, first), false, wrong)
})

test('accepts a password in two Unicode forms (NFKC)', async () => {
  const composed = await hashPassword('pässwörd ﬁ')
  assert.equal(await checkPassword('pa\u0308sswo\u0308rd fi', composed), true)
  assert.equal(await checkPassword('password fi', composed), false)
})

test('verifies a hash with other cost parameters, and rejects a malformed hash', async () => {
  const salt = Buffer.from('0123456789abcdef')
  const hash = scryptSync('old', salt, 32, { N: 1024, r: 8, p: 1 }).toString('base64')
  const old = ['scrypt', 1024, 8, 1, salt.toString('base64'), hash].join('$')
  assert.equal(await checkPassword('old', old), true)
  assert.equal(await checkPassword('new', old), false)
  for (const broken of ['', 'old', 'scrypt$1024$8$1', 'scrypt$1024$8$1$$'])
    assert.equal(await checkPassword('old', broken), false, broken)
})

test('adds, finds and lists users', async () => {
  const user = await addUser(deps(), { email: 'ann@here.test', name: 'Ann', password: 'correct horse' })
  assert.equal(user.email, 'ann@here.test')
  assert.equal(user.name, 'Ann')
  assert.equal(user.plan, 'unlimited')
  assert.equal(user.subscription_state, 'active')
  assert.equal(user.created_at, clock.now())
  assert.ok(await checkPassword('correct horse', user.password_hash!))
  const plain = await addUser(deps(), { email: '"Bob" <bob@Bücher.test>' })
  assert.equal(plain.email, 'bob@xn--bcher-kva.test')
  assert.equal(plain.name, 'bob')
  assert.equal(plain.password_hash, null)
  assert.equal(findUser(store, 'ANN@here.test')?.id, user.id, 'case does not count')
  assert.equal(findUser(store, 'nobody@here.test'), undefined)
  assert.deepEqual(
    listUsers(store).map(({ id }) => id),
    [user.id, plain.id],
  )
})

test('rejects an invalid or existing address with one sentence', async () => {
  for (const email of ['', 'ann', 'ann@', '@here.test', 'ann@here', 'a b@here.test', 'ann@here.test, bob@here.test'])
    await assert.rejects(addUser(deps(), { email }), sentence(/is not an email address/), email)
  await addUser(deps(), { email: 'known@here.test' })
  await assert.rejects(addUser(deps(), { email: 'Known@HERE.test' }), sentence(/already exists/))
  assert.throws(() => requireUser(store, 'nobody@here.test'), sentence(/There is no user nobody@here\.test/))
  await assert.rejects(setPassword(deps(), 'nobody@here.test', 'x'), sentence(/There is no user/))
})

test('the old password no longer works after a change', async () => {
  await addUser(deps(), { email: 'changes@here.test', password: 'the first one' })
  await setPassword(deps(), 'changes@here.test', 'the second one')
  const { password_hash } = requireUser(store, 'changes@here.test')
  assert.equal(await checkPassword('the second one', password_hash!), true)
  assert.equal(await checkPassword('the first one', password_hash!), false)
  const files = readdirSync(dataDir).map((name) => readFileSync(join(dataDir, name)))
  assert.ok(files.some((bytes) => bytes.includes('changes@here.test')))
  assert.ok(!files.some((bytes) => bytes.includes('the second one') || bytes.includes('the first one')))
})

test('removes a user with all tokens, but not a user with a domain', async () => {
  const user = await addUser(deps(), { email: 'leaves@here.test' })
  const { plaintext } = await createToken(deps(), user.key, {
    name: 'n',
    scopes: ['emails:read'],
    duration: '1_month',
  })
  assert.ok(findToken(store, plaintext))
  await removeUser(deps(), 'leaves@here.test')
  assert.equal(findToken(store, plaintext), undefined)
  assert.equal(findUser(store, 'leaves@here.test'), undefined)

  const owner = await addUser(deps(), { email: 'owns@here.test' })
  await store.write((tx) =>
    tx.run(
      raw(
        `insert into domains (id, user_key, name, purpose, region, mail_from_prefix, tls_policy, open_tracking_enabled,
           click_tracking_enabled, tracking_redirect_mode, status, status_at, poll_from, created_at, updated_at)
         values ('d', ?, 'owned.test', 'both', 'default', 'bounce', 'Optional', 0, 0, 'shared', 'pending', 1, 1, 1, 1)`,
        [owner.key],
      ),
    ),
  )
  await assert.rejects(removeUser(deps(), 'owns@here.test'), sentence(/owns the domain owned\.test.*lock the user/))
  await store.write((tx) => tx.run(raw(`update domains set deleted_at = 5 where name = 'owned.test'`)))
  await assert.rejects(removeUser(deps(), 'owns@here.test'), sentence(/owned the domain owned\.test/))
  assert.ok(findUser(store, 'owns@here.test'))
})

test('decrypts a value only with its own label and key', () => {
  const [keyring, other] = [openKeyring(newDirectory()), openKeyring(newDirectory())]
  for (const text of ['secret', '', 'Grüße 🔑', 'x'.repeat(100_000)]) {
    const box = keyring.seal('row 1', text)
    assert.equal(keyring.open('row 1', box), text)
    assert.throws(() => keyring.open('row 2', box))
    assert.throws(() => other.open('row 1', box))
    if (text !== '') assert.ok(!box.includes(text))
    for (const at of [0, 12, box.length - 1]) {
      const bent = Buffer.from(box)
      bent[at]! ^= 1
      assert.throws(() => keyring.open('row 1', bent), `byte ${at} changed`)
    }
    assert.throws(() => keyring.open('row 1', box.subarray(0, box.length - 1)))
  }
  assert.throws(() => keyring.open('row 1', Buffer.alloc(0)))
  assert.notDeepEqual(keyring.seal('a', 'same'), keyring.seal('a', 'same'), 'a nonce of its own each time')
})

test('verifies a MAC only for its purpose, text, key and length', () => {
  const keyring = new Keyring(Buffer.alloc(32, 1))
  const mac = keyring.mac('return-path', 'text', 10)
  assert.equal(mac.length, 10)
  assert.equal(keyring.proves('return-path', 'text', mac, 10), true)
  assert.equal(keyring.proves('return-path', 'texT', mac, 10), false)
  assert.equal(keyring.proves('seal', 'text', mac, 10), false)
  assert.equal(new Keyring(Buffer.alloc(32, 2)).proves('return-path', 'text', mac, 10), false)
  assert.equal(keyring.proves('return-path', 'text', Buffer.alloc(0), 10), false)
  // A shortened MAC would be easy to guess.
  for (const bytes of [1, 9]) assert.equal(keyring.proves('return-path', 'text', mac.subarray(0, bytes), 10), false)
  assert.equal(keyring.proves('return-path', 'text', mac), false)
  assert.equal(keyring.proves('return-path', 'text', Buffer.alloc(40)), false)
})

test('creates the instance key once, readable by its owner only, and keeps it', () => {
  const directory = newDirectory()
  const box = openKeyring(directory).seal('l', 'text')
  const file = join(directory, 'instance.key')
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal(Buffer.from(readFileSync(file, 'utf8').trim(), 'base64').length, 32)
  assert.deepEqual(readdirSync(directory), ['instance.key'], 'nothing is left beside it')
  assert.equal(openKeyring(directory).open('l', box), 'text')
})

test('stops with one sentence if the instance key is corrupt, and does not replace it', () => {
  for (const content of ['', 'short\n', 'A'.repeat(100), `${Buffer.alloc(31).toString('base64')}\n`]) {
    const directory = newDirectory()
    const file = join(directory, 'instance.key')
    writeFileSync(file, content)
    assert.throws(() => openKeyring(directory), sentence(/instance\.key is corrupt .*backup/))
    assert.equal(readFileSync(file, 'utf8'), content)
  }
})

test('reports an unwritable directory in one sentence', () => {
  assert.throws(
    () => openKeyring(join(newDirectory(), 'missing')),
    sentence(/instance\.key cannot be written \(ENOENT\)/),
  )
})

test('starts despite temporary files of an interrupted start', () => {
  // In a container every start may have the same process id.
  const directory = newDirectory()
  writeFileSync(join(directory, `instance.key.${process.pid}`), '')
  assert.equal(openKeyring(directory).open('l', openKeyring(directory).seal('l', 'text')), 'text')
})

test('processes that start at the same time use one key', async () => {
  const directory = newDirectory()
  const module = new URL('../../src/base/keyring.ts', import.meta.url).href
  const script = `
    const { openKeyring } = await import(${JSON.stringify(module)})
    process.stdin.once('data', () => {
      process.stdout.write(openKeyring(${JSON.stringify(directory)}).mac('seal', 'x').toString('hex'))
      process.stdin.destroy()
    })
    process.stdout.write('ready ')`
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  const said = children.map(() => '')
  await Promise.all(
    children.map(
      (child, index) =>
        new Promise<void>((resolve) =>
          child.stdout.on('data', (chunk: Buffer) => {
            said[index] += chunk.toString()
            resolve()
          }),
        ),
    ),
  )
  const ended = children.map((child) => new Promise<void>((resolve) => void child.on('close', () => resolve())))
  for (const child of children) child.stdin.write('go\n')
  await Promise.all(ended)
  assert.equal(new Set(said).size, 1, said.join('\n'))
  assert.match(said[0]!, /^ready [0-9a-f]{64}$/)
  assert.deepEqual(readdirSync(directory), ['instance.key'])
})
