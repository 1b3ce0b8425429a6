// The unsubscribe footer of campaign emails (D61).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { languageOf, withFooter } from '../../src/message/footer.ts'
import { hasUnsubscribeLink } from '../../src/message/leave-link.ts'
import { costingAtOnce } from '../kit/cost.ts'

const LINK = '{{unsubscribe_url}}'
const SPOKEN: Record<string, string> = {
  en: 'Dear friend, the spring sale has begun: we have new shoes for you and your family, with a discount.',
  de: 'Liebe Freunde, der Frühling ist da und wir haben für Sie und Ihre Familie neue Schuhe, die nicht teuer sind.',
  fr: 'Chers amis, le printemps est là : nous avons des chaussures pour vous et votre famille, dans les magasins.',
  es: 'Queridos amigos, la primavera está aquí: tenemos los zapatos para usted y su familia con un descuento.',
  it: 'Cari amici, la primavera è qui: abbiamo le scarpe per la vostra famiglia, con gli sconti che non sono per tutti.',
  nl: 'Beste vrienden, het is lente: wij hebben een paar schoenen voor je en je familie, met korting op alles.',
  pt: 'Caros amigos, a primavera é sua: temos os sapatos para você e sua família com um desconto, mais dos que não tem.',
  pl: 'Drodzy przyjaciele, jest wiosna: mamy dla Ciebie buty i nie są drogie, to oferta na twój sezon oraz rodziny.',
}

describe('the language of an email', () => {
  for (const [language, text] of Object.entries(SPOKEN))
    test(`${language}: detected by its words, or by the lang attribute`, () => {
      assert.equal(languageOf(`<html><body><p>${text}</p></body></html>`), language)
      assert.equal(languageOf(`<html lang="${language}"><p>${SPOKEN[language === 'en' ? 'de' : 'en']}</p>`), language)
      assert.equal(languageOf(`<!doctype html><html dir=ltr lang='${language.toUpperCase()}-XX'>`), language)
    })

  test('uses English for other languages and short texts', () => {
    for (const html of ['', '<p>Hello</p>', '<html lang="ja"><p>der die das und</p>', '<p>der die</p>', '1234'])
      assert.equal(languageOf(html), 'en')
    assert.equal(languageOf('<style>der die das und nicht mit</style><p>Hello</p>'), 'en')
  })
})

