// A campaign's email as one contact would receive it, for sandboxed frames. It is made by the code that makes the sent
// emails, with the data of a contact and without a working unsubscribe link. In the query, `as` is dark (as mail
// clients show it that darken every email) or plain (its text part). `contact` is an address of the audience in place
// of its newest contact. `head=yes` adds the sender, the subject and the preview text above it.
import { html } from 'hono/html'
import { partsOf } from '../campaigns/body-parts.ts'
import { audiences, contacts } from '../campaigns/api-audiences.ts'
import { campaigns } from '../campaigns/api.ts'
import { domainOf } from '../campaigns/page-frame.ts'
import { valuesOf } from '../campaigns/render.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { campaignSender } from '../message/identity.ts'
import { cutTemplate, startOfFilled } from '../message/template.ts'
import { found } from '../views/html/place.ts'
import { framed } from '../views/html/shown-html.ts'
import { record, relatedId, text, those, type Thing, type Visit } from '../views/html/visit.ts'
import type { Html } from '../views/html/widgets.ts'
import { sayingAddress } from './pictures.ts'

type SeenContact = Thing<typeof contacts>

/** The contact whose data fills the email: the requested one, else the newest that can receive it, else the newest. */
async function contactOf(visit: Visit, audience: string | undefined): Promise<{ contact?: SeenContact; note?: Html }> {
  if (audience === undefined) return {}
  const first = async (filter: string): Promise<SeenContact | undefined> =>
    (await visit.get(contacts, `/audiences/${audience}/contacts?page%5Bsize%5D=1${filter}`)).many[0]
  const address = visit.query('contact').trim().slice(0, 320)
  const asked = address === '' ? undefined : await first(`&filter%5Bemail%5D=${encodeURIComponent(address)}`)
  const contact = asked ?? (await first('&filter%5Bstatus%5D=subscribed')) ?? (await first(''))
  const note =
    address !== '' && !asked ? html`<p class="note">${address} is not a contact of this audience.</p>` : undefined
  return { ...(contact ? { contact } : {}), ...(note === undefined ? {} : { note }) }
}

export async function preview(deps: ApiDeps, visit: Visit, id: string): Promise<Response> {
  const { included, one } = found(await visit.get(campaigns, `/campaigns/${id}?include=audience`))
  const { contact, note } = await contactOf(visit, relatedId(one, 'audience'))
  const content = {
    subject: text(one, 'subject'),
    body_html: text(one, 'body_html'),
    body_text: text(one, 'body_text') || null,
  }
  const values = valuesOf({
    email: contact ? text(contact, 'email') : 'ann@example.net',
    name: contact ? text(contact, 'name') : 'Ann',
    custom_fields: contact ? JSON.stringify(record(contact, 'custom_fields')) : null,
  })
  const as = visit.query('as')
  const { preview: hidden } = partsOf(content.body_html)
  // The email itself is made in a worker thread.
  const filled = (template: string): string => startOfFilled(cutTemplate(template), values)
  const [audience] = those(audiences, included)
  const from = campaignSender(text(one, 'from_address') || null, await domainOf(visit, audience))
  const head = html`<header>
    <p><strong>${from}</strong> <span>to ${values['email'] ?? ''}</span></p>
    <p>${filled(content.subject)}</p>
    ${hidden === '' ? '' : html`<p><span>${filled(hidden)}</span></p>`}
  </header>`
  const edge = as !== 'plain' && /<body\b[^<>]{0,500}margin:\s*0/i.test(content.body_html.slice(0, 20_000))
  return framed(
    visit.context,
    { content, values, plain: as === 'plain' },
    {
      addressOf: (url) => sayingAddress(deps, url),
      styled: true,
      look: [as === 'dark' ? 'dark' : '', edge ? 'edge' : ''].filter(Boolean).join(' '),
      above: visit.query('head') === 'yes' ? html`${head}${note ?? ''}` : html`${note ?? ''}`,
    },
  )
}
