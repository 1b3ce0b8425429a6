// The text that the API shows of a submitted email is stored as a reference to the part if a part holds exactly this
// text (message/part-text.ts).
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { MalformedMessage, parseTree } from '../../src/message/mime-tree.ts'
import { parseBody } from '../../src/message/parse.ts'
import { mailText, referTo, type MailText } from '../../src/message/part-text.ts'
import { costingAtOnce } from '../kit/cost.ts'

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
const MIME = join(CORPORA, 'mime')
const skip = existsSync(MIME) ? false : `no corpus at ${MIME}; set POSTRIDER_CORPORA`

/** The stored form of a message's texts, which must read back as the same texts. */
function stored(message: Buffer): { html: MailText; text: MailText } {
  const tree = parseTree(message)
  const { html, text } = parseBody(message, tree)
  const referred = referTo(message, tree, { html, text })
  assert.equal(
    mailText(referred.html, () => message),
    html,
  )
  assert.equal(
    mailText(referred.text, () => message),
    text,
  )
  return referred
}
function storedUnlessMalformed(message: Buffer): { html: MailText; text: MailText } {
  try {
    return stored(message)
  } catch (thrown) {
    if (thrown instanceof MalformedMessage) return { html: null, text: null }
    throw thrown
  }
}
const alternatives = (text: string, html: string): Buffer =>
  Buffer.from(
    `Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n${text}\r\n--b\r\nContent-Type: text/html\r\n${html}\r\n--b--\r\n`,
  )

test('refers to the part for unencoded ASCII text, and stores any other text', () => {
  assert.deepEqual(stored(Buffer.from('Subject: x\r\n\r\nHello\r\nyou\r\n')), { html: null, text: { part: 0 } })
  assert.deepEqual(stored(alternatives('\r\nHello', '\r\n<p>x</p>')), { html: { part: 2 }, text: { part: 1 } })
  assert.deepEqual(stored(alternatives('\r\nGrüße', '\r\n<p>ü</p>')), { html: '<p>ü</p>', text: 'Grüße' })
  const quoted = 'Content-Transfer-Encoding: quoted-printable\r\n\r\n'
  assert.deepEqual(stored(alternatives(`${quoted}a=3Db`, `${quoted}<p=3D>`)), { html: '<p=>', text: 'a=b' })
  const { text } = stored(Buffer.from('Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B$3\x1b(B\r\n'))
  assert.equal(typeof text, 'string')
})

test('texts of real messages survive storing', { skip }, () => {
  let parts = 0
  for (const name of readdirSync(MIME, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(?:eml|txt|msg)$/.test(name)) continue
    const message = readFileSync(join(MIME, name))
    const { html, text } = storedUnlessMalformed(message)
    parts += [html, text].filter((each) => typeof each === 'object' && each !== null).length
  }
  assert.ok(parts > 20, `${parts} texts were parts`)
})

test('shows no text for a message without the part, however corrupt', () => {
  for (const message of ['', 'Subject: x\r\n\r\ngr\u00fc\u00df', '--b\r\n'.repeat(1000)])
    assert.equal(
      mailText({ part: 7 }, () => Buffer.from(message, 'latin1')),
      null,
    )
  assert.equal(
    mailText({ part: 0 }, () => {
      throw new Error('gone')
    }),
    null,
  )
})

test('reads any message fast', () => {
  for (const piece of ['a\r\n', '--b\r\n', 'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n']) {
    const message = Buffer.from(piece.repeat(10_000))
    costingAtOnce(500, () => mailText({ part: 0 }, () => message))
  }
})