describe('the footer', () => {
  test('is at the end of the html and of the text, with the link', () => {
    const { html, text } = withFooter(
      { html: `<html><body><p>${SPOKEN['de']}</p></body></html>`, text: 'Hallo\n' },
      true,
    )
    assert.match(
      html,
      /<p lang="de"[^>]*>[^<]*<a href="\{\{unsubscribe_url\}\}"[^>]*>Abmelden<\/a><\/p><\/body><\/html>$/,
    )
    assert.match(text, /^Hallo\n\n[^\n]*Abmelden: \{\{unsubscribe_url\}\}\n$/)
  })

  test('is once in the text that is generated from the html', () => {
    for (const own of ['', `<a href="${LINK}">Leave</a>`]) {
      const { text } = withFooter({ html: `<p>Hello</p>${own}`, text: null }, true)
      assert.equal(text.split(LINK).length, 2, text)
    }
  })

  test('leaves a part unchanged that has its own link', () => {
    const own = { html: `<p>Hi</p><a href="{{ unsubscribe_url }}">Leave</a>`, text: `Hi\n${LINK}` }
    assert.deepEqual(withFooter(own, true), own)
    const half = withFooter({ ...own, text: 'Hi' }, true)
    assert.equal(half.html, own.html)
    assert.match(half.text, /Unsubscribe: \{\{unsubscribe_url\}\}\n$/)
  })

  const UNSEEN: string[] = [
    `<!-- ${LINK} -->`,
    `<!-- ${LINK}`,
    `<!--[if mso]><a href="${LINK}">x</a><![endif]-->`,
    `<head><title>${LINK}</title></head>`,
    `<style>${LINK}</style>`,
    `<script><a href="${LINK}">x</a></script>`,
    `<template><a href="${LINK}">x</a></template>`,
    `<noscript><a href="${LINK}">x</a></noscript>`,
    `<p data-x="${LINK}">x</p>`,
    `<p title='<a href="${LINK}">x</a>'>x</p>`,
    `<img src="${LINK}">`,
    `<form action="${LINK}">x</form>`,
    `<link href="${LINK}">x`,
    `<map><area href="${LINK}"></map>`,
    `<a href="${LINK}"></a>`,
    `<a href="${LINK}"></a>x`,
    `<a href="${LINK}"> &nbsp;&#8203;&zwnj;\u200b\u00a0</a>`,
    `<a href="${LINK}"><span></span><!-- x --></a>`,
    `<a href="${LINK}">{{first_name}}</a>`,
    `<a href="${LINK}"><img src="x.gif" width="1" height="1"></a>`,
    `<a href="${LINK}"><img></a>`,
    `<a href="${LINK}"><a href="https://x.test">x</a>`,
    `<a href="https://x.test/?${LINK}">x</a>`,
    `<a name="x" data-href="${LINK}">x</a>`,
    '<a href="{{unsubscribe_mailto}}">x</a>',
    ...[
      'display:none',
      'DISPLAY : NONE !important',
      'color:red;display:/* */none',
      'd\\69splay:none',
      'display&#58;none',
      'visibility:hidden',
      'visibility: collapse',
      'font-size:0',
      'font-size:0px',
      'font-size: 0.0em;color:red',
      'opacity:0',
      'opacity:0.0',
      'opacity:.01',
      'opacity:0%',
      'max-height:0;overflow:hidden',
      'height:0px',
      'position:absolute;left:-9999px',
      'text-indent:-9999px',
      'color:transparent',
    ].flatMap((style) => [
      `<a style="${style}" href="${LINK}">x</a>`,
      `<a href="${LINK}"><b style='${style}'>x</b></a>`,
      `<div style="${style}"><p><a href="${LINK}">x</a></p></div>`,
      `<table style="${style}"><tr><td>${LINK}</table>`,
      `<span style="${style}"><div></span>${LINK}</div>`,
      `<div><b style="${style}"></div>${LINK}`,
      `<style>a.gone, p { ${style.replace('&#58;', ':')} }</style><a class="big gone" href="${LINK}">x</a>`,
    ]),
    `<a hidden href="${LINK}">x</a>`,
    `<a href="${LINK}" hidden="">x</a>`,
    `<div hidden><a href="${LINK}">x</a></div>`,
    `<style>#gone{display:none}</style><div id=gone>${LINK}</div>`,
  ]
  const SEEN: string[] = [
    LINK,
    `<p>Leave: {{ unsubscribe_url }}</p>`,
    `<header><a href="${LINK}">x</a></header>`,
    `<a href="${LINK}">x`,
    `<a href='${LINK}'>x</a>`,
    `<a href=${LINK}>x</a>`,
    `<a href=" &#123;{unsubscribe_url}}#top">x</a>`,
    `<A HREF="${LINK}"><B>Leave</B></A>`,
    `<a href="${LINK}"><img src="https://x.test/leave.png" alt=""></a>`,
    `<a href="${LINK}"><img src="https://x.test/leave.png" width="100" height="20"></a>`,
    `<a href="${LINK}">→</a>`,
    `<a href="${LINK}">&rarr;</a>`,
    `<a href="${LINK}">退订</a>`,
    `<a href="${LINK}">Hello {{name}}</a>`,
    `<div style="display:none">Preview</div><a href="${LINK}">x</a>`,
    `<div style="display:none;max-height:0">Preview<br><img></div><p><a href="${LINK}">x</a>`,
    `<p style="display:none">Preview<p><a href="${LINK}">x</a>`,
    `<table><tr><td><div style="display:none">Preview</td><td><a href="${LINK}">x</a></table>`,
    `<head><title>x</title><style>.gone{display:none}</style></head><body><a class="here" href="${LINK}">x</a></body>`,
    `<head><body><a href="${LINK}">x</a>`,
    `<style>@media (max-width:600px){.wide{display:none}} a{color:red}</style><a class="wide" href="${LINK}">x</a>`,
    `<!--[if !mso]><!--><a href="${LINK}">x</a><!--<![endif]-->`,
    `<span style="font-size:0.9em;opacity:0.8;line-height:0;max-width:600px;margin:-10px 0">${LINK}</span>`,
    `<span style="font-size:10px;opacity:1;width:100%;height:auto;color:#000">${LINK}</span>`,
    `<p>1 < 2 and <3 ${LINK}</p>`,
    `</div></p><a href="${LINK}">x</a>`,
  ]
  for (const html of UNSEEN)
    test(`is added where a reader cannot see the link: ${html}`, () => {
      for (const page of [html, `<html><body><p>Hello</p>${html}</body></html>`]) {
        assert.equal(hasUnsubscribeLink(page), false)
        assert.match(withFooter({ html: page, text: null }, true).html, /Unsubscribe<\/a>/)
      }
    })
  for (const html of SEEN)
    test(`is not added where a reader sees the link: ${html}`, () => {
      for (const page of [html, `<html><body><p>Hello</p>${html}</body></html>`])
        assert.equal(hasUnsubscribeLink(page), true)
    })

  test('of a test has the text without a link', () => {
    const { html, text } = withFooter({ html: '<p>Hello</p>', text: 'Hello' }, false)
    assert.match(html, /Unsubscribe/)
    assert.match(text, /Unsubscribe\n$/)
    for (const each of [html, text]) assert.doesNotMatch(each, /\{\{|href/)
  })

  test('html of 2 MB is fast', () => {
    costingAtOnce(4000, () => {
      for (const piece of ['<!--', '<head', '<style><', '<html ', '<p>der die das</p>', '</body'])
        withFooter({ html: piece.repeat(2_000_000 / piece.length), text: 'x' }, true)
    })
  })

  test('scans a hostile page once', () => {
    costingAtOnce(10_000, () => {
      for (const piece of [
        '<',
        '<b>',
        '<b></i></p>',
        '<a href="',
        `<a href=${LINK}>`,
        '<style>.a{display:none}</style>',
        '<style>.a{',
        '<style>a{}.a',
        '<style ',
        '<p style="font: ',
        '<b style=display:none>',
      ])
        hasUnsubscribeLink(piece.repeat(1_000_000 / piece.length))
    })
  })
})

for (const property of ['width', 'font-size', 'opacity', 'max-height', 'zoom'])
  test(`a long row of zeros in a style costs no more than other text: ${property} (D61)`, () => {
    const html = `<p style="${property}:${'0'.repeat(100_000)}1">${LINK}</p>`
    assert.equal(
      costingAtOnce(2000, () => hasUnsubscribeLink(html)),
      true,
    )
  })
