// The contents of a sent mail, in tabs: as it looks, its text, its headers, its source. Headers and source are those
// that the API composes again; a large source is shown as far as a page should go, and is a file as a whole.
import { html } from 'hono/html'
import { facts, looks, octets, tabs, type Html } from '../webui/widgets.ts'
import { objects, relatedId, text, type Thing, type Visit } from '../webui/visit.ts'
import { isOneOf } from '../base/one-of.ts'
import type { outboundEmails } from './api.ts'

export type MailResource = Thing<typeof outboundEmails>

const TABS = ['preview', 'text', 'headers', 'source'] as const
const NAMES = { preview: 'Preview', text: 'Text', headers: 'Headers', source: 'Source' } as const
/** Characters of a text that a page shows, and of one that HTML makes several times as long. */
const MOST = 40_000
const MOST_ESCAPED = 10_000

const gone = (mail: MailResource): Html => {
  const campaign = relatedId(mail, 'campaign')
  return html`<p class="soft">
    ${
      campaign
        ? html`The text of a campaign’s mail is on <a href="/campaigns/${campaign}">the page of its campaign</a>; the
            tabs “Headers” and “Source” show this mail.`
        : 'The text is no longer kept here.'
    }
  </p>`
}

function preview(visit: Visit, mail: MailResource): Html {
  const body = text(mail, 'html')
  const files = objects(mail, 'attachments')
  if (body === '' && text(mail, 'text') === '') return gone(mail)
  return html`${
    body === ''
      ? html`<p class="soft">This mail has no HTML; its text is in the tab “Text”.</p>`
      : looks(visit, body, `/mail/${mail.id}/html`, 'The mail as it looks')
  }
  ${
    files.length === 0
      ? ''
      : html`<h3>Attachments</h3>
          <ul>
            ${files.map(({ content_type, filename, size }) => html`<li>${filename} <span class="soft">${content_type}, ${octets(size)}</span></li>`)}
          </ul>`
  }`
}

function plain(mail: MailResource): Html {
  const words = text(mail, 'text')
  if (words !== '') return html`<pre tabindex="0">${beginning(words)}</pre>`
  return text(mail, 'html') === ''
    ? gone(mail)
    : html`<p class="soft">
        It was sent without a text; this server made one from the HTML. It stands in the tab “Source”.
      </p>`
}

/** The beginning of a text, as far as a page shows it. */
function beginning(whole: string): string {
  const some = whole.slice(0, MOST)
  return (some.match(/[&<>"']/g)?.length ?? 0) < MOST_ESCAPED / 2 ? some : some.slice(0, MOST_ESCAPED)
}

/** The fields of a header, each on one line. */
const fieldsOf = (header: string): [name: string, value: string][] =>
  header
    .replaceAll(/\r\n(?=[ \t])/g, '')
    .split('\r\n')
    .flatMap((line) => {
      const colon = line.indexOf(':')
      return colon < 1 ? [] : [[line.slice(0, colon), line.slice(colon + 1).trim()] as [string, string]]
    })

async function composed(visit: Visit, mail: MailResource, tab: 'headers' | 'source'): Promise<Html> {
  const response = await visit.download(`/outbound-emails/${mail.id}/raw`)
  if (response.status !== 200)
    return html`<p class="soft">The text is no longer kept here, so there is no source of it.</p>`
  const whole = await response.text()
  const note = html`<p class="soft">
    As it is sent, without the DKIM-Signature, which each attempt makes
    again.${relatedId(mail, 'campaign') ? ' Tags are filled with what is known of the contact now; the link to unsubscribe does nothing here.' : ''}
    <a href="/mail/${mail.id}/raw" download>Download as .eml</a>
  </p>`
  const end = whole.indexOf('\r\n\r\n')
  const header = end < 0 ? whole : whole.slice(0, end)
  const shown = beginning(whole)
  if (tab === 'headers') return html`${note} ${facts(fieldsOf(beginning(header)))}`
  return html`${note}
    <pre tabindex="0" class="source">${shown}</pre>
    ${whole.length > shown.length ? html`<p class="soft">The page shows the first ${octets(shown.length)} of ${octets(whole.length)}; the file has all of it.</p>` : ''}`
}

export async function contents(visit: Visit, mail: MailResource): Promise<Html> {
  const asked = visit.query('show')
  const tab = isOneOf(TABS, asked) ? asked : text(mail, 'html') === '' && text(mail, 'text') !== '' ? 'text' : 'preview'
  return html`<div id="contents">
    ${tabs(
      'Contents',
      TABS.map((each) => ({ to: `?show=${each}#contents`, name: NAMES[each], here: each === tab })),
    )}
    ${tab === 'preview' ? preview(visit, mail) : tab === 'text' ? plain(mail) : await composed(visit, mail, tab)}
  </div>`
}
