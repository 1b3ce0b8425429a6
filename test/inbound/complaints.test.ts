// Which complaints count (D62): those with an authenticated sender and the token of an email of ours, in any form.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, test } from 'node:test'
import { dkimSign } from 'mailauth/lib/dkim/sign.js'
import { unsubscribeLocalPart } from '../../src/message/return-path.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { DAY } from '../mail/mails.ts'
import { feedback, homeOf, type Gone } from './home.ts'

const home = homeOf(
  () => postrider,
  () => exchanger,
)

const { comeHome, eventTypes, notices, send, show, suppressions } = home
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })

const exchanger = testExchanger({ tls: true })
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))

setUp(async () => {
  const key = publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
  for (const domain of ['there.test', 'stranger.test'])
    postrider.dns.set(`loop._domainkey.${domain}`, 'TXT', [`v=DKIM1; k=rsa; p=${key}`])
  postrider.dns.set('there.test', 'TXT', ['v=spf1 -all'])
  postrider.dns.set('reports.there.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
  postrider.dns.set('stranger.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
})

let count = 0
const someone = (): string => `someone${++count}@there.test`
const deliveredOnly = ['email.sent', 'email.delivered']

async function signed(message: string, signingDomain: string): Promise<string> {
  const wire = message.replaceAll('\n', '\r\n')
  const key = { signingDomain, selector: 'loop', privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }) }
  const { signatures } = await dkimSign(wire, { ...key, signatureData: [key] })
  return (signatures + wire).replaceAll('\r\n', '\n')
}

async function complained(gone: Gone, to: string): Promise<boolean> {
  const { status } = await show(gone.id)
  const reasons = (await suppressions(to)).map(({ reason }) => reason)
  assert.deepEqual(reasons, status === 'complained' ? ['complaint'] : [])
  assert.equal(eventTypes(gone.id).includes('email.complained'), status === 'complained')
  return status === 'complained'
}

describe('an authenticated complaint counts', () => {
  test('signed by the domain of its From, though SPF fails', async () => {
    const to = someone()
    const gone = await send({ to })
    const message = await signed(feedback(gone.returnPath, 'abuse', to, gone.heard.message), 'there.test')
    await comeHome({ from: 'a@there.test', to: gone.returnPath, message })
    assert.equal(await complained(gone, to), true)
  })

  test('unsigned, by SPF for a sender of the same organisation', async () => {
    const to = someone()
    const gone = await send({ to })
    const message = feedback(gone.returnPath, 'abuse', to, gone.heard.message)
    await comeHome({ from: 'loop@reports.there.test', to: gone.returnPath, message })
    assert.equal(await complained(gone, to), true)
  })
})

describe('an unauthenticated complaint has no effect and is reported', () => {
  const CASES: Record<string, (message: string) => Promise<{ from: string; message: string }>> = {
    'unsigned, and SPF fails': async (message) => ({ from: 'a@there.test', message }),
    'signed by another domain': async (message) => ({
      from: 'a@there.test',
      message: await signed(message, 'stranger.test'),
    }),
    'SPF passes for another domain': async (message) => ({ from: 'a@stranger.test', message }),
    'changed after it was signed': async (message) => ({
      from: 'a@there.test',
      message: (await signed(message, 'there.test')).replace('A report on a mail.', 'A report on mail.'),
    }),
    'with two From': async (message) => ({
      from: 'loop@reports.there.test',
      message: `From: other@elsewhere.test\n${message}`,
    }),
  }
  for (const [name, write] of Object.entries(CASES))
    for (const type of ['abuse', 'opt-out'])
      test(`${type}, ${name}`, async () => {
        const to = someone()
        const gone = await send({ to })
        postrider.clock.leap(DAY)
        const before = notices().length
        for (const address of [gone.returnPath, 'abuse@here.test']) {
          const sent = await write(feedback(address, type, to, gone.heard.message))
          await comeHome({ ...sent, to: address })
        }
        assert.equal(await complained(gone, to), false)
        assert.deepEqual(eventTypes(gone.id), deliveredOnly)
        const [notice, ...more] = notices().slice(before)
        assert.deepEqual(more, [])
        assert.equal(notice!.subject, 'Unauthenticated complaint')
        assert.match(notice!.text, /^2 in the last 24 hours\./)
        assert.ok(!notice!.text.includes(to), 'who may have complained does not stand in it')
      })
})

