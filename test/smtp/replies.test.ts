// Replies of real receiving servers, compared with the rules (D35, D63). Each line of replies.tsv has the stage, the
// class, the server and the reply. The class "none" is any class that is not evidence against an address.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import {
  BOUNCE_CLASSES,
  classify,
  isAboutRecipient,
  type ExchangerRefusal,
  type SaidAt,
} from '../../src/smtp/bounce-class.ts'
import { costingAtOnce } from '../kit/cost.ts'

interface Row {
  wanted: string
  source: string
  reply: string
  refusal: ExchangerRefusal
}

function refusalOf(stage: SaidAt, reply: string): ExchangerRefusal {
  const [, code, enhanced, text] =
    /^(?:([45]\d\d)(?: |$))?(?:([45]\.\d{1,3}\.\d{1,3})(?:\s+|$))?(.*)$/s.exec(reply) ?? []
  return { stage, code: code === undefined ? null : Number(code), enhanced: enhanced ?? null, text: text ?? '' }
}

const rows: Row[] = readFileSync(new URL('replies.tsv', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => {
    const [stage, wanted, source, reply] = line.split('\t')
    assert.ok(reply !== undefined, line)
    assert.ok(wanted === 'none' || (BOUNCE_CLASSES as readonly string[]).includes(wanted!), line)
    return { wanted: wanted!, source: source!, reply, refusal: refusalOf(stage as SaidAt, reply) }
  })

const EVIDENCE = ['hard', 'soft', 'quota']
const told = ({ refusal, reply, source }: Row): string => `${refusal.stage}, ${source}: ${reply}`

describe('replies of real receiving servers', () => {
  test('has many replies of many servers', () => {
    assert.ok(rows.length >= 600)
    assert.ok(new Set(rows.map(({ source }) => source)).size >= 80)
    for (const stage of ['connect', 'mail', 'rcpt', 'data', 'final dot', 'report'])
      assert.ok(rows.some(({ refusal }) => refusal.stage === stage))
  })

  test('each reply has its expected class', (t) => {
    const figures = new Map<string, { hard: number; recognised: number; others: number; false: number }>()
    for (const { refusal, wanted } of rows) {
      const entry = figures.get(refusal.stage) ?? { hard: 0, recognised: 0, others: 0, false: 0 }
      const hard = classify(refusal) === 'hard'
      if (wanted === 'hard') {
        entry.hard++
        if (hard) entry.recognised++
      } else {
        entry.others++
        if (hard) entry.false++
      }
      figures.set(refusal.stage, entry)
    }
    for (const [stage, { false: wrong, hard, others, recognised }] of figures)
      t.diagnostic(`${stage}: hard ${recognised} of ${hard}, false ${wrong} of ${others}`)
    const wrong = rows.filter(({ refusal, wanted }) => {
      const found = classify(refusal)
      return wanted === 'none' ? EVIDENCE.includes(found) : found !== wanted
    })
    assert.deepEqual(
      wrong.map((row) => `${row.wanted}, not ${classify(row.refusal)}: ${told(row)}`),
      [],
    )
  })

  // Texts that were once misunderstood: "not found" about an IP address, "unknown user" about a list, "failed" about a
  // lookup.
  const near = readFileSync(new URL('mistaken.tsv', import.meta.url), 'utf8')
    .trimEnd()
    .split('\n')
  for (const line of near) {
    const [wanted, reply] = line.split('\t') as [string, string]
    test(`${wanted}: ${reply}`, () => {
      const found = classify(refusalOf('rcpt', reply))
      if (wanted === 'none') assert.ok(!EVIDENCE.includes(found), found)
      else assert.equal(found, wanted)
    })
  }

  for (const stage of ['dns', 'connect', 'greeting', 'ehlo', 'starttls', 'auth', 'mail', 'data', 'final dot'] as const)
    test(`never suppresses the address for a reply at the stage ${stage}`, () => {
      for (const row of rows) {
        const refusal = { ...row.refusal, stage }
        assert.notEqual(classify(refusal), 'hard', told(row))
        assert.equal(isAboutRecipient(refusal), false)
      }
    })

  test('a temporary reply is never hard, even at RCPT', () => {
    for (const row of rows.filter(({ refusal }) => refusal.code !== null && refusal.stage === 'rcpt')) {
      const refusal = { ...row.refusal, code: 450, enhanced: row.refusal.enhanced?.replace(/^5/, '4') ?? null }
      assert.notEqual(classify(refusal), 'hard', told(row))
    }
  })

  test('ignores mailbox names and URLs', () => {
    for (const text of [
      '<no.such.user@there.test> is refused',
      '<unknown-user@there.test>: rejected',
      'rejected, see https://there.test/errors/user-unknown',
    ])
      assert.equal(classify(refusalOf('rcpt', `550 ${text}`)), 'policy', text)
    for (const name of ['abuse', 'spam', 'policy', 'blocked', 'spamhaus'])
      assert.equal(classify(refusalOf('rcpt', `550 5.1.1 <${name}@there.test> unavailable`)), 'hard', name)
  })

  test('classifies a hostile reply quickly', () => {
    const words = ['user ', 'recipient not ', '@', '(', ' ', 'sender ', 'mailbox full? ', 'no ', 'account.is.', '550-']
    costingAtOnce(2000, () => {
      for (const word of words) classify(refusalOf('rcpt', `550 ${word.repeat(1000)}`.slice(0, 1000)))
    })
  })
})
