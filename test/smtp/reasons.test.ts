// What replies mean, in words (config/reply-reasons.toml): each entry fits the real replies that it was written for.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { parseReasons, reasonOf } from '../../src/smtp/reply-reason.ts'

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8')

describe('reasons of replies', () => {
  const reasons = parseReasons(read('../../config/reply-reasons.toml'))

  for (const { name, samples, words } of reasons)
    for (const sample of samples)
      test(`${name}: ${sample.slice(0, 60)}`, () => {
        assert.equal(reasonOf({ text: sample })?.name, name)
        // With the codes apart it means the same.
        const [, code, enhanced, text] = /^(?:([45]\d\d) )?(?:([45]\.\d+\.\d+) )?(.*)$/.exec(sample)!
        const apart = { code: code ? Number(code) : null, enhanced: enhanced ?? null, text: text! }
        assert.equal(reasonOf(apart)?.words, words)
      })

  test('an unknown reply has no words, and neither has one without any text', () => {
    for (const text of ['', '550', '554 This is a refusal that nobody has heard of', '<script>alert(1)</script>'])
      assert.equal(reasonOf({ text }), undefined, text)
  })

  test('an address that a temporary reply calls unknown is not said to be suppressed', () => {
    assert.notEqual(reasonOf({ text: '450 4.1.1 User unknown' })?.name, 'unknown')
  })

  test('of the real replies most have a reason, and those about the mailbox the right one', () => {
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

  test('a malformed file is refused', () => {
    assert.throws(() => parseReasons('[[reason]]\nname = "x"\nwords = "y"\nsamples = ["z"]\n'))
    assert.throws(() => parseReasons('[[reason]]\nname = "x"\nwords = "y"\npattern = "("\nsamples = ["z"]\n'))
  })
})
