// The contents of a sent mail, in tabs: preview, text, headers and source. The API composes headers and source again. A
// large source is truncated on the page and complete in the download.
import { html } from 'hono/html'
import { facts, looks, octets, tabs, type Html } from '../views/html/widgets.ts'
import { objects, relatedId, text, type Thing, type Visit } from '../views/html/visit.ts'
import { isOneOf } from '../base/one-of.ts'
import type { outboundEmails } from './api.ts'

export type MailResource = Thing<typeof outboundEmails>

const TABS = ['preview', 'text', 'headers', 'source'] as const
const NAMES = { preview: 'Preview', text: 'Text', headers: 'Headers', source: 'Source' } as const
/** Characters of a text that a page shows, and fewer for text that HTML makes several times as long. */
const MOST = 40_000
const MOST_ESCAPED = 10_000

const gone = (mail: MailResource): Html => {
  const campaign = relatedId(mail, 'campaign')
  return html`<p class="soft">
    ${
      campaign
        ? html`The content is on <a href="/campaigns/${campaign}">the campaign’s page</a>. The tabs “Headers” and
            “Source” show this email.`
        : 'The content is no longer stored.'
    }
  </p>`
}

function preview(visit: Visit, mail: MailResource): Html {
  const body = text(mail, 'html')
  const files = objects(mail, 'attachments')
  if (body === '' && text(mail, 'text') === '') return gone(mail)
  return html`${
    body === ''
      ? html`<p class="soft">This email has no HTML. See the tab “Text”.</p>`
      : looks(visit, body, `/mail/${mail.id}/html`, 'Email preview')
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
        This email was sent without a text version, so Postrider generated one from the HTML. See the tab “Source”.
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
    return html`<p class="soft">The content is no longer stored, so the source is not available.</p>`
  const whole = await response.text()
  const note = html`<p class="soft">
    The email as it is sent, without the DKIM signature, which is added at each
    attempt.${relatedId(mail, 'campaign') ? ' Merge tags use the current data of the contact. The unsubscribe link does not work here.' : ''}
    <a href="/mail/${mail.id}/raw" download>Download .eml</a>
  </p>`
  const end = whole.indexOf('\r\n\r\n')
  const header = end < 0 ? whole : whole.slice(0, end)
  const shown = beginning(whole)
  if (tab === 'headers') return html`${note} ${facts(fieldsOf(beginning(header)))}`
  return html`${note}
    <pre tabindex="0" class="source">${shown}</pre>
    ${whole.length > shown.length ? html`<p class="soft">Showing the first ${octets(shown.length)} of ${octets(whole.length)}. Download the file to see all of it.</p>` : ''}`
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
