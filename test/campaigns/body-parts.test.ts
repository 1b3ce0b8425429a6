// The HTML of a campaign in parts: joining the parts restores any HTML. Each design passes the campaign checks.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { bodyOf, lookOf, partsOf, type BodyParts } from '../../src/campaigns/body-parts.ts'
import { DESIGNS, FIRST_TEXT, PLAIN_LOOK } from '../../src/campaigns/designs.ts'
import { inkOn } from '../../src/views/html/colours.ts'
import { plainText } from '../../src/message/compose.ts'
import { hasUnsubscribeLink } from '../../src/message/leave-link.ts'
import { readPictures } from '../../src/message/html-tokens.ts'
import { readTargets } from '../../src/message/tracking.ts'
import { harmlessPage } from '../../src/views/html/harmless.ts'
import { seeded } from '../kit/seeded.ts'

const LOOK = {
  brand: 'Green "Farm" & <Sons>',
  logo: 'https://farm.test/logo.png?a=1&b="2"',
  colour: '#137a3f',
  postal: "Green Farm\nMill Lane 3, {{city}}\n5003 <Bergen> 'N'",
}
const PREVIEW = 'Three <cheeses> & "more" for {{name|you}}'

describe('parts', () => {
  test('reads back the design, its look, the preview text and the text unchanged', () => {
    for (const design of DESIGNS)
      for (const preview of ['', PREVIEW]) {
        const parts: BodyParts = { design, look: lookOf(LOOK), preview, text: '<p>Hello {{name}}</p>' }
        assert.deepEqual(partsOf(bodyOf(parts)), parts)
      }
    const own: BodyParts = { design: '', look: PLAIN_LOOK, preview: PREVIEW, text: '<p>Hello</p>' }
    assert.deepEqual(partsOf(bodyOf(own)), own)
    const page: BodyParts = { ...own, text: '<html><head></head><body class="x">\n<table></table></body></html>' }
    assert.match(bodyOf(page), /<body class="x">\n<div data-preview=""/)
    assert.deepEqual(partsOf(bodyOf(page)), page)
  })

  test('treats HTML changed outside the editor as text without a design, and keeps all of it', () => {
    const html = bodyOf({ design: 'newsletter', look: lookOf(LOOK), preview: '', text: '<p>x</p>' })
    for (const changed of [html.replace('max-width:600px', 'max-width:700px'), `${html}<p>more</p>`, ` ${html}`]) {
      assert.equal(partsOf(changed).design, '')
      assert.equal(partsOf(changed).text, changed)
    }
  })

  test('the parts of any HTML make the same HTML again', () => {
    const pieces = [
      '<!--text-->\n',
      '\n<!--/text-->',
      '<div data-preview="" style="display:none;max-height:0;overflow:hidden;mso-hide:all">',
      '</div>\n',
      '<meta name="design" content="',
      '&quot;',
      '{&quot;design&quot;:&quot;letter&quot;,&quot;colour&quot;:7}',
      '">',
      '<body>',
      '<p>x</p>',
      '&amp;',
      '\u0000',
      '$&',
      bodyOf({ design: 'letter', look: lookOf(LOOK), preview: PREVIEW, text: '<p>x</p>' }),
    ]
    const random = seeded(7)
    for (let at = 0; at < 3000; at++) {
      const html = Array.from(
        { length: 1 + Math.floor(random() * 8) },
        () => pieces[Math.floor(random() * pieces.length)]!,
      ).join('')
      assert.equal(bodyOf(partsOf(html)), html)
    }
  })

  test('a look rejects invalid URLs, and styles as colours', () => {
    const look = lookOf({
      brand: 7,
      logo: 'javascript:alert(1)',
      colour: 'red;background:url(//x)',
      postal: 'a'.repeat(9000),
    })
    assert.deepEqual({ ...look, postal: look.postal.length }, { brand: '', logo: '', colour: '#1d5bd8', postal: 500 })
  })

  test('a long text takes linear time', () => {
    const html = '<!--text-->\n'.repeat(400_000)
    const before = process.threadCpuUsage()
    assert.equal(partsOf(html).text, html)
    const { system, user } = process.threadCpuUsage(before)
    assert.ok(system + user < 1_000_000, 'a second')
  })
})

describe('designs', () => {
  const made = DESIGNS.map((design) => {
    const text = FIRST_TEXT[design]({ colour: LOOK.colour, link: 'https://farm.test/' })
    return { design, html: bodyOf({ design, look: lookOf(LOOK), preview: PREVIEW, text }) }
  })

  test('pass the campaign checks: unsubscribe link, complete links, alt texts, small size', () => {
    for (const { design, html } of made) {
      assert.ok(hasUnsubscribeLink(html), design)
      for (const { url } of readTargets(html)) assert.match(url, /^https:\/\/|^\{\{unsubscribe_url\}\}$/, design)
      const pictures = [...readPictures(html)]
      assert.equal(pictures.length, 1, design)
      for (const { alt, url } of pictures) assert.ok(alt !== '' && url.startsWith('https://'), design)
      assert.ok(Buffer.byteLength(html) < 5000, `${design}: ${Buffer.byteLength(html)}`)
    }
  })

  test('show everything in the preview with their styles, and omit the preview text in the plain text', () => {
    for (const { design, html } of made) {
      const { body, styles } = harmlessPage({ html, pictures: 'p', styled: true })
      assert.match(body, /Mill Lane 3/, design)
      assert.match(styles, /display:none;max-height:0;overflow:hidden/, design)
      assert.doesNotMatch(body, /<script|onerror/)
      assert.doesNotMatch(plainText(html), /cheeses/, design)
      assert.match(plainText(html), /Mill Lane 3/, design)
    }
  })

  test('text is readable on every colour (WCAG 2.2 §1.4.3)', () => {
    const light = (hex: string): number => {
      const [r = 0, g = 0, b = 0] = [1, 3, 5]
        .map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      return 0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    for (let rgb = 0; rgb < 4096; rgb++) {
      const digits = rgb.toString(16).padStart(3, '0')
      const colour = `#${digits.replaceAll(/./g, '$&$&')}`
      const [a, b] = [light(colour), light(inkOn(colour))].toSorted((one, other) => other - one)
      assert.ok((a! + 0.05) / (b! + 0.05) >= 4.5, colour)
    }
  })
})
