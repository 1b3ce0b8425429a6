// The designs of campaign emails: the HTML around the text. Email clients require tables and inline styles. The look is
// the part that identifies the sender (name, logo, colour, postal address).
import { escapeHtml } from '../message/template.ts'
import { inkOn } from '../views/html/colours.ts'

export const DESIGNS = ['letter', 'newsletter', 'notice'] as const
export type Design = (typeof DESIGNS)[number]

/** The name of each design, and its purpose. */
export const DESIGN_WORDS: Readonly<Record<Design, readonly [name: string, about: string]>> = {
  letter: ['Letter', 'Simple text on white, like a personal email.'],
  newsletter: ['Newsletter', 'Logo, image, text and a button.'],
  notice: ['Announcement', 'One message under a coloured header: news, a receipt, a change.'],
}

/** How the sender looks in a design. */
export interface Look {
  /** The sender's name. Replaces a missing logo and is its alternative text. */
  brand: string
  logo: string
  /** #rrggbb */
  colour: string
  /** The postal address, as many countries demand it in a newsletter. */
  postal: string
}

export const PLAIN_LOOK: Look = { brand: '', logo: '', colour: '#1d5bd8', postal: '' }

/** The markers of the start and the end of the text in a design. */
export const BEGIN = '<!--text-->\n'
export const END = '\n<!--/text-->'

const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
const TABLE = 'role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0"'

const lines = (text: string): string => escapeHtml(text.trim()).replace(/\n+/g, '<br>')

/** The logo, or the name if there is no logo, or '' if both are missing. */
function sign({ brand, logo }: Look, style: string): string {
  if (logo !== '')
    return `<img src="${escapeHtml(logo)}" alt="${escapeHtml(brand || 'Logo')}" height="40" style="display:inline-block;height:40px;max-width:240px;border:0">`
  return brand === '' ? '' : `<span style="${style}">${escapeHtml(brand)}</span>`
}

/** The footer of each design: the postal address, or else the name, and the unsubscribe link. */
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

/** The HTML before and after an email's text. `hidden` is inserted at the start of the body. */
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

/** A placeholder for an image that is not selected yet. The editor displays it, email clients do not. */
const PICTURE = '<div data-picture=""></div>'

/** A link that looks like a button, as the editor writes it (console/browser/editor-nodes.ts). */
export const buttonStyle = (colour: string): string =>
  `display:inline-block;padding:12px 20px;border-radius:6px;background:${colour};color:${inkOn(colour)};text-decoration:none`

/** The initial content of an email. Its links lead to the sender's own site, so that every link works. */
interface Beginning {
  colour: string
  link: string
}

const button = ({ colour, link }: Beginning, label: string): string =>
  `<p data-button=""><a href="${escapeHtml(link)}" style="${buttonStyle(colour)}">${label}</a></p>`

/** The sample texts of a new email, which the sender replaces before sending. */
export const FIRST_WORDS = {
  headline: 'The headline of this issue',
  news: 'here is our news, in two or three sentences.',
  more: 'A shorter story.',
  happened: 'Your announcement in one line',
  means: 'here is how it affects you, and the steps to take.',
} as const
/** The labels of the buttons in the sample texts. */
export const FIRST_BUTTONS = { newsletter: 'Read more', notice: 'View details' } as const

/** The sample text of a new campaign with this design. */
export const FIRST_TEXT: Readonly<Record<Design, (given: Beginning) => string>> = {
  letter: () => '<p>Hello {{name|friend}},</p><p></p><p>Kind regards</p>',
  newsletter: (given) =>
    `<h1>${FIRST_WORDS.headline}</h1>${PICTURE}<p>Hello {{name|friend}},</p><p>${FIRST_WORDS.news}</p>${button(given, FIRST_BUTTONS.newsletter)}<hr><h2>Also in this issue</h2><p>${FIRST_WORDS.more}</p>`,
  notice: (given) =>
    `<h1>${FIRST_WORDS.happened}</h1><p>Hello {{name|friend}},</p><p>${FIRST_WORDS.means}</p>${button(given, FIRST_BUTTONS.notice)}`,
}
