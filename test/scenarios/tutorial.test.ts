// docs/tutorial.md, typed by a new user next to a sandbox: every command, and the programs in Node, Python and PHP.
import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { portOf } from '../../src/base/network.ts'
import { start, type Running } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { until } from '../kit/until.ts'

const directory = temporaryDirectory('tutorial')
const text = readFileSync(new URL('../../docs/tutorial.md', import.meta.url), 'utf8')
const blocks = (language: string): string[] =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm'))].map(([, block]) => block!)
const run = promisify(execFile)
const installed = (program: string): boolean => spawnSync(program, ['--version']).status === 0

let sandbox: Running
let env: Record<string, string>
before(async () => {
  const ports = ['--http', '--smtp', '--submission', '--submissions'].flatMap((option) => [option, '127.0.0.1:0'])
  sandbox = start(['--json', 'dev', ...ports], directory)
  const [line] = await sandbox.said(/^\{.*\}$/m)
  const { api, token } = JSON.parse(line!) as { api: string; token: string }
  env = { ...process.env, POSTRIDER_API: api, POSTRIDER_TOKEN: token } as Record<string, string>
})
after(async () => {
  sandbox.child.kill()
  await sandbox.ended
})

// oxlint-disable-next-line typescript/no-explicit-any
async function list(path: string): Promise<any[]> {
  const headers = { authorization: `Bearer ${env['POSTRIDER_TOKEN']}` }
  const response = await fetch(`${env['POSTRIDER_API']}/${path}`, { headers })
  assert.equal(response.status, 200, path)
  return ((await response.json()) as { data: unknown[] }).data
}

const statusOf = async (subject: string): Promise<string | undefined> =>
  (await list('outbound-emails')).find(({ attributes }) => attributes.subject === subject)?.attributes.status

const programs: [language: string, program: string, file: string][] = [
  ['js', process.execPath, 'send.mjs'],
  ['python', 'python3', 'send.py'],
  ['php', 'php', 'send.php'],
]

for (const [language, program, file] of programs)
  test(
    `the ${language} program of the tutorial sends an email`,
    { skip: !installed(program) && `no ${program}` },
    async () => {
      const [source] = blocks(language)
      writeFileSync(join(directory, file), source!)
      const { stdout } = await run(program, [join(directory, file)], { env })
      assert.match(stdout, /201.* queued\n$/)
    },
  )

test('the curl command of the README sends an email', { skip: !installed('curl') && 'no curl' }, async () => {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const [, block = ''] = /^```sh\n(TOKEN=[^]*?)^```$/m.exec(readme) ?? []
  const mine = block
    .replace(/^TOKEN=.*$/m, 'TOKEN=$POSTRIDER_TOKEN')
    .replace('http://127.0.0.1:8025/api/v1', '$POSTRIDER_API')
  const { stdout } = await run('sh', ['-euc', mine], { env })
  assert.equal(JSON.parse(stdout).data.attributes.status, 'queued')
})

test('the commands of the tutorial work in their order', { skip: !installed('curl') && 'no curl' }, async () => {
  const [, , send, follow, refuse, create, replies] = blocks('sh')
  await run('sh', ['-euc', send!], { env })
  await until(async () => (await statusOf('First email')) === 'delivered', 'the delivery')
  const { stdout: followed } = await run('sh', ['-euc', follow!], { env })
  assert.match(followed, /"smtp_code":250/)
  await run('sh', ['-euc', refuse!], { env })
  await until(async () => (await statusOf('This one bounces')) === 'bounced', 'the bounce')
  const { stdout: again } = await run('sh', ['-euc', refuse!], { env })
  assert.match(again, /recipient_suppressed/)

  // The webhook is created with a port that the test holds, and gets that of the endpoint once this has one.
  const held = createServer().listen(0, '127.0.0.1')
  await once(held, 'listening')
  const { stdout: created } = await run('sh', ['-euc', create!.replace(':3000/', `:${portOf(held)}/`)], { env })
  const { id, attributes } = JSON.parse(created).data as { id: string; attributes: { secret: string } }
  const [, hook] = blocks('js')
  writeFileSync(join(directory, 'hook.mjs'), hook!)
  const endpoint = spawn(process.execPath, [join(directory, 'hook.mjs')], {
    env: { ...env, WEBHOOK_SECRET: attributes.secret, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  endpoint.stdout.setEncoding('utf8').on('data', (chunk: string) => (printed += chunk))
  try {
    const port = await until(() => /listening on port (\d+)/.exec(printed)?.[1], 'the endpoint')
    const forged = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{}' })
    assert.equal(forged.status, 401)
    const change = { data: { type: 'webhooks', id, attributes: { url: `http://127.0.0.1:${port}/hook` } } }
    const changed = await fetch(`${env['POSTRIDER_API']}/webhooks/${id}`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${env['POSTRIDER_TOKEN']}`, 'content-type': 'application/vnd.api+json' },
      body: JSON.stringify(change),
    })
    assert.equal(changed.status, 200)
    await run('sh', ['-euc', send!], { env })
    await until(() => printed.includes('email.delivered reply@friend.example'), 'the event')
  } finally {
    endpoint.kill()
    held.close()
  }

  const subjects = async () => (await list('inbound-emails')).map(({ attributes: { subject } }) => subject as string)
  await until(async () => (await subjects()).includes('Re: First email'), 'the reply')
  const { stdout: reply } = await run('sh', ['-euc', replies!], { env })
  assert.match(reply, /"subject":"Re: First email"/)
})
