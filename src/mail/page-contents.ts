// The contents of a sent mail: as it looks, its texts, its own headers and its attachments.
import { html } from 'hono/html'
import { looks, octets, type Html } from '../webui/widgets.ts'
import { objects, record, text, type Thing, type Visit } from '../webui/visit.ts'
import type { outboundEmails } from './api.ts'

export type MailResource = Thing<typeof outboundEmails>

export function contents(visit: Visit, mail: MailResource): Html {
  const body = text(mail, 'html')
  const words = text(mail, 'text')
  const files = objects(mail, 'attachments')
  const headers = Object.entries(record(mail, 'headers'))
  if (body === '' && words === '')
    return html`<p class="soft">
      The text is no longer kept here. The text of a campaign’s mail is on the page of its campaign.
    </p>`
  return html`${
    body === ''
      ? ''
      : html`<h3>As it looks</h3>
          ${looks(visit, body, `/mail/${mail.id}/html`, 'The mail as it looks')}`
  }
  ${
    words === ''
      ? ''
      : html`<details>
          <summary>Plain text</summary>
          <pre tabindex="0">${words}</pre>
        </details>`
  }
  ${
    body === ''
      ? ''
      : html`<details>
          <summary>HTML source</summary>
          <pre tabindex="0">${body}</pre>
        </details>`
  }
  ${
    headers.length === 0
      ? ''
      : html`<details>
          <summary>Headers of your own</summary>
          <pre tabindex="0">${headers.map(([name, value]) => `${name}: ${value}\n`).join('')}</pre>
        </details>`
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
