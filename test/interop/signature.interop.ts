// Signatures with other verifiers: 500 emails of every kind, small and large, pass. With a second copy of a displayed
// header field in front, all fail (RFC 6376 §8.15).
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { sign, signLarge } from '../../src/message/dkim.ts'
import { letter } from '../kit/letters.ts'
import { withPrograms } from './rig/need.ts'
import { PROGRAMS } from './rig/sandbox.ts'
import { opendkimAll, perlDkimAll, pythonDkimAll, type DkimKey } from './rig/verifiers.ts'

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const SIGNATURE = { domain: 'here.example', selector: 'one', privateKey, time: Date.UTC(2026, 10, 20, 16, 53, 57) }
const KEY: DkimKey = {
  selector: 'one',
  domain: 'here.example',
  record: `v=DKIM1; k=rsa; p=${publicKey.export({ type: 'spki', format: 'der' }).toString('base64')}`,
}
const MAILS = Array.from({ length: 500 }, (_, seed) => sign(letter(seed), SIGNATURE))
const ADDED = ['From', 'Subject', 'To', 'Reply-To', 'Content-Type', 'List-Unsubscribe']

const JUDGES = [
  { name: 'OpenDKIM', judge: opendkimAll, needs: [PROGRAMS.opendkim] },
  { name: 'python3-dkim', judge: pythonDkimAll, needs: [PROGRAMS.python, PROGRAMS.pythonDkim] },
  { name: 'Mail::DKIM', judge: perlDkimAll, needs: [PROGRAMS.perl, PROGRAMS.perlDkim] },
]

for (const { judge, name, needs } of JUDGES)
  withPrograms(
    `signatures before ${name}`,
    needs.filter((path) => !existsSync(path)),
    () => {
      const passing = async (mails: readonly string[]): Promise<{ index: number; ok: boolean; detail: string }[]> =>
        (
          await judge(
            mails.map((mail) => Buffer.from(mail)),
            [KEY],
          )
        ).map((said, index) => ({ index, ...said }))

      test('all 500 emails pass', async () => {
        const said = await passing(MAILS)
        assert.deepEqual(
          said.filter(({ ok }) => !ok),
          [],
        )
        assert.equal(said.length, 500)
      })

      for (const field of ADDED)
        test(`every email with a second ${field} in front fails`, async () => {
          const said = await passing(MAILS.map((mail) => `${field}: x@evil.example\r\n${mail}`))
          assert.deepEqual(
            said.filter(({ ok }) => ok),
            [],
          )
          // What is said is said of the signature, not of a letter that could not be read.
          assert.deepEqual(
            said.filter(({ detail }) => !/signature verification failed|does not match|has been altered/.test(detail)),
            [],
          )
        })

      test('large emails pass, and fail with a second field in front', async () => {
        const lines = Array.from(
          { length: 25_000 },
          (_, n) => `${n} two  spaces, a tab\tand ${'x'.repeat(n % 40)} \r\n${'\r\n'.repeat(n % 3)}`,
        )
        const mails = ['', '\r\n\r\n'].map((end) => {
          const message = `From: ann@here.example\r\nSubject: large\r\n\r\n${lines.join('')}end${end}\r\n`
          return signLarge(Buffer.from(message), SIGNATURE) + message
        })
        assert.deepEqual(
          (await passing(mails)).filter(({ ok }) => !ok),
          [],
        )
        assert.deepEqual(
          (await passing(mails.map((mail) => `Subject: x\r\n${mail}`))).filter(({ ok }) => ok),
          [],
        )
      })
    },
  )
