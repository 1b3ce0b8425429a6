// The texts of the pages and emails for recipients: one file of config/recipient/ for each language, all with the same
// keys and placeholders. A page or an email is in one language, and never falls back to another one within it.
import { domainToUnicode } from 'node:url'
import type { Context } from 'hono'
import { configAsset } from '../base/assets.ts'

/** The languages of recipients, in the order in which pages list them. */
export const LANGUAGES = ['en', 'de', 'fr', 'es', 'it', 'nl', 'pl', 'pt'] as const
export type RecipientLanguage = (typeof LANGUAGES)[number]

export interface Texts {
  lang: RecipientLanguage
  /** Returns the text of a key, with a value for each of its placeholders. */
  t: (key: string, values?: Readonly<Record<string, string | number>>) => string
  /** A date as the language writes it, in UTC. */
  date: (at: number) => string
  /** A date with its time, in UTC. */
  time: (at: number) => string
}

/** The languages that are known about a page, as BCP 47 tags. */
export interface LanguageChoices {
  /** Of the recipient: that of the contact, or that of the sign-up. */
  contact?: string | null | undefined
  signup?: string | null | undefined
  /** Of the sender. These are used if the browser accepts none of our languages. */
  audience?: string | null | undefined
  account?: string | null | undefined
}

/** An address or a domain as people write it: with the domain in Unicode (RFC 5890). */
function inUnicode(text: string): string {
  const at = text.lastIndexOf('@') + 1
  return text.slice(0, at) + (domainToUnicode(text.slice(at)) || text.slice(at))
}

const MAX_HEADER = 1000
const loaded = new Map<RecipientLanguage, Texts>()

/** The texts of a language. */
export function textsIn(lang: RecipientLanguage): Texts {
  const known = loaded.get(lang)
  if (known) return known
  const all = JSON.parse(configAsset(`recipient/${lang}.json`)) as Readonly<Record<string, string>>
  const t: Texts['t'] = (key, values = {}) => {
    const text = all[key]
    if (text === undefined) throw new Error(`config/recipient/${lang}.json has no text "${key}".`)
    return text.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = values[name]
      if (value === undefined) throw new Error(`The text "${key}" needs a value for {${name}}.`)
      return name === 'address' || name === 'domain' ? inUnicode(String(value)) : String(value)
    })
  }
  const dates = new Intl.DateTimeFormat(lang, { dateStyle: 'long', timeZone: 'UTC' })
  const times = new Intl.DateTimeFormat(lang, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
  const texts: Texts = { lang, t, date: (at) => dates.format(at), time: (at) => `${times.format(at)} UTC` }
  loaded.set(lang, texts)
  return texts
}

/**
 * The texts of a page: in the language that the URL names ("?lang="), otherwise that of the contact, of the sign-up, of
 * the browser, of the audience or of the account, otherwise in English.
 */
export function textsFor(context: Context, choices: LanguageChoices = {}): Texts {
  const { account, audience, contact, signup } = choices
  const accepted = acceptedLanguages(context.req.header('accept-language') ?? '')
  const wanted = [context.req.query('lang'), contact, signup, ...accepted, audience, account]
  return textsIn(wanted.map(languageIn).find((lang) => lang !== undefined) ?? 'en')
}

/** The texts of an email, for which no browser is known. */
export const textsOf = ({ account, audience, contact, signup }: LanguageChoices): Texts =>
  textsIn([contact, signup, audience, account].map(languageIn).find((lang) => lang !== undefined) ?? 'en')

/** Our language for a BCP 47 tag: "de" for "de-AT". */
export function languageIn(tag: string | null | undefined): RecipientLanguage | undefined {
  const [primary] = (tag ?? '').slice(0, 100).toLowerCase().split('-')
  return LANGUAGES.find((lang) => lang === primary)
}

/** The tags of an Accept-Language field, the preferred one first, without those of weight 0 (RFC 9110 §12.5.4). */
export const acceptedLanguages = (field: string): string[] =>
  field
    .slice(0, MAX_HEADER)
    .split(',')
    .map((item) => {
      const [, tag = '', q = '1'] =
        /^\s*([A-Za-z0-9*-]{1,35})\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?$/.exec(item) ?? []
      return { tag, weight: Number(q) }
    })
    .filter(({ tag, weight }) => tag !== '' && weight > 0)
    .toSorted((a, b) => b.weight - a.weight)
    .map(({ tag }) => tag)
