// Html as editors write it: where the visible body ends, merge tags with markup and character references, and links in
// the text part (D226).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainText } from '../../src/message/compose.ts'
import { withFooter } from '../../src/message/footer.ts'
import { cutHtml, plainTags } from '../../src/message/html-tags.ts'
import { endOfBody } from '../../src/message/html-tokens.ts'
import { hasUnsubscribeLink } from '../../src/message/leave-link.ts'
import { render } from '../../src/message/rendered.ts'
import { bareTags, brokenTags } from '../../src/campaigns/render.ts'
import { cutTemplate, escapeHtml, fill } from '../../src/message/template.ts'
import { rewriteLinks, track } from '../../src/message/tracking.ts'
import { costingAtOnce } from '../kit/cost.ts'

/** Pages with "|" where their content ends. */
const ENDS = [
  '<html><body><p>a</p>|</body></html><!-- built: </body> -->',
  '<body>a|</body><!--[if mso]></body></html><![endif]--></html>',
  '<body>a<!-- </body> -->b|</BODY >',
  '<body>a|</body><script>document.write("</body>")</script>',
  '<style>p::after{content:"</body>"}</style><p>a|</body>',
  '<textarea></body></textarea>a|</body>',
  '<p title="</body>">a|</body>',
  "<img alt='</body>' src=x>a|",
  '<p>a</p>|',
  '<body>a</body>b|</body>',
  '<p>a|<!-- </body>',
  '<p>a|<script>"</body>"',
  '<p>a|<a href="x>b</body>',
  '<p>a|<p title=x',
  'a < b </bodyguard>|',
]

test('puts footer and pixel into the visible body, never into a comment, script, style or attribute', () => {
  const tracking = { base: 'https://mx.test', key: 'aaaa', delivery: 1, opens: true, clicks: false }
  for (const page of ENDS) {
    const html = page.replace('|', '')
    assert.equal(endOfBody(html), page.indexOf('|'), page)
    assert.equal(track(html, tracking).indexOf('<img src="https://mx.test/t/o/'), page.indexOf('|'), page)
    const { html: footed } = withFooter({ html, text: null }, true)
    assert.equal(footed.indexOf('<p lang="en" style="margin:24px'), page.indexOf('|'), page)
  }
})

const VALUES = {
  name: 'Ann Lee',
  'First name': 'Ann',
  Prénom: 'Zoé',
  'R&D': 'lab',
  email: 'ann+news@x.test',
  'a<b': 'less',
}
const html = (body: string): string => fill(cutHtml(body), VALUES, escapeHtml)
const text = (body: string): string => fill(cutTemplate(plainText(body)), VALUES)

test('fills merge tags as editors write them, the same in html and text', () => {
  for (const [written, expected, seen] of [
    ['{{&nbsp;name&nbsp;}}', 'Ann Lee', 'Ann Lee'],
    ['{{&#160;name&#xA0;}}', 'Ann Lee', 'Ann Lee'],
    ['{{<span>name</span>}}', '<span>Ann Lee</span>', 'Ann Lee'],
    ['{{<b><i>na</i>me</b>}}', '<b><i>Ann Lee</i></b>', 'Ann Lee'],
    ['<b>{{</b>name}}', '<b></b>Ann Lee', 'Ann Lee'],
    ['{<span class="x">{name}</span>}', '<span class="x">Ann Lee</span>', 'Ann Lee'],
    ['&#123;&#123;name&#125;&#x7D;', 'Ann Lee', 'Ann Lee'],
    ['{{<!-- x -->name}}', '<!-- x -->Ann Lee', 'Ann Lee'],
    ['{{Pr&eacute;nom}}', 'Zoé', 'Zoé'],
    ['{{Pr&#233;nom}}', 'Zoé', 'Zoé'],
    ['{{R&amp;D}}', 'lab', 'lab'],
    ['{{a&lt;b}}', 'less', 'less'],
    ['{{First&nbsp;name}}', 'Ann', 'Ann'],
    ['{{First\n  name}}', 'Ann', 'Ann'],
    ['{{gone&#124;friend}}', 'friend', 'friend'],
    ['{{gone|&nbsp;dear &amp; good&nbsp;}}', 'dear &amp; good', 'dear & good'],
    ['{{<u>gone</u>|friend}}', '<u>friend</u>', 'friend'],
    ['{{name|<b>friend</b>}}', 'Ann Lee', 'Ann Lee'],
  ] as const) {
    assert.equal(html(written), expected, written)
    assert.equal(text(written), seen, written)
    assert.equal(render({ subject: '', body_html: written, body_text: null }, VALUES).html.startsWith(expected), true)
  }
  const content = { subject: '', body_html: '{{<b>name</b>}}{{Pr&eacute;nom}}', body_text: null }
  assert.deepEqual([bareTags(content), brokenTags(content)], [['name', 'Prénom'], []])
  // Markup in an attribute, script or style is plain text, and other elements are not allowed inside a tag.
  for (const kept of ['<p title="{{<b>a</b>}}">', '<style>{{<b>a</b>}}</style>', '{{<p>a</p>}}', '{ {<b>a</b>}}'])
    assert.equal(plainTags(kept), kept)
})

