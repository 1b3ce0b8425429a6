// Untrusted text cannot move the cursor of a terminal, colour it, change the direction of text or forge a line. Every
// command is run on a database that is full of such text, and with such text as arguments.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { leaves } from '../../src/cli/examples.ts'
import { createProgram } from '../../src/cli/main.ts'
import { forTerminal } from '../../src/base/clean-text.ts'
import { forTerminalJson } from '../../src/base/clean-text.ts'
import { raw } from '../../src/store/query.ts'
import { Lists } from '../lists/lists.ts'

const HOSTILE = 'x\u001b]0;title\u0007\u001b[2J\u009b31m\u202etxt\u2066\u2028\u0085\r\u007f\nFORGED y'
/** Hostile text that a user pastes as an argument, without line ends, which commands print as they are. */
const TYPED = HOSTILE.replaceAll(/[\r\n]/g, '')
const CONTROLS = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u
/** Commands that run until a signal, query DNS and time servers elsewhere, or write a configuration. */
const LEFT_OUT = new Set(['serve', 'standby', 'dev', 'init', 'doctor', 'help'])

const lists = new Lists()
/** Rows that are shown, by the commands that take their ids. */
const ids: Record<string, string> = {}

before(async () => {
  await lists.open()
  await lists.audience('Readers')
  await lists.within((store) =>
    store.write((tx) => {
      const columns = (table: string) =>
        tx.all(
          raw<{ name: string; type: string; required: 0 | 1; key: number; value: unknown }>(
            `select name, type, "notnull" as required, pk as key from pragma_table_info('${table}')`,
            [],
          ),
        )
      /** Adds a row with hostile texts in all columns except the given ones. */
      const put = (table: string, given: Record<string, unknown>): void => {
        const row = Object.fromEntries(
          columns(table)
            .filter(({ name }) => name !== 'key' || name in given)
            .map(({ name, required, type }) => {
              const value = type === 'TEXT' ? HOSTILE : type === 'BLOB' ? Buffer.alloc(1) : required ? 1 : null
              return [name, name in given ? given[name] : value] as const
            }),
        )
        const names = Object.keys(row)
        tx.run(
          raw(
            `insert into ${table} (${names.map((name) => `"${name}"`).join(', ')}) values (${names.map(() => '?').join(', ')})`,
            Object.values(row),
          ),
        )
      }
      const about = { user_key: 1, domain_key: 1 }
      ids['queue show'] = '01900000-0000-7000-8000-000000000001'
      put('users', {
        id: 'u',
        plan: 'unlimited',
        subscription_state: 'active',
        region: null,
        downgrade_to: null,
        downgrade_at: null,
      })
      put('tokens', { id: 't', user_key: 1, scopes: '["emails:send"]' })
      put('agents', { user_key: 1, pool: 'probation' })
      put('oauth_clients', { id: 'c', redirect_uris: JSON.stringify([HOSTILE]) })
      put('oauth_grants', { id: 'g', user_key: 1, client_key: 1, scopes: '["emails:send"]' })
      put('inboxes', { id: 'i', ...about, deleted_at: null })
      put('notices', { id: 'n', ...about })
      put('privacy_requests', { id: 'p', user_key: 1, kind: 'export', status: 'pending' })
      put('suppressions', { id: 's', ...about, reason: 'manual', source: 'manual', scope: 'all' })
      put('contacts', {
        id: 'k',
        user_key: 1,
        audience_key: 1,
        status: 'subscribed',
        custom_fields: JSON.stringify({ [HOSTILE]: HOSTILE, city: HOSTILE }),
        preferences: null,
      })
      put('outbound_emails', {
        id: ids['queue show'],
        ...about,
        key: 1,
        status: 'queued',
        cc: null,
        bcc: null,
        reply_to: null,
        headers: null,
        campaign_key: null,
        contact_key: null,
      })
      put('deliveries', { email_key: 1, domain_key: 1, role: 'to', status: 'queued' })
      tx.run(raw('update audiences set name = ?', [HOSTILE]))
    }),
  )
})
after(() => lists.close())

