// `postrider contacts import` with CSV files of common applications. An unreadable file is rejected, and invalid rows
// of a readable one are counted and reported by line (D42).
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createWriteStream, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../src/base/clock.ts'
import { addAudience } from '../../src/campaigns/audiences.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { Commands, start } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('contacts')
const config = join(folder, 'here.toml')
const data = join(folder, 'data')
const commands = new Commands(folder, ['--config', config])
let files = 0

before(async () => {
  writeFileSync(
    config,
    `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(data)}\n[dns]\nservers = ["127.0.0.1:1"]\n`,
  )
  makeInstallation(data)
  await commands.json('user', 'add', 'ann@owner.test')
  await commands.json('domain', 'add', 'here.test', '--user', 'ann@owner.test')
})
after(async () => {
  await commands.close()
})

function opened() {
  const store = openStore(data)
  return { store, close: () => store.close() }
}

/** Creates an audience. Returns its id. */
async function audience(name = 'Readers'): Promise<string> {
  const { store, close } = opened()
  const domain = store.first<{ key: number; user_key: number }>(raw('select key, user_key from domains'))!
  const { id } = await addAudience({ store, clock: systemClock }, domain, { name })
  close()
  return id
}

interface Kept {
  email: string
  name: string | null
  custom_fields: string | null
}

function kept(id: string): Kept[] {
  const { store, close } = opened()
  const rows = store.all<Kept>(
    raw(
      `select c.email, c.name, c.custom_fields from contacts c join audiences a on a.key = c.audience_key
       where a.id = ? order by c.email`,
      [id],
    ),
  )
  close()
  return rows
}

function file(content: string | Uint8Array): string {
  const path = join(folder, `list-${++files}.csv`)
  writeFileSync(path, content)
  return path
}

const bring = (id: string, content: string | Uint8Array, ...options: string[]) =>
  commands.json('contacts', 'import', id, file(content), ...options)
/** The counts of an import. Omitted ones are zero. */
const came = (counts: Record<string, unknown>) => ({
  created: 0,
  updated: 0,
  unsubscribed: 0,
  suppressed: 0,
  skipped: 0,
  errors: [],
  ...counts,
})
const ANN = { email: 'ann@there.test', name: 'Ann', custom_fields: '{"plan":"Größe"}' }

test('reads UTF-8 with and without byte order mark, Latin-1, every delimiter and every line end', async () => {
  const text = 'email,name,plan\nann@there.test,Ann,Größe\n'
  const forms: Record<string, string | Uint8Array> = {
    plain: text,
    mark: `\ufeff${text}`,
    semicolons: text.replaceAll(',', ';'),
    tabs: `\ufeff${text.replaceAll(',', '\t')}`,
    'no end': text.trimEnd(),
    crlf: text.replaceAll('\n', '\r\n'),
    cr: text.replaceAll('\n', '\r'),
    latin1: Buffer.from(text, 'latin1'),
    quoted: '"email","name","plan"\n"ann@there.test","Ann","Größe"\n',
    'other order and case': 'plan,NAME, Email \nGröße,Ann, ANN@there.test \n',
    'empty lines': `\n\n${text}\n\n`,
    'UTF-16, little end first': Buffer.from(`\ufeff${text}`, 'utf16le'),
    'UTF-16, big end first': Buffer.from(`\ufeff${text}`, 'utf16le').swap16(),
    'UTF-16 without mark': Buffer.from(text, 'utf16le'),
    'a first line of the delimiter': `sep=;\r\n${text.replaceAll(',', ';').replaceAll('\n', '\r\n')}`,
    'and of another one': Buffer.from(`\ufeff"sep=|"\n${text.replaceAll(',', '|')}`, 'utf16le'),
    'E-mail': text.replace('email', 'E-mail'),
    'Email Address': text.replace('email', 'Email Address'),
    'a name in two columns': 'Vorname,plan,EMAIL,Nachname\nAnn,Größe,ann@there.test,\n',
  }
  for (const [name, content] of Object.entries(forms)) {
    const id = await audience(name)
    assert.deepEqual(await bring(id, content), came({ created: 1 }), name)
    const [{ custom_fields, ...rest }] = kept(id) as [Kept]
    const { Vorname, ...fields } = JSON.parse(custom_fields!)
    assert.deepEqual({ ...rest, custom_fields: JSON.stringify(fields) }, ANN, name)
    assert.equal(Vorname, name === 'a name in two columns' ? 'Ann' : undefined)
  }
  const id = await audience()
  await bring(id, Buffer.from('email;name\nann@there.test;René', 'latin1'))
  assert.equal(kept(id)[0]!.name, 'René')
})