test('finds the unsubscribe link of a tag with markup or no-break spaces', () => {
  for (const page of [
    '<a href="{{&nbsp;unsubscribe_url }}">Leave</a>',
    '<p>Leave: {{<span>unsubscribe_url</span>}}</p>',
    '<p>Leave: {{&nbsp;unsubscribe_url&nbsp;}}</p>',
  ])
    assert.ok(hasUnsubscribeLink(page), page)
})

test('reads megabytes of braces and references within a second', () => {
  for (const part of [
    '{<b>',
    '{{<b>x',
    '{&#123;',
    '{{&eacute;}}',
    '{{<b>a</b>}}',
    'https://x?a={{a}}',
    '{{a|',
    '<a href="',
  ])
    costingAtOnce(3000, () => cutHtml(part.repeat(1_000_000 / part.length)))
  const unknown = Array.from({ length: 50_000 }, (_, n) => `{{&x${n};}}`).join('')
  costingAtOnce(3000, () => cutHtml(unknown))
})

test('shows links in the text part as a browser reads them', () => {
  for (const [href, shown] of [
    [' https://x.test/1 ', 'https://x.test/1'],
    ['\nhttps://x.test/2\n', 'https://x.test/2'],
    ['https://x.test/lo\r\n\tng', 'https://x.test/long'],
    ['https://x.test/a b', 'https://x.test/a%20b'],
    ['mailto:help@x.test', 'help@x.test'],
    ['mailto:help@x.test?subject=Need help', 'mailto:help@x.test?subject=Need%20help'],
    ['&#32;MAILTO:help@x.test', 'help@x.test'],
    ['{{First name}}', '{{First name}}'],
    ['https://x.test/?n={{First name}}', 'https://x.test/?n={{First name}}'],
    ['https://x.test/?a=1&amp;b=2', 'https://x.test/?a=1&b=2'],
  ] as const)
    assert.equal(plainText(`<a href="${href}">l</a>`), `l [${shown}]`, href)
})

test('encodes values inside the parameters of a URL, in html and text', () => {
  for (const [url, expected] of [
    ['https://x.test/?email={{email}}&amp;n={{name}}', 'https://x.test/?email=ann%2Bnews%40x.test&amp;n=Ann%20Lee'],
    ['https://x.test/?n={{name}}-{{R&amp;D}}#{{name}}', 'https://x.test/?n=Ann%20Lee-lab#Ann Lee'],
    ['mailto:a@x.test?subject={{name}}', 'mailto:a@x.test?subject=Ann%20Lee'],
    ['https://x.test/{{R&amp;D}}/', 'https://x.test/lab/'],
    ['https://x.test/?{{name}}', 'https://x.test/?Ann Lee'],
  ] as const) {
    assert.equal(html(`<a href="${url}">l</a>`), `<a href="${expected}">l</a>`)
    const plain = `[${expected.replaceAll('&amp;', '&')}]`
    assert.equal(text(`<a href="${url}">l</a>`).replaceAll(/\s+/g, ' '), `l ${plain}`)
  }
  assert.equal(html('<p>1 = {{name}}? {{name}}</p>'), '<p>1 = Ann Lee? Ann Lee</p>')
  assert.equal(fill(cutTemplate('https://x.test/?n={{gone|all of you}}'), VALUES), 'https://x.test/?n=all of you')
})

test('tracks image map areas and the buttons that Outlook draws', () => {
  const page =
    '<map><area href="https://x.test/a"></map><!--[if mso]><v:roundrect href="https://x.test/v"></v:roundrect><![endif]--><abbr href="https://x.test/n">'
  assert.deepEqual(
    rewriteLinks(page, () => 'T'),
    page.replace('https://x.test/a', 'T').replace('https://x.test/v', 'T'),
  )
})
