import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Commands, sentenceOf } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('inbox')
const config = join(folder, 'postrider.toml')
const commands = new Commands(folder, ['--config', config])

before(async () => {
  writeFileSync(
    config,
    `hostname = "mx.postrider.test"
     data_dir = ${JSON.stringify(join(folder, 'data'))}
     regions = ["default", "eu"]`,
  )
  makeInstallation(join(folder, 'data'))
  for (const user of ['ann@owner.test', 'bob@other.test']) await commands.json('user', 'add', user)
  for (const name of ['here.test', 'bücher.test'])
    await commands.json('domain', 'add', name, '--user', 'ann@owner.test')
  for (const region of ['default', 'eu'])
    await commands.json('domain', 'add', 'twice.test', '--user', 'ann@owner.test', '--region', region)
})
after(async () => {
  await commands.close()
})

const ANN = ['--user', 'ann@owner.test']
const text = async (...argv: string[]): Promise<string> => {
  const { code, stdout, stderr } = await commands.run(argv)
  assert.deepEqual([code, stderr], [0, ''])
  return stdout
}

interface Shown {
  id: string
  address: string
  name: string
  user: string
}

test('list is empty at first', async () => {
  assert.equal(await text('inbox', 'list'), 'There are no inboxes.\n')
  assert.deepEqual(await commands.json('inbox', 'list'), [])
})

test('add prints the address and the MX record', async () => {
  const said = await text('inbox', 'add', 'Support@Here.test', ...ANN, '--name', 'Support')
  assert.match(
    said,
    /^support@here\.test receives email when here\.test is verified\. Until then Postrider defers it \(451\)\. If DNS/,
  )
  assert.match(said, /here\.test\. MX 10 mx\.postrider\.test/)
  assert.match(said, /postrider domain records here\.test/)
  const { zone } = await commands.json('domain', 'records', 'here.test')
  assert.match(zone, /^here\.test\. \d+ IN MX 10 mx\.postrider\.test\.$/m)
  const made = await commands.json<Shown>('inbox', 'add', 'SALES@here.test', ...ANN)
  assert.deepEqual(made, { id: made.id, address: 'sales@here.test', name: 'sales@here.test', user: 'ann@owner.test' })
})

test('list shows each inbox with its owner', async () => {
  const all = await commands.json<Shown[]>('inbox', 'list')
  assert.deepEqual(
    all.map(({ address, name, user }) => [address, name, user]),
    [
      ['support@here.test', 'Support', 'ann@owner.test'],
      ['sales@here.test', 'sales@here.test', 'ann@owner.test'],
    ],
  )
  const lines = (await text('inbox', 'list')).trimEnd().split('\n')
  assert.match(lines[0]!, /^ADDRESS +NAME +USER +ID$/)
  assert.equal(lines.length, 3)
  assert.ok(lines[1]!.includes('support@here.test') && lines[1]!.endsWith(all[0]!.id))
})

test('inbox remove deletes an inbox, and the MX record with the last inbox of the domain', async () => {
  const records = async (): Promise<string> =>
    (await commands.json<{ zone: string }>('domain', 'records', 'here.test')).zone
  const [support] = await commands.json<Shown[]>('inbox', 'list')
  assert.deepEqual(await commands.json('inbox', 'remove', 'SUPPORT@here.test'), { removed: [support!.id] })
  assert.match(await records(), /^here\.test\. \d+ IN MX /m)
  assert.match(await text('inbox', 'remove', 'sales@here.test'), /^Removed the inbox sales@here\.test\.\n$/)
  assert.doesNotMatch(await records(), /^here\.test\. \d+ IN MX /m)
  assert.deepEqual(await commands.json('inbox', 'list'), [])
  assert.match(await commands.fails('inbox', 'remove', 'sales@here.test'), /sales@here\.test.*inbox list/)
})

test('an address can be created again after it was deleted', async () => {
  await commands.json('inbox', 'add', 'again@here.test', ...ANN)
  await commands.json('inbox', 'remove', 'again@here.test')
  await commands.json('inbox', 'add', 'again@here.test', ...ANN)
  await commands.json('inbox', 'remove', 'again@here.test')
})

test('all three commands accept a domain in Unicode', async () => {
  const made = await commands.json<Shown>('inbox', 'add', 'hallo@Bücher.test', ...ANN)
  assert.equal(made.address, 'hallo@xn--bcher-kva.test')
  assert.match(await commands.fails('inbox', 'add', 'hallo@bücher.test', ...ANN), /already/)
  assert.deepEqual(await commands.json('inbox', 'remove', 'hallo@bücher.test'), { removed: [made.id] })
})

test('errors are one sentence that names the wrong argument', async () => {
  const wrong: [string[], RegExp][] = [
    [['add', 'box@foreign.test', ...ANN], /foreign\.test is not/],
    [['add', 'box@here.test', '--user', 'bob@other.test'], /here\.test is not/],
    [['add', 'box@here.test', '--user', 'nobody@owner.test'], /nobody@owner\.test/],
    [['add', 'box', ...ANN], /"box" is not an email address/],
    [['add', 'a b@here.test', ...ANN], /"a b@here\.test" is not an email address/],
    [['add', '', ...ANN], /not an email address/],
    [['add', 'box@twice.test', ...ANN], /several regions/],
    [['remove', 'nobody@here.test'], /nobody@here\.test/],
    [['remove', 'no address'], /no address/],
  ]
  for (const [argv, label] of wrong) {
    assert.match(await commands.fails('inbox', ...argv), label)
    assert.match(sentenceOf(await commands.run(['inbox', ...argv]), argv.join(' ')), label)
  }
  assert.deepEqual(await commands.json('inbox', 'list'), [])
})

test('rejects the same names as the API', async () => {
  for (const name of ['', 'x'.repeat(10_000), 'two\nlines'])
    assert.match(await commands.fails('inbox', 'add', 'named@here.test', ...ANN, '--name', name), /name/)
})

test('prints the usage after a wrong command line', async () => {
  for (const [argv, label] of [
    [['inbox', 'add', ...ANN], /missing required argument 'address'/],
    [['inbox', 'add', 'box@here.test'], /required option '--user <email>'/],
    [['inbox', 'add', 'box@here.test', 'other@here.test', ...ANN], /too many arguments/],
    [['inbox', 'add', 'box@here.test', '--owner', 'ann@owner.test', ...ANN], /unknown option '--owner'/],
    [['inbox', 'remove'], /missing required argument 'address'/],
    [['inbox', 'list', 'here.test'], /too many arguments/],
    [['inbox', 'delete', 'box@here.test'], /unknown command 'delete'/],
  ] as [string[], RegExp][])
    assert.match(await commands.misused(...argv), label)
})