test('reads delimiters, quotes and line ends in quotes, and another delimiter in a title', async () => {
  const id = await audience()
  await bring(id, 'email;"a, b, c, d";note\nann@there.test;1;"He said ""no"";\nand left"\nbob@there.test;2;\n')
  assert.deepEqual(
    kept(id).map(({ custom_fields }) => JSON.parse(custom_fields!)),
    [{ 'a, b, c, d': '1', note: 'He said "no";\nand left' }, { 'a, b, c, d': '2' }],
  )
  const hostile = await audience()
  await bring(hostile, 'email,__proto__,constructor,{{name}},a.b\nann@there.test,1,2,3,4\n')
  assert.equal(kept(hostile)[0]!.custom_fields, '{"__proto__":"1","constructor":"2","{{name}}":"3","a.b":"4"}')
})

test('names invalid rows by their line and imports the others', async () => {
  const id = await audience()
  const content = [
    'email,name,plan',
    'ann@there.test,Ann,a',
    'ANN@there.test,Ann again,a',
    'bob@there.test,Bob',
    'cid@there.test,Cid,c,more',
    'no address,X,x',
    ',X,x',
    `dan@there.test,${'é'.repeat(128)},x`,
    `eve@there.test,Eve,${'x'.repeat(65_536)}`,
    `${'f'.repeat(1000)}@there.test,Fay,x`,
    'gus@there.test,"G\u0007us",x',
    'hal@there.test,Hal,h',
  ].join('\n')
  const { created, errors, skipped } = await bring(id, content, '--force')
  assert.deepEqual([created, skipped], [3, 8])
  assert.deepEqual(errors, [
    { line: 5, reason: 'has 4 columns, the first line has 3' },
    { line: 6, reason: '"no address" is not an email address' },
    { line: 7, reason: 'has no email address' },
    { line: 8, reason: 'has a name that is too long or contains control characters' },
    { line: 9, reason: 'has more than 64 KB of custom fields' },
    { line: 10, reason: 'is too long for an email address' },
    { line: 11, reason: 'has a name that is too long or contains control characters' },
  ])
  assert.deepEqual(
    kept(id).map(({ email }) => email),
    ['ann@there.test', 'bob@there.test', 'hal@there.test'],
  )
  assert.deepEqual(await bring(id, content, '--force'), came({ skipped: 11, errors }))
})

test('rejects a file that cannot be read completely', async () => {
  const id = await audience('Whole')
  const many = Array.from({ length: 5000 }, (_, n) => `n${n}@there.test,x`).join('\n')
  const wide = Array.from({ length: 101 }, (_, n) => `k${n}`).join(',')
  for (const [content, said] of [
    ['', /empty/],
    ['\n\n', /empty/],
    ['name,plan\nAnn,x\n', /no column "email".*name, plan/],
    [`email,name\n${many}\nlast@there.test,"broken`, /Nothing was imported/i],
    [`email,name\n${many}\nlast@there.test,a"b"c\n"x"y,z\n`, /Nothing was imported/i],
    [`email,name\n${many}\nx@there.test,"${'x'.repeat(10_000_000)}"\n`, /line 5002 .*1 MB.*quote/],
    [`email,name\n${many}\nx@there.test,${'x'.repeat(10_000_000)}\n`, /line 500[12] .*1 MB/],
    [Buffer.from('PK\u0003\u0004 and more', 'latin1'), /zip archive. Unpack it first/],
    [Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0, 0, 9]), /binary data/],
    ['ann@there.test,Ann\nbob@there.test,Bob\n', /starts with a contact/],
    ['a heading\n\nemail,name\na@there.test,Ann\n', /no column "email"/],
    ['email,plan,plan\na@there.test,1,2\n', /two columns for the field "plan"/],
    ['email,Email\na@there.test,b@there.test\n', /two columns "email"/],
    ['email,name,NAME\na@there.test,b,c\n', /two columns "name"/],
    [`email,${wide}\n`, /100 columns/],
    [`email,${'k'.repeat(201)}\n`, /200 characters/],
    [`email,name\n${many}\nx@there.test,"${'x'.repeat(1_100_000)}"\n`, /nothing was imported/i],
  ] as const) {
    const { code, stderr, stdout } = await commands.run(['contacts', 'import', id, file(content)])
    assert.deepEqual([code, stdout], [1, ''], content.slice(0, 100).toString())
    assert.match(stderr, said)
    assert.doesNotMatch(stderr, /\n\s+at |node_modules/)
    assert.deepEqual(kept(id), [])
  }
  assert.match(await commands.fails('contacts', 'import', id, join(folder, 'none.csv')), /none\.csv/)
  assert.match(await commands.fails('contacts', 'import', id, folder), /is a directory; use a CSV file/)
  const unknown = await commands.fails('contacts', 'import', 'Unknown', folder)
  assert.match(unknown, /^There is no audience "Unknown"; create it at http.*\/audiences\/new/)
  assert.match(unknown, /of an existing one, such as ".+"\.$/)
  const nothing = start(['--config', config, 'contacts', 'import', id, '-'], folder)
  nothing.child.stdin.end()
  assert.equal(await nothing.ended, 1)
  assert.match(nothing.stderr(), /^postrider: Standard input is empty; pipe the file/)
  const only = await audience('Only a head')
  assert.deepEqual(await bring(only, 'email\n'), came({}))
})

