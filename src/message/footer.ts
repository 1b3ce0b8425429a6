// The footer with an unsubscribe link, for a campaign email without one from its author (D61): a small line at the end
// of the html, and a last line of the text, in the language of the email.
import { isBlank, plainText, textFor } from './compose.ts'
import { hasUnsubscribeLink } from './leave-link.ts'
import { cutTemplate, tagsOf } from './template.ts'
import { endOfBody } from './html-tokens.ts'
import { namesIn } from '../base/one-of.ts'

interface Words {
  ask: string
  link: string
}

const WORDS = {
  en: { ask: 'No longer want these emails?', link: 'Unsubscribe' },
  de: { ask: 'Sie möchten diese E-Mails nicht mehr erhalten?', link: 'Abmelden' },
  fr: { ask: 'Vous ne souhaitez plus recevoir ces e-mails ?', link: 'Se désabonner' },
  es: { ask: '¿No desea recibir más estos correos?', link: 'Darse de baja' },
  it: { ask: 'Non vuoi più ricevere queste e-mail?', link: 'Annulla l’iscrizione' },
  nl: { ask: 'Wilt u deze e-mails niet meer ontvangen?', link: 'Afmelden' },
  pt: { ask: 'Não quer mais receber estes e-mails?', link: 'Cancelar a inscrição' },
  pl: { ask: 'Nie chcesz już otrzymywać tych wiadomości?', link: 'Wypisz się' },
} satisfies Record<string, Words>

export type Language = keyof typeof WORDS

/** Words that are frequent in one of these languages and rare in the others. */
const FREQUENT: Record<Language, string> = {
  en: 'the and you your with for from this are have our is of to we',
  de: 'und der die das nicht mit sie für ist ein eine wir ihre ihr auf den zu',
  fr: 'le les des et vous votre pour avec est nous une dans pas sur au du',
  es: 'el los las y usted para con una por su nuestro está tu más del que',
  it: 'il di gli che per con una è della nostro sono anche tuo non alla dei',
  nl: 'het een en van voor met je uw niet zijn op dat deze wij bij ook',
  pt: 'os as um uma para com você não seu sua nosso é mais dos ao em',
  pl: 'i w na z do się nie jest że dla oraz twój nasz są to od',
}
const MIN_HITS = 3
const MAX_WORDS = 2000
const LINK = '{{unsubscribe_url}}'

/** The html without comments, styles and head, which no reader sees. */
const visible = (html: string): string =>
  html.replace(/<!--.*?(?:-->|$)/gs, '').replace(/<(head|style|script|title)\b.*?(?:<\/\1\s*>|$)/gis, '')

const links = (text: string): boolean => tagsOf(cutTemplate(text)).includes('unsubscribe_url')

/** The language of an email: from its lang attribute, otherwise from its frequent words, otherwise English. */
export function languageOf(html: string): Language {
  const [, said] = /<(?:html|body)\b[^<>]{0,1000}?\slang\s*=\s*["']?([a-z]{2})\b/i.exec(html) ?? []
  if (said !== undefined) return Object.hasOwn(WORDS, said.toLowerCase()) ? (said.toLowerCase() as Language) : 'en'
  const words =
    plainText(visible(html).slice(0, MAX_WORDS * 20))
      .toLowerCase()
      .match(/\p{L}+/gu) ?? []
  const hits = (language: Language): number => {
    const frequent = new Set(FREQUENT[language].split(' '))
    return words.slice(0, MAX_WORDS).filter((word) => frequent.has(word)).length
  }
  const [first] = namesIn(WORDS)
    .map((language) => ({ language, count: hits(language) }))
    .toSorted((a, b) => b.count - a.count)
  return first && first.count >= MIN_HITS ? first.language : 'en'
}

/**
 * Both bodies, each with an unsubscribe link. A test mail has no working link: its footer is text only (`live` false).
 */
export function withFooter(
  { html, text }: { html: string; text: string | null },
  live: boolean,
): { html: string; text: string } {
  const plain = textFor(html, text)
  // An html body of only the footer would hide the text.
  const textOnly = isBlank(html)
  const language = languageOf(textOnly ? plain : html)
  const { ask, link } = WORDS[language]
  return {
    html: textOnly ? '' : hasUnsubscribeLink(html) ? html : insert(html, footerOf(language, live)),
    text: links(plain) ? plain : `${plain.trimEnd()}\n\n${ask} ${link}${live ? `: ${LINK}` : ''}\n`,
  }
}

function footerOf(language: Language, live: boolean): string {
  const { ask, link } = WORDS[language]
  const style = 'color:#666666;text-decoration:underline'
  const anchor = live ? `<a href="${LINK}" style="${style}">${link}</a>` : `<span style="${style}">${link}</span>`
  return `<p lang="${language}" style="margin:24px 0 0;font-size:12px;line-height:1.5;color:#666666;text-align:center">${ask} ${anchor}</p>`
}

const insert = (html: string, footer: string): string => {
  const end = endOfBody(html)
  return html.slice(0, end) + footer + html.slice(end)
}