const PROVEN = 'staff@reports.there.test'
const lines = (...each: string[]): string => `${each.join('\n')}\n`
const headerOf = ({ heard }: Gone): string => heard.message.split('\r\n\r\n', 1)[0]!.replaceAll('\r\n', '\n')
const copyOf = ({ heard }: Gone): string => heard.message.replaceAll('\r\n', '\n')
const head = (subject: string, type: string, from = 'staff@reports.there.test'): string[] => [
  `From: ${from}`,
  'To: abuse@here.test',
  `Subject: ${subject}`,
  'MIME-Version: 1.0',
  `Content-Type: ${type}; boundary="b"`,
  '',
]
const tokenOf = ({ returnPath }: Gone): string => returnPath.split('@')[0]!

/** Our email's header without the return path, so that only our own addresses remain. */
const onlyUnsubscribe = (gone: Gone): string => {
  const delivery = postrider.appliance.deps.store.first(
    raw<{ key: number }>(
      'select key from deliveries where email_key = (select key from outbound_emails where id = ?)',
      [gone.id],
    ),
  )!
  const local = unsubscribeLocalPart(postrider.appliance.deps.keyring, delivery.key)
  return `Subject: Hello\nList-Unsubscribe: <https://x.test/u/abc>,\n <mailto:${local}@bounce.here.test>`
}

const FORMS: Record<string, (gone: Gone, to: string) => string> = {
  'ARF as Microsoft sends it since 2026: the recipient redacted, the header alone': (gone, to) =>
    lines(
      ...head('complaint about message from 192.0.2.1', 'multipart/report; report-type=feedback-report'),
      '--b',
      'Content-Type: text/plain',
      '',
      'This is an email abuse report for an email message received from IP 192.0.2.1.',
      '--b',
      'Content-Type: message/feedback-report',
      '',
      'Feedback-Type: abuse',
      'User-Agent: Microsoft-JMRP/2.0',
      'Version: 1',
      'Original-Rcpt-To: redacted',
      'Source-IP: 192.0.2.1',
      '',
      '--b',
      'Content-Type: text/rfc822-headers',
      '',
      headerOf(gone).replaceAll(to, 'redacted'),
      '',
      '--b--',
    ),
  'ARF whose copy is a whole message without body': (gone, to) =>
    lines(
      ...head('Email Feedback Report', 'multipart/report; report-type="feedback-report"'),
      '--b',
      'Content-Type: message/feedback-report',
      '',
      'Feedback-Type: abuse',
      '--b',
      'Content-Type: message/rfc822',
      '',
      headerOf(gone).replaceAll(to, 'redacted@there.test'),
      '',
      '--b--',
    ),
  'Microsoft until 2026: only our email in a multipart/mixed': (gone, to) =>
    lines(
      ...head('complaint about message from 192.0.2.1', 'multipart/mixed'),
      '--b',
      'Content-Type: message/rfc822',
      'Content-Disposition: inline',
      '',
      `X-HmXmrOriginalRecipient: ${to}`,
      copyOf(gone),
      '--b--',
    ),
  'words and our mail, from an address of complaints': (gone) =>
    lines(
      ...head('A user has reported your mail', 'multipart/mixed', 'complaints@reports.there.test'),
      '--b',
      'Content-Type: text/plain',
      '',
      'Our user says that this is spam.',
      '--b',
      'Content-Type: message/rfc822',
      '',
      copyOf(gone),
      '--b--',
    ),
  'a spam report in plain text, with the header of our mail': (gone) =>
    lines(
      'From: postmaster@reports.there.test',
      'To: abuse@here.test',
      'Subject: Spam report: Hello',
      '',
      'A user complains of this mail:',
      '',
      headerOf(gone),
      `Return-Path: <${gone.returnPath}>`,
    ),
  'fields of ARF in a part of text': (gone) =>
    lines(
      ...head('Feedback', 'multipart/report; report-type=feedback-report'),
      '--b',
      'Content-Type: text/plain',
      '',
      'Feedback-Type: abuse',
      `Original-Mail-From: <${gone.returnPath}>`,
      '',
      '--b--',
    ),
  'ARF whose copy has only the unsubscribe fields': (gone) =>
    lines(
      ...head('Abuse report', 'multipart/report; report-type=feedback-report'),
      '--b',
      'Content-Type: message/feedback-report',
      '',
      'Feedback-Type: abuse',
      '--b',
      'Content-Type: text/rfc822-headers',
      '',
      onlyUnsubscribe(gone),
      '',
      '--b--',
    ),
}

