// Rules as data or grammar, without connections: the meaning of a rejection for the address (D35,
// config/bounce-rules.txt), and MTA-STS records, policies and host patterns (RFC 8461 §3).
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import {
  BOUNCE_CLASSES,
  classify,
  parseRules,
  type BounceClass,
  type ExchangerRefusal,
  type SaidAt,
} from '../../src/smtp/bounce-class.ts'
import { allowsHost, parsePolicy, policyId } from '../../src/smtp/mta-sts.ts'

/** "550 5.1.1 No such user" as a reply. */
function replyOf(line: string, stage: SaidAt = 'rcpt'): ExchangerRefusal {
  const [, code, enhanced, text] = /^([45]\d\d)[ -]#?(?:([245]\.\d{1,3}\.\d{1,3})[ :]*)?(.*)$/s.exec(line) ?? []
  assert.ok(code, line)
  return { stage, code: Number(code), enhanced: enhanced ?? null, text: text! }
}

describe('bounce rules', () => {
  const text = readFileSync(new URL('../../config/bounce-rules.txt', import.meta.url), 'utf8')
  const rules = parseRules(text)

  test('the file has rules of every class, each with its own reply', () => {
    assert.ok(rules.length >= 15)
    assert.deepEqual([...new Set(rules.map((rule) => rule.class))].toSorted(), [...BOUNCE_CLASSES].toSorted())
    assert.equal(new Set(rules.map(({ sample }) => sample)).size, rules.length)
    // A rule without its own reply would have used that of the rule before.
    assert.equal(text.match(/^> /gm)?.length, rules.length)
  })

  for (const { class: wanted, pattern, sample } of rules)
    test(`${wanted}: ${sample.slice(0, 60)}`, () => {
      assert.match(sample, pattern)
      assert.equal(classify(replyOf(sample)), wanted)
    })

  test('reports an invalid rule with its line', () => {
    assert.throws(() => parseRules('hard x\n\nsomething y\n'), /:3: "something y"/)
    assert.throws(() => parseRules('hard\n'), /:1:/)
    assert.throws(() => parseRules('hard (\n'))
  })

  const REPLIES: [BounceClass | 'not hard', string][] = [
    [
      'hard',
      '550 5.1.1 The email account that you tried to reach does not exist. Please try double-checking the address',
    ],
    ['hard', '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup'],
    ['hard', '550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302)'],
    ['hard', '554 30 Sorry, your message cannot be delivered. This mailbox is disabled (554.30).'],
    ['hard', '550 5.1.1 <bob@there.test>: Recipient address rejected: User unknown in relay recipient table'],
    ['hard', '550 Unknown user bob@there.test'],
    // A number alone is not about the mailbox (D63).
    ['policy', '550 '],
    ['quota', '552 5.2.2 The recipient’s inbox is out of storage space'],
    ['quota', '550 5.2.2 STOREDRV.Deliver; mailbox full'],
    ['quota', '452 4.2.2 The email account that you tried to reach is over quota'],
    ['soft', '450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents delivery'],
    ['content', '552 5.3.4 Message too big for system'],
    ['content', '552 5.2.3 Message exceeds local size limit'],
    ['content', '554 5.6.0 Invalid message content'],
    ['policy', '550 5.7.26 Unauthenticated email from here.test is not accepted due to the domain’s DMARC policy'],
    ['policy', '550 5.7.515 Access denied, sending domain here.test does not meet the required authentication level'],
    ['policy', '550 5.7.25 The IP address sending this message does not have a PTR record'],
    ['policy', '550 5.7.1 Messages from [192.0.2.1] were not sent: part of their network is on our block list (S3150)'],
    ['policy', '550 5.7.1 RESOLVER.RST.AuthRequired; authentication required'],
    ['policy', '554 5.7.9 Message not accepted for policy reasons'],
    ['policy', '421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume'],
    ['policy', '554 This is a refusal that nobody has heard of'],
    ['infrastructure', '550 5.4.6 Routing loop detected'],
    ['infrastructure', '554 5.7.1 <bob@there.test>: Relay access denied'],
    // An error of the sender never suppresses the recipient, with any number before it.
    ['not hard', '550 5.1.8 Access denied, bad outbound sender'],
    ['not hard', '550 5.1.0 <ann@here.test> sender rejected'],
    ['not hard', '550 5.2.1 Mailbox not accepting messages from external senders'],
    ['not hard', '550 5.2.1 Mailbox unavailable for external senders'],
    ['not hard', '550 5.1.1 reverse path: no such user'],
    ['not hard', '550 no such user: originator'],
    ['not hard', '550 5.1.1 user unknown in sender table'],
    ['not hard', '550 Client host rejected: no such user list; see http://x.test'],
    ['not hard', '550 5.1.1 Expéditeur inconnu'],
    ['not hard', '550 5.1.0 192.0.2.1 is not allowed to send from here.test per its SPF record'],
    ['not hard', '550 SPF: 192.0.2.1 is not allowed to send mail from here.test'],
    ['not hard', '550 Message rejected due to local policy'],
    ['not hard', '550 Your IP address is blocked for abuse'],
    ['not hard', '550 Access denied'],
    ['not hard', '550 This message looks like spam'],
    ['not hard', '550 Connection frequency limited'],
  ]
  for (const [wanted, line] of REPLIES)
    test(`${line} is ${wanted}`, () => {
      const found = classify(replyOf(line))
      if (wanted === 'not hard') assert.notEqual(found, 'hard')
      else assert.equal(found, wanted)
    })

  test('a rejection that contains only addresses of the sending domain is about the sender', () => {
    const judge = (line: string) => classify({ ...replyOf(line), sender: 'here.test' })
    for (const line of [
      '550 5.1.1 <token@bounce.here.test>: user unknown',
      '550 No such user ann@here.test',
      '550 User ann@HERE.test does not exist',
    ])
      assert.equal(judge(line), 'policy', line)
    for (const line of [
      '550 5.1.1 <bob@there.test>: user unknown',
      '550 5.1.1 <bob@there.test>: user unknown (from <token@bounce.here.test>)',
      '550 5.1.1 <bob@nothere.test>: user unknown',
      '550 5.1.1 user unknown',
    ])
      assert.equal(judge(line), 'hard', line)
  })

  const corpus = join(
    process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url)),
    'bounces/handover',
  )
  const absent = existsSync(corpus) ? false : `no corpus at ${corpus}; set POSTRIDER_CORPORA`
  test('among replies of real bounces, exactly those for unknown users are hard', { skip: absent }, () => {
    interface Label {
      sisimai_5_1?: { reason: string }[]
    }
    const labels = JSON.parse(readFileSync(join(corpus, 'labels.json'), 'utf8')) as Record<string, Label>
    // Reasons that are not about the address. "filtered", "suspend" and "mailboxfull" are labels of other parts of the
    // report: their replies often do report an unknown user.
    const NOT_THE_ADDRESS =
      /^(authfailure|blocked|contenterror|exceedlimit|expired|mesgtoobig|networkerror|norelaying|notcompliantrfc|onhold|policyviolation|rejected|requireptr|securityerror|spamdetected|systemerror|systemfull|toomanyconn)$/
    let [gone, others] = [0, 0]
    const wrong: string[] = []
    for (const [name, { sisimai_5_1: found = [] }] of Object.entries(labels)) {
      const report = readFileSync(join(corpus, 'eml', name), 'latin1').replace(/\r?\n[ \t]+/g, ' ')
      const failed = report
        .split(/\r?\n\r?\n/)
        .filter((block) => /^Final-Recipient:/im.test(block) && /^Action:\s*failed/im.test(block))
      const [, reply] = /^Diagnostic-Code:\s*smtp;\s*([45]\d\d[ -].*)$/im.exec(failed[0] ?? '') ?? []
      if (failed.length !== 1 || found.length !== 1 || reply === undefined) continue
      const { reason } = found[0]!
      const hard = classify(replyOf(reply.trim())) === 'hard'
      if (reason === 'userunknown') gone++
      else if (NOT_THE_ADDRESS.test(reason)) others++
      else continue
      if (hard !== (reason === 'userunknown')) wrong.push(`${name} (${reason}): ${reply}`)
    }
    assert.ok(gone >= 25 && others >= 30, `${gone} and ${others} of them`)
    assert.deepEqual(wrong, [])
  })
})

