// The texts for recipients: complete in every language, and chosen by what is known about the recipient.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Hono } from 'hono'
import { acceptedLanguages, LANGUAGES, textsFor, textsIn, textsOf } from '../../src/recipients/languages.ts'

const ROOT = join(import.meta.dirname, '../..')
const textsBy = (lang: string): Record<string, string> =>
  JSON.parse(readFileSync(join(ROOT, `config/recipient/${lang}.json`), 'utf8'))
const english = textsBy('en')
const placeholders = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map(([name]) => name).toSorted()

test('config/recipient has one file for each language', () => {
  const files = readdirSync(join(ROOT, 'config/recipient')).toSorted()
  assert.deepEqual(files, LANGUAGES.map((lang) => `${lang}.json`).toSorted())
})

for (const lang of LANGUAGES)
  test(`the texts in ${lang} have the keys and the placeholders of the English ones (AU57)`, () => {
    const texts = textsBy(lang)
    assert.deepEqual(Object.keys(texts), Object.keys(english))
    for (const [key, text] of Object.entries(texts)) {
      assert.deepEqual(placeholders(text), placeholders(english[key]!), key)
      assert.ok(text.trim() !== '' && text === text.trim().normalize('NFC'), key)
      assert.doesNotMatch(text, /[<>&]|\{\{/, key)
      // In French a narrow space that does not break precedes these marks.
      if (lang === 'fr') assert.doesNotMatch(text, /[^\u202f][?!:;]/, key)
    }
  })

test('every text that the sources name exists', () => {
  const named = readdirSync(join(ROOT, 'src/recipients'))
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => [...readFileSync(join(ROOT, 'src/recipients', name), 'utf8').matchAll(/\bt\('(\w+)'/g)])
    .map(([, key]) => key!)
  assert.ok(named.includes('language_choice'))
  assert.deepEqual(
    named.filter((key) => english[key] === undefined),
    [],
  )
})

test('a text without a value for a placeholder, and an unknown key, are errors', () => {
  const { t } = textsIn('en')
  assert.equal(t('unsubscribe_list', { list: '{address} $& <b>' }), 'Unsubscribe from {address} $& <b>')
  assert.throws(() => t('unsubscribe_list'), /needs a value for \{list\}/)
  assert.throws(() => t('no_such_text'), /has no text "no_such_text"/)
})

const DAY_2026 = Date.UTC(2026, 10, 3, 23, 59)
const DATES = {
  en: 'November 3, 2026',
  de: '3. November 2026',
  fr: '3 novembre 2026',
  es: '3 de noviembre de 2026',
  it: '3 novembre 2026',
  nl: '3 november 2026',
  pl: '3 listopada 2026',
  pt: '3 de novembro de 2026',
}
for (const lang of LANGUAGES)
  test(`writes a date in ${lang}`, () => assert.equal(textsIn(lang).date(DAY_2026), DATES[lang]))

type Choices = Parameters<typeof textsFor>[1]
const EVERYTHING: Choices = { contact: 'fr', signup: 'es', audience: 'it', account: 'pt' }
const CASES: [name: string, query: string, accepted: string, choices: Choices, lang: string][] = [
  ['the URL wins', '?lang=nl', 'de', EVERYTHING, 'nl'],
  ['an unknown language in the URL is ignored', '?lang=xx', 'de', EVERYTHING, 'fr'],
  ['the contact is next', '', 'de', EVERYTHING, 'fr'],
  ['then the sign-up', '', 'de', { ...EVERYTHING, contact: null }, 'es'],
  ['then the browser', '', 'de-AT,en;q=0.5', { audience: 'it', account: 'pt' }, 'de'],
  ['the weights of the browser count', '', 'en;q=0.3, pl ;q=0.9, de;q=0', {}, 'pl'],
  [
    'a language of the browser that we do not have is skipped',
    '',
    'ja, *;q=0.1',
    { audience: 'it', account: 'pt' },
    'it',
  ],
  ['then the account', '', '', { account: 'pt-BR' }, 'pt'],
  ['then English', '', '', {}, 'en'],
  ['a malformed field is ignored', '', 'de;q=x, ;;, =', {}, 'en'],
]
for (const [name, query, accepted, choices, lang] of CASES)
  test(`chooses the language of a page: ${name}`, async () => {
    const app = new Hono().get('/', (context) => context.text(textsFor(context, choices).lang))
    const answer = await app.request(`/${query}`, { headers: accepted === '' ? {} : { 'accept-language': accepted } })
    assert.equal(await answer.text(), lang)
  })

test('an email is in the language of the recipient, otherwise of the sender', () => {
  assert.equal(textsOf({ contact: 'de-CH', audience: 'it' }).lang, 'de')
  assert.equal(textsOf({ contact: 'ja', audience: 'it' }).lang, 'it')
  assert.equal(textsOf({}).lang, 'en')
})

test('a long field is read up to a limit', () => {
  assert.deepEqual(acceptedLanguages(`de;q=0.1,${'x'.repeat(5000)},fr`), ['de'])
})