describe('an authenticated complaint is matched by a token in any form', () => {
  for (const [name, write] of Object.entries(FORMS))
    test(name, async () => {
      const to = someone()
      const gone = await send({ to })
      const before = notices().length
      await comeHome({ from: PROVEN, to: 'abuse@here.test', message: write(gone, to) })
      assert.equal(await complained(gone, to), true)
      assert.equal(notices().length, before)
    })

  for (const [name, write] of Object.entries(FORMS))
    test(`ignores an invalid token: ${name.slice(0, 40)}`, async () => {
      const to = someone()
      const gone = await send({ to })
      postrider.clock.leap(DAY)
      const before = notices().length
      const message = write(gone, to).replace(/(u-)?[a-z2-7]{26}(?=@)/g, '$1abcdefghijklmnopqrstuvwxyz')
      assert.ok(!message.includes(tokenOf(gone)))
      await comeHome({ from: PROVEN, to: 'abuse@here.test', message })
      assert.equal(await complained(gone, to), false)
      assert.deepEqual(
        notices()
          .slice(before)
          .map(({ subject }) => subject),
        ['Complaint about an unknown email'],
      )
    })

  test('counts complaints by receiver, even without a token', async () => {
    const counts = () =>
      postrider.appliance.deps.store.one(
        raw<{ complained: number; unmatched: number }>(
          `select sum(complained) as complained, sum(unmatched_complaints) as unmatched from receiver_tallies
           where receiver = 'there.test'`,
        ),
      )
    const before = counts()
    const to = someone()
    const gone = await send({ to })
    const [write] = Object.values(FORMS)
    await comeHome({ from: PROVEN, to: 'abuse@here.test', message: write!(gone, to) })
    assert.equal(await complained(gone, to), true)
    assert.deepEqual({ ...counts() }, { complained: before.complained + 1, unmatched: before.unmatched })
    const unknown = write!(gone, to).replace(/(u-)?[a-z2-7]{26}(?=@)/g, '$1abcdefghijklmnopqrstuvwxyz')
    await comeHome({ from: PROVEN, to: 'abuse@here.test', message: unknown })
    // A repeat has no effect. A complaint without authentication does not count.
    await comeHome({ from: PROVEN, to: 'abuse@here.test', message: write!(gone, to) })
    await comeHome({ from: 'a@there.test', to: 'abuse@here.test', message: unknown.replace('copy', 'Copy') })
    assert.deepEqual({ ...counts() }, { complained: before.complained + 1, unmatched: before.unmatched + 1 })
  })

  test('an ordinary message that quotes ours is not a complaint', async () => {
    const to = someone()
    const gone = await send({ to })
    const message = lines(...head('Fwd: Hello', 'multipart/mixed', to), '--b', '', 'Look at this.', '--b').concat(
      lines('Content-Type: message/rfc822', '', copyOf(gone), '--b--'),
    )
    await comeHome({ from: 'x@reports.there.test', to: 'abuse@here.test', message })
    assert.equal(await complained(gone, to), false)
  })
})
