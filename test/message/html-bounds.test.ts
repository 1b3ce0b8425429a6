// Untrusted html that is expensive to parse: its tags are counted before a library parses it.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { harmless } from '../../src/views/html/harmless.ts'
import { plainText } from '../../src/message/compose.ts'
import { seeded } from '../kit/seeded.ts'
import { isBeyondBounds, MOST_OPEN, MOST_TAGS } from '../../src/message/html-bounds.ts'

/** Pages that nest deeper for a library than end tags in them suggest. */
const BOMBS = {
  'nested elements': '<b>',
  'end tags in comments': '<b><!--</b>-->',
  'end tags in attributes': '<b title="</b>">',
  'end tags in raw text': '<b><title></b></title>',
  'end tags of other elements': '<i></b>',
  'end tags with a slash': '<b></b/>',
  'elements that end at once in foreign ones': '<svg><b/><p></b>',
}

for (const [name, piece] of Object.entries(BOMBS))
  test(`the console shows a page of ${name} as text, with the reason (D125)`, () => {
    const page = piece.repeat(MOST_OPEN + 1)
    const shown = harmless(page)
    assert.ok(isBeyondBounds(page))
    assert.match(shown, /^<p>The HTML of this email is too large or too deeply nested to render\./)
    assert.doesNotMatch(shown.replace(/^<p>[^<]*<\/p><pre>|<\/pre>$/g, ''), /</)
  })

test('the text of a deeply nested page is the text between its tags (D125)', () => {
  assert.equal(plainText(`${'<b>'.repeat(MOST_OPEN + 1)}Hello <i>Ann</i>.`), 'Hello Ann .')
})

test('shows a page with too many tags as text (D125)', () => {
  assert.ok(isBeyondBounds('<b></b>'.repeat(MOST_TAGS / 2 + 1)))
})

test('ordinary pages are within the limits: long lists, unclosed paragraphs, tables for Outlook (D125)', () => {
  for (const piece of [
    '<p>x',
    '<ul><li>a<li>b</ul>',
    '<br>',
    '<div><table><tr><td>x</td></tr></table></div>',
    '<!-- <b></b> -->',
    '<style>a{}</style>',
    '<a href="x>y">z</a>',
  ])
    assert.ok(!isBeyondBounds(`<html><body>${piece.repeat(2000)}</body></html>`), piece)
})

/** The parser that the libraries read pages with. */
interface Library {
  Parser: new (heard: { onopentagname: () => void; onclosetag: () => void }) => { end: (html: string) => void }
}
const { Parser } = createRequire(createRequire(import.meta.url).resolve('sanitize-html'))('htmlparser2') as Library

/** Pieces that parsers interpret differently: text elements, comments, foreign elements, invalid end tags. */
const PIECES =
  '<b> </b> <p> </p> <i > </i> <!-- --> --!> <!--> <! <? <title> </title> <title/> </title <script> </script> <xmp> </xmp> <textarea/> <textarea> </textarea> <style </style / /> " \' = a=" <svg> </svg> <math> <desc> <![CDATA[ ]]> <tr> <td> </td> <li> </li> <table> </table> <br> </br> <noscript> </noscript> <plaintext> <iframe> </iframe> x'.split(
    ' ',
  )

test('the library never nests deeper than the count (random pages, D125)', () => {
  const random = seeded(125)
  let deep = 0
  for (let n = 0; n < 500; n++) {
    const unit = Array.from({ length: 1 + Math.floor(random() * 7) }, () => {
      const piece = PIECES[Math.floor(random() * PIECES.length)]!
      return random() < 0.1 ? `${piece} ` : piece
    }).join('')
    const page = unit.repeat(MOST_OPEN * 2)
    let open = 0
    let most = 0
    new Parser({ onopentagname: () => (most = Math.max(most, ++open)), onclosetag: () => open-- }).end(page)
    if (most <= MOST_OPEN) continue
    deep++
    assert.ok(isBeyondBounds(page), `${most} open for the library: ${unit}`)
  }
  assert.ok(deep > 60)
})