function assertHarmless(text: string, what: string): void {
  const found = CONTROLS.exec(text)
  assert.equal(
    found,
    null,
    `${what}: U+${found?.[0].codePointAt(0)!.toString(16)} in ${JSON.stringify(text.slice(Math.max(0, (found?.index ?? 0) - 80)).slice(0, 200))}`,
  )
  assert.doesNotMatch(text, /^FORGED/m, `${what}: ${text}`)
}

test('no command prints characters that move the cursor or forge a line', async () => {
  let shown = 0
  for (const [path, command] of leaves(createProgram({}))) {
    if (LEFT_OUT.has(path)) continue
    const required = command.options
      .filter(({ mandatory }) => mandatory)
      .flatMap(({ argChoices, long }) => [long!, argChoices?.[0] ?? TYPED])
    const places = command.registeredArguments.filter((each) => each.required)
    const hostile = places.map(({ argChoices }) => argChoices?.[0] ?? TYPED)
    const real = ids[path] === undefined ? [] : [[ids[path]]]
    for (const values of [hostile, ...real])
      for (const json of [[], ['--json']]) {
        const argv = [...json, ...path.split(' '), ...values, ...required]
        const { stderr, stdout } = await lists.commands.run(argv)
        assertHarmless(stderr, argv.join(' '))
        assertHarmless(stdout, argv.join(' '))
        if (json.length > 0 && stdout !== '' && path !== 'completion') {
          JSON.parse(stdout)
          if (stdout.includes('FORGED')) shown++
        }
      }
  }
  assert.ok(shown >= 9, `${shown} commands printed it`)
})

test('wrong usage quotes the typed text without control characters', async () => {
  for (const argv of [[TYPED], ['user', TYPED], ['queue', 'list', `--${TYPED}`], ['help', TYPED]])
    assertHarmless(await lists.commands.misused(...argv), argv.join(' '))
})

test('imports print column titles and cells without control characters', async () => {
  const list = lists.file(`"${HOSTILE}",x\n1,2\n`)
  const audience = await lists.audience('Titled')
  for (const argv of [
    ['contacts', 'import', audience, list],
    [
      'contacts',
      'import',
      audience,
      lists.file(`email,"${HOSTILE}",status\n"${HOSTILE}",a,b\na@there.test,"${HOSTILE}","${HOSTILE}"\n`),
    ],
    [
      'contacts',
      'import',
      audience,
      lists.file(`email,"${HOSTILE}",status\n"${HOSTILE}",a,b\na@there.test,"${HOSTILE}","${HOSTILE}"\n`),
      '--force',
    ],
    [
      'contacts',
      'import',
      audience,
      lists.file(`email,name,"${HOSTILE}"\na@there.test,Ann,"${HOSTILE}"\n`),
      '--dry-run',
    ],
    ['suppression', 'import', list, '--domain', 'here.test'],
    [
      'suppression',
      'import',
      lists.file(`email,reason\na@there.test,"${HOSTILE}"\n"${HOSTILE}",spam\n`),
      '--domain',
      'here.test',
      '--force',
    ],
  ])
    for (const json of [[], ['--json']]) {
      const { stderr, stdout } = await lists.commands.run([...json, ...argv])
      assertHarmless(stderr, argv.join(' '))
      assertHarmless(stdout, argv.join(' '))
      assert.match(stderr + stdout, /FORGED|email/)
    }
})

test('JSON escapes the control characters', () => {
  assert.equal(JSON.parse(forTerminalJson(JSON.stringify({ a: HOSTILE }))).a, HOSTILE)
  assertHarmless(forTerminalJson(JSON.stringify({ a: HOSTILE })), 'JSON')
  assertHarmless(forTerminal(HOSTILE), 'text')
})

test('only one file writes to the terminal', () => {
  const folder = new URL('../../src/', import.meta.url)
  const writers = (readdirSync(folder, { recursive: true }) as string[])
    // The programs that the reference of the API shows write to their reader's terminal.
    .filter((file) => file.endsWith('.ts') && file !== 'console/reference/samples.ts')
    .filter((file) =>
      /\b(?:process\.)?(?:stdout|stderr)\.write\b|console\.(?:log|error|warn|info)\(/.test(
        readFileSync(new URL(file, folder), 'utf8'),
      ),
    )
  assert.deepEqual(writers, ['views/command/terminal.ts'])
})
