// The designs of a campaign's mail: what stands around its text. A design is written as mail programs need it: tables,
// and styles in the elements. What it shows of the sender (name, logo, colour, postal address) is the look.
import { escapeHtml } from '../message/template.ts'

export const DESIGNS = ['letter', 'newsletter', 'notice'] as const
export type Design = (typeof DESIGNS)[number]

/** The name of each design, and what it is good for. */
export const DESIGN_WORDS: Readonly<Record<Design, readonly [name: string, about: string]>> = {
  letter: ['Letter', 'Plain text on white, as from a person.'],
  newsletter: ['Newsletter', 'Logo, picture, text and a button.'],
  notice: ['Announcement', 'One message under a band in your colour: news, a receipt, a change.'],
}

/** How the sender looks in a design. */
export interface Look {
  /** The name of the sender: in place of a logo, and for those who do not see it. */
  brand: string
  /** The web address of a picture. */
  logo: string
  /** #rrggbb */
  colour: string
  /** The postal address, as many countries demand it in a newsletter. */
  postal: string
}

export const PLAIN_LOOK: Look = { brand: '', logo: '', colour: '#1d5bd8', postal: '' }

/** Where the text of the mail begins and ends in a design. */
export const BEGIN = '<!--text-->\n'
export const END = '\n<!--/text-->'

const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
const TABLE = 'role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0"'

/** Black or white, whichever is read better on a colour (WCAG 2.2, relative luminance). */
export function inkOn(colour: string): '#ffffff' | '#000000' {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? '#000000' : '#ffffff'
}

const lines = (text: string): string => escapeHtml(text.trim()).replace(/\n+/g, '<br>')

/** The logo, or the name in its place; '' without either. */
function sign({ brand, logo }: Look, style: string): string {
  if (logo !== '')
    return `<img src="${escapeHtml(logo)}" alt="${escapeHtml(brand || 'Logo')}" height="40" style="display:inline-block;height:40px;max-width:240px;border:0">`
  return brand === '' ? '' : `<span style="${style}">${escapeHtml(brand)}</span>`
}

/** Postal address, or the name in its place, and the way out, at the end of each design. */
const foot = ({ brand, postal }: Look): string =>
  `${postal === '' && brand === '' ? '' : `${lines(postal || brand)}<br>`}<a href="{{unsubscribe_url}}" style="color:#5f5f68;text-decoration:underline">Unsubscribe</a>`

const cell = (style: string, body: string, more = ''): string =>
  `<tr><td${more} style="${style};${FONT}">${body}</td></tr>\n`

/** The rows of a design: those above the text, the style of its cell, and those below. */
const ROWS: Readonly<
  Record<Design, (look: Look) => { ground: string; head: string; text: string; foot: string; align: string }>
> = {
  letter: (look) => {
    const logo = sign(look, 'font-size:16px;font-weight:600;color:#18181b')
    return {
      ground: '#ffffff',
      head: logo === '' ? '' : cell('padding:16px 12px 0', logo),
      text: 'padding:12px',
      foot: cell('padding:20px 12px;font-size:12px;line-height:18px;color:#5f5f68', foot(look)),
      align: 'left',
    }
  },
  newsletter: (look) => {
    const logo = sign(look, `font-size:20px;font-weight:700;color:#18181b`)
    return {
      ground: '#f2f3f5',
      head:
        cell(`height:6px;line-height:6px;font-size:6px;background-color:${look.colour}`, '&nbsp;') +
        (logo === '' ? '' : cell('padding:24px 28px 4px', logo)),
      text: 'padding:16px 28px 28px',
      foot: cell(
        'padding:20px 28px;font-size:12px;line-height:18px;color:#5f5f68;background-color:#f2f3f5',
        foot(look),
        ' align="center"',
      ),
      align: 'center',
    }
  },
  notice: (look) => {
    const ink = inkOn(look.colour)
    const logo = sign(look, `font-size:20px;font-weight:700;color:${ink}`)
    return {
      ground: '#f2f3f5',
      head: cell(
        `padding:${logo === '' ? '12px' : '24px'} 28px;background-color:${look.colour};color:${ink}`,
        logo === '' ? '&nbsp;' : logo,
        ' align="center"',
      ),
      text: 'padding:24px 28px 28px',
      foot: cell(
        'padding:20px 28px;font-size:12px;line-height:18px;color:#5f5f68;background-color:#f2f3f5',
        foot(look),
        ' align="center"',
      ),
      align: 'center',
    }
  },
}

/** The HTML of a mail around its text: what stands before, with `hidden` at the beginning of the body, and behind. */
export function around(design: Design, look: Look, hidden: string): { before: string; behind: string } {
  const { align, foot: below, ground, head, text } = ROWS[design](look)
  const meta = escapeHtml(JSON.stringify({ design, ...look }))
  return {
    before: `<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="design" content="${meta}">
</head>
<body style="margin:0;padding:0;background-color:${ground}">
${hidden}<table ${TABLE} style="background-color:${ground}"><tr><td align="${align}" style="padding:${align === 'center' ? '24px 0' : '0'}">
<table ${TABLE.replace('100%', '600')} style="width:100%;max-width:600px;background-color:#ffffff">
${head}<tr><td align="left" style="${text};font-size:16px;line-height:1.5;color:#18181b;${FONT}">
${BEGIN}`,
    behind: `${END}
</td></tr>
${below}</table>
</td></tr></table>
</body>
</html>
`,
  }
}

/** The place of a picture that is not chosen yet: the editor shows it as a place, mail programs show nothing. */
const PICTURE = '<div data-picture=""></div>'

/** A link that looks like a button, as the editor writes it (console/browser/editor-nodes.ts). */
export const buttonStyle = (colour: string): string =>
  `display:inline-block;padding:12px 20px;border-radius:6px;background:${colour};color:${inkOn(colour)};text-decoration:none`

/** Where a mail leads from its first text: the sender's own site, so that no link of it leads nowhere. */
interface Beginning {
  colour: string
  link: string
}

const button = ({ colour, link }: Beginning, label: string): string =>
  `<p data-button=""><a href="${escapeHtml(link)}" style="${buttonStyle(colour)}">${label}</a></p>`

/** What the first texts say in place of the sender's own words: none of it is meant to be sent. */
export const FIRST_WORDS = {
  headline: 'The headline of this issue',
  news: 'what is new, in two or three sentences.',
  more: 'A shorter piece of news.',
  happened: 'What has happened, in one line',
  means: 'what it means for you, and what you can do.',
} as const
/** The words of the buttons in the first texts. */
export const FIRST_BUTTONS = { newsletter: 'Read more', notice: 'See the details' } as const

/** The text that a new campaign of a design begins with. */
export const FIRST_TEXT: Readonly<Record<Design, (given: Beginning) => string>> = {
  letter: () => '<p>Hello {{name|friend}},</p><p></p><p>Kind regards</p>',
  newsletter: (given) =>
    `<h1>${FIRST_WORDS.headline}</h1>${PICTURE}<p>Hello {{name|friend}},</p><p>${FIRST_WORDS.news}</p>${button(given, FIRST_BUTTONS.newsletter)}<hr><h2>Also in this issue</h2><p>${FIRST_WORDS.more}</p>`,
  notice: (given) =>
    `<h1>${FIRST_WORDS.happened}</h1><p>Hello {{name|friend}},</p><p>${FIRST_WORDS.means}</p>${button(given, FIRST_BUTTONS.notice)}`,
}
