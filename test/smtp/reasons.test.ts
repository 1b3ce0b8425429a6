// The meanings of SMTP replies (config/reply-reasons.toml): each entry matches its sample replies.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { classOf, isAboutUs, parseReasons, REPLY_CLASSES, reasonOf } from '../../src/smtp/reply-reason.ts'
import { providerNamed } from '../../src/smtp/shaping.ts'

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8')

describe('reasons of replies', () => {
  const reasons = parseReasons(read('../../config/reply-reasons.toml'))

  for (const { class: meant, name, receiver, samples, words } of reasons)
    for (const sample of samples)
      test(`${name}: ${sample.slice(0, 60)}`, () => {
        // It means the same with separate codes.
        const [, code, enhanced, text] = /^(?:([45]\d\d) )?(?:([45]\.\d+\.\d+) )?(.*)$/.exec(sample)!
        const apart = { code: code ? Number(code) : null, enhanced: enhanced ?? null, text: text! }
        for (const each of receiver ?? [undefined, 'there.test'])
          for (const reply of [{ text: sample }, apart]) {
            assert.equal(reasonOf(reply, each)?.name, name)
            assert.equal(reasonOf(reply, each)?.words, words)
          }
        // Its subject does not depend on the receiver.
        assert.equal(classOf(apart), meant)
      })

  test('each reply of the corpus has its class, and each receiver is in the shaping file', () => {
    const rows: [receiver: string | undefined, reply: string, meant: string][] = [
      ...['4.7.23', '5.7.25'].map((code): [string, string, string] => [
        'Google',
        `421 ${code} no PTR record`,
        'reverse',
      ]),
      ...['24', '26', '30', '31', '32'].flatMap((code): [string, string, string][] => [
        ['Google', `421 4.7.${code} rate limited`, 'authentication'],
        ['Google', `550 5.7.${code} blocked`, 'authentication'],
      ]),
      ['Google', '421 4.7.27 SPF did not pass', 'authentication'],
      ['Google', '550 5.7.27 SPF did not pass', 'authentication'],
      ['Google', '421 4.7.28 unusual rate', 'rate'],
      ['Google', '550 5.7.28 unusual rate', 'block'],
      ['Google', '421 4.7.29 not encrypted', 'tls'],
      ['Google', '550 5.7.29 not encrypted', 'tls'],
      ['Microsoft consumer', '550 5.7.1 on our block list (S3140)', 'block'],
      ['Microsoft consumer', '550 5.7.1 messages were not sent (S3150)', 'block'],
      ['Microsoft 365', '550 5.7.606 Access denied', 'block'],
      ['Microsoft 365', '550 5.7.630 Access denied', 'block'],
      ['Microsoft 365', '550 5.7.649 Access denied', 'block'],
      ['Microsoft consumer', '550 5.7.515 Access denied', 'authentication'],
      ['Microsoft 365', '451 4.7.500 Server busy', 'rate'],
      ['Microsoft consumer', '451 4.7.650 The mail server has been temporarily rate limited', 'reputation'],
      ['Yahoo', '421 4.7.0 [TSS04] deferred', 'rate'],
      ['Yahoo', '553 5.7.2 [TSS09] All messages', 'block'],
      ['Yahoo', '421 4.7.1 [TSS11] All messages', 'block'],
      ['Yahoo', '553 5.7.1 [BL21] Connections will not be accepted', 'block'],
      ['Yahoo', '554 5.7.9 Message not accepted for policy reasons', 'policy'],
      ['Apple', '554 5.7.1 [HM07] Message rejected', 'policy'],
      ['Apple', '554 5.7.1 [HM08] Message rejected', 'policy'],
      ['Apple', '550 5.7.1 [CS01] Message rejected', 'policy'],
      ['GMX and Web.de', '554 Bad DNS PTR resource record', 'reverse'],
      ['Telekom', '554 IP=192.0.2.1 - None/bad reputation. (NOWL)', 'reputation'],
      ['Orange', '421 Service refuse. OFR_999 [999]', 'rate'],
      ['there.test', '550 rejected, see https://www.spamhaus.org/query/ip/192.0.2.1', 'block'],
      [undefined, '550 rejected, see https://www.spamcop.net/bl.shtml', 'block'],
      ['Google', '550 rejected by b.barracudacentral.org', 'block'],
      ['there.test', '451 4.7.1 Greylisted', 'greylist'],
      ['there.test', '552 5.2.2 Mailbox full', 'full'],
      ['there.test', '550 5.1.1 No such user', 'user'],
    ]
    for (const [receiver, reply, meant] of rows) assert.equal(classOf({ text: reply }, receiver), meant, reply)
    for (const name of new Set(reasons.flatMap(({ receiver = [] }) => receiver)))
      assert.equal(providerNamed(name)?.name, name)
  })

  test('does not apply the meaning of a code at one provider to another', () => {
    assert.equal(reasonOf({ text: '550 5.7.606 Access denied' }, 'Microsoft 365')?.name, 'Microsoft: banned')
    assert.notEqual(reasonOf({ text: '550 5.7.606 Access denied' }, 'Google')?.name, 'Microsoft: banned')
    // A receiver without entries can quote the server that it forwards to.
    assert.equal(reasonOf({ text: '554 5.7.1 [HM08] Message rejected' }, 'there.test')?.name, 'Apple: policy')
  })

  test('only blocks, rates, reputation, authentication, reverse DNS and policies are about this server', () => {
    const ours = REPLY_CLASSES.filter((each) => isAboutUs(each))
    assert.deepEqual(ours, ['block', 'rate', 'reputation', 'authentication', 'reverse', 'policy'])
    assert.equal(isAboutUs(classOf({ text: '451 4.3.0 Temporary system problem, try again later' })), false)
  })

  test('has no explanation for an unknown or empty reply', () => {
    for (const text of ['', '550', '554 This is a refusal that nobody has heard of', '<script>alert(1)</script>'])
      assert.equal(reasonOf({ text }), undefined, text)
  })

  test('does not call an address suppressed after a temporary reply', () => {
    assert.notEqual(reasonOf({ text: '450 4.1.1 User unknown' })?.name, 'unknown')
  })

  test('has a reason for most real replies, and the right one for those about the mailbox', () => {
    const rows = read('./replies.tsv')
      .trim()
      .split('\n')
      .map((line) => line.split('\t'))
    const known = rows.filter(([, , , text]) => reasonOf({ text: text! }))
    assert.ok(known.length / rows.length > 0.75, `${known.length} of ${rows.length}`)
    const gone = rows.filter(([stage, meant]) => stage === 'rcpt' && meant === 'hard')
    const said = gone.filter(([, , , text]) => reasonOf({ text: text! })?.name === 'unknown')
    assert.ok(said.length / gone.length > 0.95, `${said.length} of ${gone.length}`)
    const full = rows.filter(([, meant]) => meant === 'quota')
    const room = full.filter(([, , , text]) => reasonOf({ text: text! })?.name === 'full')
    assert.ok(room.length / full.length > 0.95, `${room.length} of ${full.length}`)
  })

  test('rejects a malformed file', () => {
    const whole = ['name = "x"', 'sentence = "y"', 'fix = "y"', 'source = "https://there.test"', 'samples = ["z"]']
    const file = (...lines: string[]): string => ['[[reason]]', ...whole, ...lines, ''].join('\n')
    assert.equal(parseReasons(file("pattern = 'a'"))[0]?.words, 'y y')
    for (const lines of [[], ['pattern = "("'], ['codes = ["5.7"]'], ["pattern = 'a'", 'class = "odd"']])
      assert.throws(() => parseReasons(file(...lines)), String(lines))
    assert.throws(() => parseReasons(file("pattern = 'a'").replace('https', 'http')))
  })
})
