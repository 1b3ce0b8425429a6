// Mailboxes of received messages: the API shows each as one address that you can send to (RFC 5322 §3.4).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAddress } from '../../src/message/address.ts'
import { mailboxesOf, shownMailbox } from '../../src/message/mailboxes.ts'
import { costingAtOnce } from '../kit/cost.ts'

const shown = (value: string): string[] => mailboxesOf(value).map(shownMailbox)

/** From fields of one mailbox, and how it is shown. */
const SENDERS: Record<string, string> = {
  'ann@a.test': 'ann@a.test',
  'Ann Lee <ann@a.test>': 'Ann Lee <ann@a.test>',
  '=?iso-8859-1?Q?Gro=DF=2C_Anna?= <ann@a.test>': '"Groß, Anna" <ann@a.test>',
  '=?utf-8?B?PGJvc3NAYi50ZXN0Pg==?= <ann@a.test>': '"<boss@b.test>" <ann@a.test>',
  '=?utf-8?Q?Boss_=3Cboss=40b.test=3E,?= <ann@a.test>': '"Boss <boss@b.test>," <ann@a.test>',
  '=?utf-8?Q?=22Ann=22_=5C?= <ann@a.test>': '"\\"Ann\\" \\\\" <ann@a.test>',
  '=?utf-8?Q?Ann_(Sales)?= <ann@a.test>': '"Ann (Sales)" <ann@a.test>',
  '=?utf-8?Q?=3D=3Futf-8=3FQ=3Fx=3F=3D?= <ann@a.test>': '"=?utf-8?Q?x?=" <ann@a.test>',
  'boss@b.test <ann@a.test>': '"boss@b.test" <ann@a.test>',
  "'boss@b.test' <ann@a.test>": '"\'boss@b.test\'" <ann@a.test>',
  '<boss@b.test> <ann@a.test>': '"<boss@b.test>" <ann@a.test>',
  '"Boss <boss@b.test>" <ann@a.test>': '"Boss <boss@b.test>" <ann@a.test>',
  'Lee, Ann <ann@a.test>': '"Lee, Ann" <ann@a.test>',
  'Re: Ann; A <ann@a.test>': '"Ann; A" <ann@a.test>',
  'Shop: Ann <ann@a.test>': '"Shop: Ann" <ann@a.test>',
  'Ann [A] <ann@a.test>': '"Ann [A]" <ann@a.test>',
  'Ann (Sales) <ann@a.test>': '"Ann (Sales)" <ann@a.test>',
  'Ann :( <ann@a.test>': '"Ann :(" <ann@a.test>',
  '"Ann <ann@a.test>': '"\\"Ann" <ann@a.test>',
  'Dr. Ann <ann@a.test>': '"Dr. Ann" <ann@a.test>',
  'Ann "Bo" Lee <ann@a.test>': 'Ann Bo Lee <ann@a.test>',
  'ann@a.test (Ann Lee)': 'Ann Lee <ann@a.test>',
  'Ann Lee ann@a.test': 'Ann Lee <ann@a.test>',
  'ann @ a.test': 'ann@a.test',
  '<@r.test,@s.test:ann@a.test>': 'ann@a.test',
  '< ann@a.test >': 'ann@a.test',
  '<mailto:ann@a.test>': 'ann@a.test',
  'Team: ann@a.test;': 'ann@a.test',
  'Gro\xdf <ann@a.test>': 'Groß <ann@a.test>',
}
for (const [value, wanted] of Object.entries(SENDERS))
  test(`shows ${value} as one mailbox that can be answered`, () => {
    assert.deepEqual(shown(value), [wanted])
    assert.equal(parseAddress(wanted)?.address, 'ann@a.test')
  })

test('shows text without an address as a quoted name', () => {
  assert.deepEqual(shown('=?utf-8?Q?boss=40b.test?='), ['"boss@b.test"'])
  assert.deepEqual(shown('"boss@b.test"'), ['"boss@b.test"'])
  assert.deepEqual(shown('Undisclosed recipients:;, <>, ,'), [])
})

test('keeps a quoted local part and an address literal as they are written', () => {
  assert.deepEqual(shown('"a..b"@a.test, c@[IPv6:2001:db8::1]'), ['"a..b"@a.test', 'c@[IPv6:2001:db8::1]'])
})

test('splits a list at commas, not within a name', () => {
  assert.deepEqual(shown('b@b.test, Lee, Ann <a@a.test>, =?utf-8?Q?C,_D?= <c@c.test>; d@d.test'), [
    'b@b.test',
    '"Lee, Ann" <a@a.test>',
    '"C, D" <c@c.test>',
    'd@d.test',
  ])
})

test('omits an overlong name', () => {
  assert.deepEqual(shown(`${'x'.repeat(600)} <ann@a.test>`), ['ann@a.test'])
})

for (const piece of [
  '"',
  '(',
  '<',
  '"<',
  '(,\n ',
  'a@b,\n ',
  '=?',
  '=?a?q?',
  '<"',
  '\\"',
  '[',
  ':',
  ', <',
  '<,',
  '<a ',
  '@',
])
  test(`reads 64 KB of ${JSON.stringify(piece)} in time`, () => {
    for (const begin of ['', '"', '(', '<'])
      costingAtOnce(2000, () => {
        shown(`${begin}${piece.repeat(64 * 1024)} ann@a.test`)
        // The bracket makes all before it a name.
        shown(`${begin}${piece.repeat(20 * 1024)} <ann@a.test>`)
      })
  })
