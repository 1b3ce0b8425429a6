// Pages of strangers that cost more than they weigh: their tags are counted before a library sees them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { harmless } from '../../src/console/harmless.ts'
import { plainText } from '../../src/message/compose.ts'
import { isBeyondBounds, MOST_OPEN, MOST_TAGS } from '../../src/message/html-bounds.ts'

/** Pages that nest deeper for a library than end tags in them suggest. */
const BOMBS = {
  'nested elements': '<b>',
  'end tags in comments': '<b><!--</b>-->',
  'end tags in attributes': '<b title="</b>">',
  'end tags in raw text': '<b><title></b></title>',
  'end tags of other elements': '<i></b>',
}

for (const [name, piece] of Object.entries(BOMBS))
  test(`the console shows a page of ${name} as text, with the reason (D125)`, () => {
    const page = piece.repeat(MOST_OPEN + 1)
    const shown = harmless(page)
    assert.ok(isBeyondBounds(page))
    assert.match(shown, /^<p>This mail has more tags/)
    assert.doesNotMatch(shown.replace(/^<p>[^<]*<\/p><pre>|<\/pre>$/g, ''), /</)
  })

test('the text of a deeply nested page is what stands between its tags (D125)', () => {
  assert.equal(plainText(`${'<b>'.repeat(MOST_OPEN + 1)}Hello <i>Ann</i>.`), 'Hello Ann .')
})

test('a page of too many tags is shown as text (D125)', () => {
  assert.ok(isBeyondBounds('<b></b>'.repeat(MOST_TAGS / 2 + 1)))
})

test('ordinary pages are within the bounds: long lists, open paragraphs, tables for Outlook (D125)', () => {
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
