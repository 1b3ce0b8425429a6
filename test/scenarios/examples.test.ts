// The examples of docs/examples.md, pasted into a shell next to a sandbox, as a new user would.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { start, type Running } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { until } from '../kit/until.ts'

const folder = temporaryDirectory('examples')
const text = readFileSync(new URL('../../docs/examples.md', import.meta.url), 'utf8')
const blocks = [...text.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block]) => block!)

/** `postrider dev`, on free ports, and its output. */
async function sandbox(env: Record<string, string> = {}): Promise<{ running: Running; shown: Record<string, string> }> {
  const running = start(
    [
      '--json',
      'dev',
      '--http',
      '127.0.0.1:0',
      '--smtp',
      '127.0.0.1:0',
      '--submission',
      '127.0.0.1:0',
      '--submissions',
      '127.0.0.1:0',
    ],
    folder,
    env,
  )
  const [line] = await running.said(/^\{.*\}$/m)
  return { running, shown: JSON.parse(line) as Record<string, string> }
}

let beside: Awaited<ReturnType<typeof sandbox>>
before(async () => {
  beside = await sandbox()
})
after(async () => {
  beside.running.child.kill()
  await beside.running.ended
})

const curl = spawnSync('curl', ['--version']).status === 0

test(
  'the examples run unchanged, except for the values that the sandbox prints',
  { skip: !curl && 'no curl' },
  async () => {
    const { shown } = beside
    const [first, ...others] = blocks
    const given: Record<string, string> = { API: shown['api']!, TOKEN: shown['token']!, RECEIVER: shown['receiver']! }
    assert.deepEqual(
      [...first!.matchAll(/^(\w+)=\S+$/gm)].map(([, name]) => name),
      Object.keys(given),
    )
    const mine = first!.replaceAll(/^(\w+)=\S+$/gm, (_, name: string) => `${name}='${given[name]!}'`)
    const script = ['set -eu', mine, ...others, 'printf "\\n%s %s\\n" "$CAMPAIGN" "$WEBHOOK"'].join('\n')
    const { stdout } = await promisify(execFile)('sh', ['-c', script])
    assert.doesNotMatch(stdout, /"errors":\[\{/)
    assert.match(stdout, /"secret":"whsec_/)
    assert.match(stdout, /"created":3/)
    const [campaign, webhook] = stdout.trim().split('\n').at(-1)!.split(' ')

    const get = async (path: string) => {
      const response = await fetch(`${given['API']}/${path}`, {
        headers: { authorization: `Bearer ${given['TOKEN']}` },
      })
      // oxlint-disable-next-line typescript/no-explicit-any
      return ((await response.json()) as any).data
    }
    await until(async () => (await get(`campaigns/${campaign}`)).attributes.status === 'sent', 'the campaign')
    const stats = await until(async () => {
      const { attributes } = await get(`campaigns/${campaign}/stats`)
      return attributes.bounces === 1 && attributes.deliveries === 2 ? attributes : undefined
    }, 'its figures')
    assert.equal(stats.recipients, 3)
    const subjects = (await get(`outbound-emails?filter%5Bcampaign%5D=${campaign}`)).map(
      (mail: { attributes: { subject: string } }) => mail.attributes.subject,
    )
    assert.deepEqual(subjects.toSorted(), ['News for ', 'News for Ann', 'News for Bob'])
    const told = await until(async () => {
      const all: { attributes: { event: string; outcome: string } }[] = await get(`webhooks/${webhook}/deliveries`)
      const done = all.filter(({ attributes }) => attributes.outcome === 'delivered')
      return done.length === 4 ? done.map(({ attributes }) => attributes.event) : undefined
    }, 'what the webhook was told')
    assert.deepEqual(told.toSorted(), ['campaign.sent', 'email.bounced', 'email.delivered', 'email.delivered'])
  },
)

test('the sandbox applies the configured storage.reserve', async () => {
  const { running, shown } = await sandbox({ POSTRIDER_STORAGE_RESERVE: '9000000GB' })
  try {
    const health = (await (await fetch(`${shown['url']}/health`)).json()) as { status: string }
    assert.equal(health.status, 'degraded')
  } finally {
    running.child.kill()
    await running.ended
  }
})
