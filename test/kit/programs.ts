// The programs of the API reference as readers get them: extracted from its pages, and run next to a server, one kind
// of operation after the other.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { SampleLanguage } from '../../src/console/reference/samples.ts'
import type { TestAppliance } from './appliance.ts'
import { plain } from './page.ts'
import { receive } from './sender.ts'
import { temporaryDirectory } from './directory.ts'

/** The id of the examples. */
const ID = /019bc186-de00-738a-a9ec-e0b19577265d/

/** How a program of each language is run, in a separate directory. */
export const RUNS: Record<SampleLanguage, { program: string; file: string; args: string[] }> = {
  curl: { program: 'sh', file: 'sample.sh', args: ['-e', 'sample.sh'] },
  Node: { program: process.execPath, file: 'sample.mjs', args: ['sample.mjs'] },
  Python: { program: 'python3', file: 'sample.py', args: ['sample.py'] },
  PHP: { program: 'php', file: 'sample.php', args: ['-d', 'display_errors=1', 'sample.php'] },
  Go: { program: 'go', file: 'sample.go', args: ['run', 'sample.go'] },
}

/** Every program of a page in a language, by the id of its operation. */
export const programsOn = (text: string, language: SampleLanguage): Map<string, string> =>
  new Map(
    [...text.matchAll(new RegExp(`<pre[^>]* id="([\\w-]+)-${language}-code"[^>]*>([^]*?)</pre>`, 'g'))].map(
      ([, id, code]) => [id!, plain(code!)],
    ),
  )

/**
 * Runs a program for each kind of operation: creates, lists, shows, updates and deletes an object, requests a view and
 * an action, downloads a file, and sends JSON and a form without a token. `here.test` is an active domain of the
 * server.
 */
export async function runPrograms(postrider: TestAppliance, language: SampleLanguage): Promise<void> {
  const { args, file, program } = RUNS[language]
  const folder = temporaryDirectory('programs')
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    TMPDIR: folder,
    POSTRIDER_TOKEN: postrider.token,
    GO111MODULE: 'off',
    GOCACHE: join(folder, 'cache'),
    GOFLAGS: '',
  }
  /** The output of the program of an operation, with its examples replaced by existing objects. */
  const run = async (resource: string, operation: string, ...changes: [RegExp, string][]): Promise<string> => {
    const page = await (await postrider.page(`/docs/${resource}`)).text()
    const code = programsOn(page, language).get(operation)
    assert.ok(code, `${operation} in ${language}`)
    const mine = changes.reduce((text, [from, to]) => {
      assert.match(text, from, operation)
      return text.replaceAll(new RegExp(from.source, 'g'), to)
    }, code)
    writeFileSync(join(folder, file), mine)
    const { stderr, stdout } = await promisify(execFile)(program, args, { cwd: folder, env, timeout: 240_000 })
    if (language !== 'curl') assert.equal(stderr, '', operation)
    return stdout
  }
  const one = async (path: string): Promise<{ status: number; body: any }> => postrider.api('GET', path) // oxlint-disable-line typescript/no-explicit-any
  mkdirSync(join(folder, 'cache'))
  const address = `${language.toLowerCase()}@here.test`
  assert.ok((await run('inboxes', 'createInbox', [/support@example\.org/, address])).includes(address))
  const made = (await one('/inboxes')).body.data.find(
    (each: { attributes: { address: string } }) => each.attributes.address === address,
  ).id as string
  assert.ok((await run('inboxes', 'listInboxes')).includes(made))
  assert.ok((await run('inboxes', 'getInbox', [ID, made])).includes(address))
  await run('inboxes', 'updateInbox', [ID, made], [/Support/, 'Renamed'])
  assert.equal((await one(`/inboxes/${made}`)).body.data.attributes.name, 'Renamed')

  const sent = await run('outbound-emails', 'createOutboundEmail', [/example\.org/, 'here.test'])
  const mail = /"id": ?"([^"]+)"/.exec(sent)![1]!
  assert.equal((await one(`/outbound-emails/${mail}`)).body.data.attributes.from, 'Shop <hello@here.test>')
  assert.ok((await run('outbound-email-stats', 'getOutboundEmailStats', [ID, mail])).includes('outbound-email-stats'))
  const domain = (await one('/domains')).body.data[0].id as string
  assert.ok((await run('domains', 'checkDomain', [ID, domain])).includes('here.test'))
  await run('recipient-exports', 'exportRecipient')

  const { id } = await receive(postrider, { to: address, message: `Subject: Hello\n\nTo ${language}.\n` })
  await run('inbound-emails', 'downloadInboundEmail', [ID, id])
  assert.match(readFileSync(join(folder, 'download'), 'latin1'), new RegExp(`Subject: Hello\r\n\r\nTo ${language}`))

  const registered = await run('oauth', 'registerOauthClient')
  const [, client] = /"client_id": ?"([^"]+)"/.exec(registered)!
  await run('oauth', 'revokeOauthToken', [ID, client!])

  await run('inboxes', 'deleteInbox', [ID, made])
  assert.equal((await one(`/inboxes/${made}`)).status, 404)
}