describe('MTA-STS', () => {
  const lines = (...more: string[]): string => ['version: STSv1', ...more, ''].join('\n')

  test('reads an MTA-STS policy with LF or CRLF, unknown fields and duplicate fields', () => {
    const wanted = { mode: 'enforce', mx: ['mail.there.test', '*.there.test'], maxAge: 604_800 }
    const text = lines('mode: enforce', 'mx: mail.there.test', 'mx: *.There.test', 'max_age: 604800')
    assert.deepEqual(parsePolicy(text), wanted)
    assert.deepEqual(parsePolicy(text.replaceAll('\n', '\r\n')), wanted)
    assert.deepEqual(parsePolicy(text.trimEnd()), wanted)
    assert.deepEqual(parsePolicy(`${text}future: something\n`), wanted)
    // The first of several fields that must occur once counts.
    assert.deepEqual(parsePolicy(`${text}mode: none\nmax_age: 1\n`), wanted)
  })

  test('accepts mode `none` without hosts, and max_age up to a year', () => {
    assert.deepEqual(parsePolicy(lines('mode: none', 'max_age: 86400')), { mode: 'none', mx: [], maxAge: 86_400 })
    assert.equal(parsePolicy(lines('mode: none', 'max_age: 9999999999'))?.maxAge, 31_557_600)
  })

  for (const [what, text] of [
    ['an empty file', ''],
    ['a web page', '<html>mode: enforce</html>'],
    ['no version', 'mode: enforce\nmx: a.test\nmax_age: 86400\n'],
    ['another version', lines('mode: enforce', 'mx: a.test', 'max_age: 86400').replace('STSv1', 'STSv2')],
    ['no mode', lines('mx: a.test', 'max_age: 86400')],
    ['an unknown mode', lines('mode: maybe', 'mx: a.test', 'max_age: 86400')],
    ['no max_age', lines('mode: enforce', 'mx: a.test')],
    ['an empty max_age', lines('mode: enforce', 'mx: a.test', 'max_age:')],
    ['a max_age that is not a number', lines('mode: enforce', 'mx: a.test', 'max_age: long')],
    ['a max_age in other digits', lines('mode: enforce', 'mx: a.test', 'max_age: 0x10')],
    ['a negative max_age', lines('mode: enforce', 'mx: a.test', 'max_age: -1')],
    ['enforce without hosts', lines('mode: enforce', 'max_age: 86400')],
  ] as const)
    test(`rejects as an MTA-STS policy: ${what}`, () => assert.equal(parsePolicy(text), undefined))

  test('requires exactly one record with an id', () => {
    for (const [records, id] of [
      [['v=STSv1; id=20160831085700Z;'], '20160831085700Z'],
      [['v=STSv1;id=a'], 'a'],
      [['v=STSv1; id=a; future=x'], 'a'],
      [['v=spf1 -all', 'v=STSv1; id=a;'], 'a'],
      [['v=STSv1; id=a;', 'v=STSv1; id=b;'], undefined],
      [['v=STSv1; id=;'], undefined],
      [['v=STSv1;'], undefined],
      [[`v=STSv1; id=${'a'.repeat(33)};`], undefined],
      [['v=STSv1; id=a-b;'], undefined],
      [['v=STSv2; id=a;'], undefined],
      [['id=a; v=STSv1;'], undefined],
      [[], undefined],
    ] as const)
      assert.equal(policyId(records), id, records.join(' | '))
  })

  test('a wildcard matches one label, the leftmost', () => {
    const mx = ['mail.there.test', '*.wide.test']
    for (const host of ['mail.there.test', 'a.wide.test']) assert.ok(allowsHost({ mx }, host), host)
    for (const host of ['there.test', 'x.mail.there.test', 'wide.test', 'a.b.wide.test', '.wide.test.evil', 'test', ''])
      assert.ok(!allowsHost({ mx }, host), host)
  })
})
