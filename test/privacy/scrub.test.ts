// The forms of an erased address that are found, which exclude parts of longer addresses, and every column with
// addresses.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { erasingOf, scrub } from '../../src/privacy/run.ts'
import { meter, within } from '../kit/cost.ts'
import { filesWith } from '../kit/files-with.ts'
import { COLUMNS } from '../../src/store/schema/tables.ts'
import { betrays, redact } from '../../src/store/erasing.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'

const ADDRESS = 'ann@there.test'
const erasing = { address: ADDRESS, mark: 'X' }
const OTHERS = [
  'xann@there.test',
  'x.ann@there.test',
  'x-ann@there.test',
  'x_ann@there.test',
  'x+ann@there.test',
  'ann@there.test.example',
  'ann@there.testing',
  'ann@there.test-house.test',
  'ann@not.there.test',
]

test('finds the address in every notation', () => {
  for (const text of [
    ADDRESS,
    'ANN@There.TEST',
    `<${ADDRESS}>`,
    `Write to ${ADDRESS}.`,
    `mailto:${ADDRESS}?subject=x`,
    'https://x.test/?who=ann%40there.test&a=1',
    '?back=%3Aann%40there%2Etest',
    'who=3Dann=40there=2Etest',
    'ann&#64;there.test',
    JSON.stringify(`\n${ADDRESS}\n`),
    `邮箱${ADDRESS}，`,
    `_${ADDRESS}_`,
  ]) {
    assert.ok(betrays(Buffer.from(text), ADDRESS), text)
    assert.ok(!betrays(Buffer.from(redact(text, erasing)), ADDRESS), text)
    assert.match(redact(text, erasing), /X/, text)
  }
  assert.ok(betrays(Buffer.from('Ask ann@th=\r\nere.test now'), ADDRESS), 'folded by quoted-printable')
})

test('finds base64 at every offset, in any case and with any line breaks', () => {
  for (const form of [ADDRESS, ADDRESS.toUpperCase(), 'aNn@tHere.Test'])
    for (let shift = 0; shift < 6; shift++)
      for (const fold of [76, 7, 1000]) {
        const text = Buffer.from(`${' '.repeat(shift)}<${form}> is here`).toString('base64')
        const lines = text.match(new RegExp(`.{1,${fold}}`, 'g'))!.join('\r\n')
        assert.ok(betrays(Buffer.from(lines), ADDRESS), `${form} at ${shift}, folded at ${fold}`)
        assert.ok(betrays(Buffer.from(Buffer.from(text, 'base64').toString('base64url')), ADDRESS), 'base64url')
      }
})

test('finds other scripts, UTF-16 and its base64', () => {
  assert.ok(betrays(Buffer.from('an ÄNN@there.test,'), 'änn@there.test'))
  assert.equal(redact('ÄNN@There.test', { ...erasing, address: 'änn@there.test' }), 'X')
  for (const text of ['to ann@bücher.test.', 'to ANN@BÜCHER.test.', 'to ann@xn--bcher-kva.test.'])
    assert.ok(betrays(Buffer.from(text), 'ann@xn--bcher-kva.test'), text)
  for (let shift = 0; shift < 3; shift++) {
    const wide = Buffer.from(`${' '.repeat(shift)}to ${ADDRESS} and more`, 'utf16le')
    assert.ok(betrays(wide, ADDRESS))
    assert.ok(betrays(Buffer.from(wide.toString('base64')), ADDRESS), String(shift))
    assert.ok(betrays(Buffer.from(Buffer.from(wide).swap16().toString('base64')), ADDRESS), String(shift))
  }
})

test('ignores longer addresses', () => {
  for (const other of OTHERS) {
    assert.equal(redact(`a ${other} b`, erasing), `a ${other} b`)
    assert.ok(!betrays(Buffer.from(`a ${other} b`), ADDRESS), other)
    for (let shift = 0; shift < 3; shift++) {
      const text = Buffer.from(`${' '.repeat(shift)}${other} and more`).toString('base64')
      assert.ok(!betrays(Buffer.from(text), ADDRESS), `${other} in base64 at ${shift}`)
    }
  }
  assert.equal(redact(`xann@there.test, ${ADDRESS}`, erasing), 'xann@there.test, X')
})

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], otherDomains: ['other.test'] }))

/** Text columns that can contain an address, by table. Each gets the address. */
const SPOKEN: Record<string, string[]> = {}
// Attempts of a mail that names the address go as whole rows; the address of an inbox stays until it is removed.
for (const { name, person, table } of COLUMNS)
  if (person !== undefined && table !== 'attempts' && `${table}.${name}` !== 'inboxes.address')
    (SPOKEN[table] ??= []).push(name)
const JSON_LISTS = /^(?:recipients|to|cc|bcc|reply_to|references|attachments)$/
const EXACT = /^(?:contacts\.email|signups\.email|suppressions\.email|soft_bounces\.email|deliveries\.address)$/

interface Column {
  name: string
  type: string
  notnull: 0 | 1
  pk: number
}