test('finds an audience by its id, or by a unique name', async () => {
  const list = file('email\nann@there.test\n')
  assert.match(await commands.fails('contacts', 'import', 'Nobody', list), /no audience "Nobody"/)
  await audience('Twins')
  const second = await audience('Twins')
  assert.match(await commands.fails('contacts', 'import', 'Twins', list), /2 audiences have the name "Twins"/)
  assert.equal((await commands.json('contacts', 'import', second, list)).created, 1)
  const single = await audience('Single')
  assert.equal((await commands.json('contacts', 'import', 'Single', list)).created, 1)
  assert.equal(kept(single).length, 1)
  await commands.misused('contacts', 'import', 'Single')
})

test('prints text without a progress bar if there is no terminal, and no control characters of a file', async () => {
  const id = await audience('Told')
  const list = file('email\nann@there.test\n"\u001b[2Jx"\n')
  const { code, stderr, stdout } = await commands.run(['contacts', 'import', id, list, '--force'])
  assert.deepEqual([code, stderr], [0, ''])
  assert.match(stdout, /^1 contact was added to Told, 1 skipped \(1 invalid\)\.\n {2}line 3: /)
  assert.ok(!stdout.includes('\u001b'))
})

const withoutScript = spawnSync('script', ['--version']).status === 0 ? false : 'no program "script" to make a terminal'

test('shows a progress bar on a terminal', { skip: withoutScript }, async () => {
  const id = await audience('Barred')
  const list = file(`email\n${Array.from({ length: 500 }, (_, n) => `n${n}@there.test`).join('\n')}`)
  const program = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
  const run = (...more: string[]): string => {
    const words = [process.execPath, program, '--config', config, ...more, 'contacts', 'import', id, list]
    const { status, stdout } = spawnSync('script', ['-qec', words.join(' '), '/dev/null'], { encoding: 'utf8' })
    assert.equal(status, 0, stdout)
    return stdout
  }
  const seen = run()
  assert.match(seen, /\r\[#{30}\] 100 %\r?\n/)
  assert.match(seen, /500 contacts were added/)
  assert.deepEqual(JSON.parse(run('--json')), came({ skipped: 500 }))
})

test('imports ten thousand lines in bounded memory', async () => {
  const id = await audience('Large')
  const path = join(folder, 'large.csv')
  const out = createWriteStream(path)
  out.write('email,name,plan,city,note\n')
  for (let n = 0; n < 10_000; n++)
    out.write(`person.${n}@there.test,Person ${n},plan ${n % 7},"City, ${n % 99}",${'x'.repeat(60)}\n`)
  await new Promise<void>((resolve) => void out.end(resolve))
  const running = start(['--config', config, '--json', 'contacts', 'import', id, path], folder, {
    NODE_OPTIONS: '--max-old-space-size=64',
  })
  assert.equal(await running.ended, 0, running.stderr())
  assert.deepEqual(JSON.parse(running.stdout()), came({ created: 10_000 }))
})
