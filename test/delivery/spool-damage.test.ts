// Whatever is in the place of a file of the spool (D130): the mail waits as damaged (D72), holds up no other and no
// thread, can be looked at and removed, and verify and backup say what is there.
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

/** A large mail that was put off once; `path` is its file. */
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

for (const [what, put, verified] of [
  ['a pipe', makePipe, /is not a file/],
  ['a directory', (path: string) => mkdirSync(path), /is not a file/],
  ['a link to a device', (path: string) => symlinkSync('/dev/zero', path), /is not a file/],
  ['nothing', () => {}, /is missing/],
] as const)
  test(`${what} in the place of a file of the spool: the mail waits as damaged, no thread hangs (D72, D130)`, async () => {
    const domain = `d${what.length}.test`
    receiver(domain)
    const { id, path } = await waiting(`a@${domain}`)
    renameSync(path, `${path}-aside`)
    put(path)
    lines.length = 0
    await turnToNext(id)
    await until(() => logged('mail is damaged').some((line) => line['id'] === id), 'the mail is damaged')
    await until(async () => (await show(id)).recipients[0]?.response?.includes('waits for this server'))
    assert.equal((await show(id))['html'], null)
    await become(await post({ to: `b@${domain}`, html: large }), 'delivered')
    assert.match((await faultsOf(postrider.appliance.deps)).join(), verified)
    assert.deepEqual(logged('fault'), [])
    rmSync(path, { recursive: true, force: true })
    renameSync(`${path}-aside`, path)
    await turnToNext(id)
    assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 2)
  })

test('a mail with a directory in the place of its file is removed, with a line in the log (D72)', async () => {
  receiver('removed.test')
  const { id, path } = await waiting('a@removed.test')
  rmSync(path)
  mkdirSync(path)
  lines.length = 0
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).status, 404)
  assert.equal(logged('file of the spool not removed').length, 1)
  assert.deepEqual(logged('fault'), [])
})