/** A row in every table, said by `said`; keys given by `of`, so that references hold. */
async function fill(user: number, of: number, said: string): Promise<void> {
  const { store } = postrider.appliance.deps
  await store.write((tx) => {
    for (const table of Object.keys(SPOKEN)) {
      const columns = tx.all(raw<Column>(`select * from pragma_table_info('${table}')`))
      const values: Record<string, unknown> = {}
      for (const { name, notnull, type } of columns) {
        if (SPOKEN[table]!.includes(name))
          values[name] = EXACT.test(`${table}.${name}`)
            ? said
            : name === 'content' && table === 'inbound_messages'
              ? Buffer.from(`From: ${said}\r\n\r\n${Buffer.from(`it is <${said}>`).toString('base64')}\r\n`)
              : JSON_LISTS.test(name) && table !== 'outbound_emails'
                ? JSON.stringify([said])
                : name === 'payload'
                  ? JSON.stringify({ type: 'x', data: { recipient: said } })
                  : name === 'data'
                    ? JSON.stringify({ url: `https://x.test/?to=${said.replace('@', '%40')}` })
                    : `"${said}"`
        else if (name === 'user_key') values[name] = user
        else if (name === 'domain_key') values[name] = user
        else if (['campaign_key', 'contact_key', 'batch_key'].includes(name)) values[name] = null
        else if (name === 'inbox_key' && !notnull) values[name] = null
        else if (/_key$|^key$/.test(name)) values[name] = of
        else if (name === 'id' || (name === 'hash' && type === 'TEXT')) values[name] = `${table}-${of}`
        else if (name === 'status') values[name] = table === 'deliveries' ? 'delivered' : 'x'
        else if (name === 'next_attempt_at' || name === 'deleted_at') values[name] = null
        else if (notnull) values[name] = type === 'INTEGER' ? of : type === 'BLOB' ? Buffer.from(`${of}`) : `x${of}`
      }
      if (table === 'outbound_emails') values['to'] = said
      const names = Object.keys(values)
      tx.run(
        raw(
          `insert ${table === 'brands' ? 'or ignore ' : ''}into ${table} (${names.map((name) => `"${name}"`).join(', ')}) values (${names.map(() => '?').join(', ')})`,
          Object.values(values),
        ),
      )
    }
  })
}

const dump = (where: number): string => {
  const { store } = postrider.appliance.deps
  return JSON.stringify(
    Object.keys(SPOKEN).map((table) => {
      const columns = store.all(raw<Column>(`select * from pragma_table_info('${table}')`)).map(({ name }) => name)
      const by = ['key', 'email_key', 'message_key', 'hour'].find((name) => columns.includes(name))!
      return [
        table,
        store.all(raw<Record<string, unknown>>(`select * from ${table} where ${by} = ${where}`)).map((row) => ({
          ...row,
          ...(row['content'] instanceof Uint8Array ? { content: Buffer.from(row['content']).toString('latin1') } : {}),
        })),
      ]
    }),
  )
}

test('scrubs every column with addresses, and keeps other addresses and the rows of other users', async () => {
  const { deps } = postrider.appliance
  const { store } = deps
  const { key } = store.first(raw<{ key: number }>('select key from users where id = ?', [postrider.user.id]))!
  const other = store.first(raw<{ key: number }>('select key from users where id = ?', [postrider.other.id]))!
  await fill(key, 1001, ADDRESS)
  await fill(key, 1002, 'xann@there.test')
  await fill(key, 1003, 'ann@there.test.example')
  const neighbours = dump(1002) + dump(1003)
  assert.match(neighbours, /xann@there\.test.*ann@there\.test\.example/s)
  await scrub(deps, erasingOf(deps.keyring, key, ADDRESS, deps.clock.now()))
  assert.ok(dump(1002) + dump(1003) === neighbours, 'longer addresses were touched')
  assert.doesNotMatch(dump(1001), /ann(?:@|%40)there/i)

  await fill(key, 1104, 'Bob.Jones@There.Test')
  await fill(other.key, 1105, 'carl@there.test')
  const others = dump(1105)
  await scrub(deps, erasingOf(deps.keyring, key, 'carl@there.test', deps.clock.now()))
  assert.ok(dump(1105) === others, 'another user’s rows were touched')
  await store.write((tx) => {
    for (const [table, column] of [
      ['contacts', 'email'],
      ['signups', 'email'],
      ['suppressions', 'email'],
      ['soft_bounces', 'email'],
    ])
      tx.run(raw(`update ${table} set ${column} = lower(${column}) where key = 1104`))
  })
  await scrub(deps, erasingOf(deps.keyring, key, 'bob.jones@there.test', deps.clock.now()))
  assert.deepEqual(await filesWith(postrider.dataDir, 'bob.jones@there.test'), [])
})

test('ten thousand records do not block the event loop', async (t) => {
  const { deps } = postrider.appliance
  const { key } = deps.store.first(raw<{ key: number }>('select key from users where id = ?', [postrider.user.id]))!
  await deps.store.write((tx) =>
    tx.run(
      raw(
        `with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000)
         insert into events (id, user_key, type, data, created_at)
         select 'e' || i, ?, 'email.bounced', json_object('response', '550 <many@there.test> ' || i), 1 from n`,
        [key],
      ),
    ),
  )
  // Between two turns of the event loop: work, not time.
  let longest = 0
  let turns = 0
  let over = false
  let since = meter()
  const turn = (): void => {
    longest = Math.max(longest, since())
    since = meter()
    turns++
    if (!over) setImmediate(turn)
  }
  turn()
  await scrub(deps, erasingOf(deps.keyring, key, 'many@there.test', deps.clock.now()))
  over = true
  t.diagnostic(`${turns} turns of the event loop, the longest worked for ${Math.round(longest)} ms`)
  assert.deepEqual(await filesWith(postrider.dataDir, 'many@there.test'), [])
  within(1000, longest)
})
