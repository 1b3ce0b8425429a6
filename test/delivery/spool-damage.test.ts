// Damaged spool files (D130): the email waits as corrupt (D72), blocks no other email and no thread, and can be viewed
// and removed. Verify and backup report it.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { faultsOf } from '../../src/archive/integrity.ts'
import { makePipe } from '../kit/pipe.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const lines: string[] = []
const { attempted, become, post, receiver, show, turnToNext } = mailsOf(() => postrider)
let rcpt: string | undefined
const exchanger = testExchanger({ answer: (command) => (command.startsWith('RCPT') ? rcpt : undefined) })
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, logged: { level: 'info', lines }, domains: ['here.test'] }),
)
const large = `<p>${'x'.repeat(300_000)}</p>`

const logged = (event: string): Record<string, string>[] =>
  lines.map((line) => JSON.parse(line) as Record<string, string>).filter((line) => line['event'] === event)

/** A large email that was deferred once. `path` is its file. */
async function waiting(to: string): Promise<{ id: string; path: string }> {
  rcpt = '451 4.7.1 later'
  const id = await post({ to, html: large })
  await attempted(id, 1)
  rcpt = undefined
  const spool = join(postrider.dataDir, 'spool')
  return {
    id,
    path: join(
      spool,
      readdirSync(spool).find((name) => name.startsWith(id))!,
    ),
  }
}

for (const [label, put, verified] of [
  ['a pipe', makePipe, /is not a file/],
  ['a directory', (path: string) => mkdirSync(path), /is not a file/],
  ['a link to a device', (path: string) => symlinkSync('/dev/zero', path), /is not a file/],
  ['missing', () => {}, /is missing/],
] as const)
  test(`queues an email as corrupt, without a hanging thread, if its spool file is ${label} (D72, D130)`, async () => {
    const domain = `d${label.length}.test`
    receiver(domain)
    const { id, path } = await waiting(`a@${domain}`)
    renameSync(path, `${path}-aside`)
    put(path)
    lines.length = 0
    await turnToNext(id)
    await until(() => logged('email_corrupt').some((line) => line['id'] === id), 'the corrupt email')
    await until(async () => (await show(id)).recipients[0]?.response?.includes('problem on this server'))
    assert.equal((await show(id))['html'], null)
    await become(await post({ to: `b@${domain}`, html: large }), 'delivered')
    assert.match((await faultsOf(postrider.appliance.deps)).join(), verified)
    assert.deepEqual(logged('internal_error'), [])
    rmSync(path, { recursive: true, force: true })
    renameSync(`${path}-aside`, path)
    await turnToNext(id)
    assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 2)
  })

test('deletes an email with a directory in place of its file, with a log line (D72)', async () => {
  receiver('removed.test')
  const { id, path } = await waiting('a@removed.test')
  rmSync(path)
  mkdirSync(path)
  lines.length = 0
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).status, 404)
  assert.equal(logged('spool_delete_failed').length, 1)
  assert.deepEqual(logged('internal_error'), [])
})
