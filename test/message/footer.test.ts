// The way to leave that every campaign's mail has (D61).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { hasUnsubscribeLink, languageOf, withFooter } from '../../src/message/footer.ts'
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

describe('the language of a mail', () => {
  for (const [language, text] of Object.entries(SPOKEN))
    test(`${language}: told by its words, or by what it says itself`, () => {
      assert.equal(languageOf(`<html><body><p>${text}</p></body></html>`), language)
      assert.equal(languageOf(`<html lang="${language}"><p>${SPOKEN[language === 'en' ? 'de' : 'en']}</p>`), language)
      assert.equal(languageOf(`<!doctype html><html dir=ltr lang='${language.toUpperCase()}-XX'>`), language)
    })

  test('English, where it says another or too little', () => {
    for (const html of ['', '<p>Hello</p>', '<html lang="ja"><p>der die das und</p>', '<p>der die</p>', '1234'])
      assert.equal(languageOf(html), 'en')
    assert.equal(languageOf('<style>der die das und nicht mit</style><p>Hello</p>'), 'en')
  })
})

describe('the footer', () => {
  test('stands at the end of the html and of the text, with the link', () => {
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

  test('the text that is made of the html has it too, once', () => {
    for (const own of ['', `<a href="${LINK}">Leave</a>`]) {
      const { text } = withFooter({ html: `<p>Hello</p>${own}`, text: null }, true)
      assert.equal(text.split(LINK).length, 2, text)
    }
  })

  test('each part is left as it is where it has a link of its own', () => {
    const own = { html: `<p>Hi</p><a href="{{ unsubscribe_url }}">Leave</a>`, text: `Hi\n${LINK}` }
    assert.deepEqual(withFooter(own, true), own)
    const half = withFooter({ ...own, text: 'Hi' }, true)
    assert.equal(half.html, own.html)
    assert.match(half.text, /Unsubscribe: \{\{unsubscribe_url\}\}\n$/)
  })

  test('a link that nobody sees is none', () => {
    for (const hidden of [
      `<!-- ${LINK} -->`,
      `<head><title>${LINK}</title></head>`,
      `<style>${LINK}</style>`,
      `<!-- ${LINK}`,
    ])
      assert.equal(hasUnsubscribeLink(`${hidden}`), false, hidden)
    assert.equal(hasUnsubscribeLink('<p>{{unsubscribe_mailto}}</p>'), false)
    assert.equal(hasUnsubscribeLink(`<header><a href="${LINK}">x</a></header>`), true)
  })

  test('of a test has the words, and no link', () => {
    const { html, text } = withFooter({ html: '<p>Hello</p>', text: 'Hello' }, false)
    assert.match(html, /Unsubscribe/)
    assert.match(text, /Unsubscribe\n$/)
    for (const each of [html, text]) assert.doesNotMatch(each, /\{\{|href/)
  })

  test('html of 5 MB takes no time', () => {
    costingAtOnce(10_000, () => {
      for (const piece of ['<!--', '<head', '<style><', '<html ', '<p>der die das</p>', '</body'])
        withFooter({ html: piece.repeat(5_000_000 / piece.length), text: 'x' }, true)
    })
  })
})
