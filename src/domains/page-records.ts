// The setup guide for a domain's records: missing records first, in the form of a DNS provider's fields, with their
// purpose and the present result of the lookup.
import { html } from 'hono/html'
import { isAddress } from '../base/network.ts'
import { icon } from '../views/html/icons.ts'
import { badge, codeShown, count, table, type Html } from '../views/html/widgets.ts'
import { flag, number, text, type Thing } from '../views/html/visit.ts'
import type { advisedRecords, domains, records } from './api.ts'
import { partsOf, typeOf, zoneFile, zoneLine } from './zone-lines.ts'

type DomainResource = Thing<typeof domains>
type RecordResource = Thing<typeof records>
type AdvisedResource = Thing<typeof advisedRecords>

/** Whether DNS answered for a record at the last check of its domain. */
export const isAnswered = (record: RecordResource, domain: DomainResource): boolean =>
  text(record, 'checked_at') !== '' && text(record, 'checked_at') >= text(domain, 'checked_at')

/** The name and the purpose of each record. */
const MEANINGS: Record<string, readonly [name: string, why: string]> = {
  MAIL_FROM_MX: ['Return path (MX)', 'Bounce messages for your email are returned to this server.'],
  SPF: ['SPF of the return path', 'Lists the servers that are allowed to send for this name.'],
  DMARC: ['DMARC', 'Tells providers how to handle email that fails authentication, and where to send reports.'],
  INBOUND_MX: ['Inbound (MX)', 'Routes email for your inboxes to this server.'],
  TRACKING: ['Tracking links', 'Tracked links use your own domain.'],
}

/** Of the DKIM keys, only the signing one is required. */
function meaningOf(record: RecordResource): readonly [name: string, why: string] {
  const type = text(record, 'record_type')
  if (type !== 'DKIM') return MEANINGS[type] ?? [type.replaceAll('_', ' '), '']
  return flag(record, 'required')
    ? ['DKIM key', 'Receiving servers verify the signature of each email with it.']
    : ['DKIM key for the next rotation', 'If it is published, you can rotate the key at any time.']
}

const copied = (id: string, value: string): Html =>
  html`<code id="${id}" class="value">${value}</code>
    <button class="plain small" type="button" data-copy="${id}">Copy</button>`

/** The name below the domain, as most providers expect it. "@" is the domain itself. */
const hostBelow = (name: string, domain: string): string =>
  name === domain ? '@' : name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : name

function stateOf(record: RecordResource, domain: DomainResource): Html {
  if (flag(record, 'verified')) return badge('found')
  if (!isAnswered(record, domain)) return badge('not checked')
  if (flag(record, 'missing_address')) return badge('no address')
  if (text(record, 'observed') !== '') return badge('does not match')
  return badge(flag(record, 'required') ? 'missing' : 'recommended')
}

function card(domain: DomainResource, record: RecordResource, at: number): Html {
  const [name, why] = meaningOf(record)
  const issued = { record_type: text(record, 'record_type') as never, value: text(record, 'value') }
  const { priority, value } = partsOf(issued)
  const whole = text(record, 'name')
  const host = hostBelow(whole, text(domain, 'name'))
  const row = (title: string, body: Html | string): Html =>
    html`<div>
      <dt>${title}</dt>
      <dd>${body}</dd>
    </div>`
  // The id lets the browser animate the tick when the page is updated.
  return html`<details
    id="record-${record.id}"
    class="panel record ${flag(record, 'verified') ? 'found' : ''}"
    ${flag(record, 'verified') ? '' : html`open`}
  >
    <summary>
      ${stateOf(record, domain)} <strong>${name}</strong> <span class="soft">${whole}</span>
      <span class="tick">${icon('done')}</span>
    </summary>
    <p class="soft">${why}</p>
    ${text(record, 'conflict') === '' ? '' : html`<div class="alert"><p>${text(record, 'conflict')}</p></div>`}
    <dl class="facts">
      ${row('Type', html`<code>${typeOf(issued)}</code>`)}
      ${row('Host', html`${copied(`n${at}`, host)} ${host === whole ? '' : html`<span class="soft">Full name: ${whole}</span>`}`)}
      ${priority === undefined ? '' : row('Priority', copied(`p${at}`, priority))}
      ${row('Value', copied(`v${at}`, value))}
      ${issued.record_type === 'TRACKING' && flag(record, 'verified') && text(record, 'certificate_until') === '' ? row('Certificate', `https://${whole} has no valid certificate yet. Until then, links use the hostname of this server.`) : ''}
      ${flag(record, 'verified') || text(domain, 'checked_at') === '' ? '' : row('Found', html`${(text(record, 'observed') || (isAnswered(record, domain) ? 'no record' : 'the DNS lookup failed')).split('\n').map((each) => html`<div>${each}</div>`)}`)}
    </dl>
  </details>`
}

/** All records: required ones first, verified ones folded, and as text to copy. */
export function recordCards(
  domain: DomainResource,
  all: readonly RecordResource[],
  advised: readonly AdvisedResource[],
): Html {
  const needed = all.filter((record) => flag(record, 'required'))
  const others = all.filter((record) => !flag(record, 'required'))
  const missingFirst = (some: readonly RecordResource[]): RecordResource[] =>
    some.toSorted((one, other) => Number(flag(one, 'verified')) - Number(flag(other, 'verified')))
  const found = needed.filter((record) => flag(record, 'verified')).length
  return html`<h2>Required <span class="soft">${count(found)} of ${count(needed.length)} found</span></h2>
    <progress max="${Math.max(needed.length, 1)}" value="${found}" aria-label="Required records found"></progress>
    ${missingFirst(needed).map((record, at) => card(domain, record, at))}
    <h2>This server</h2>
    <p class="soft">
      Your domains need the A or AAAA record of this server. Large providers also require a matching PTR record.
    </p>
    ${advisedRows('DNS records of this server', advised.filter(isOwn), 'o')}
    <h2>Recommended</h2>
    ${missingFirst(others).map((record, at) => card(domain, record, needed.length + at))}
    ${handedOn(domain, all, advised)}`
}

/** The missing records as a zone file, and as an email to the DNS administrator. */
function handedOn(
  domain: DomainResource,
  all: readonly RecordResource[],
  advised: readonly AdvisedResource[],
): Html | '' {
  const missing = all.filter((record) => !flag(record, 'verified') && !flag(record, 'missing_address'))
  const own = advised.filter((record) => isAddressToPublish(record))
  const ofDomain = zoneFile(
    missing.map((record) => ({
      record_type: text(record, 'record_type') as never,
      name: text(record, 'name'),
      value: text(record, 'value'),
      ttl: number(record, 'ttl'),
    })),
  )
  const lines = [ofDomain, ...own.map(lineOf)].filter(Boolean).join('\n')
  if (lines === '') return ''
  const name = text(domain, 'name')
  const letter = `Please publish these records for ${name}:\n\n${lines}\n`
  const mail = `mailto:?subject=${encodeURIComponent(`DNS records for ${name}`)}&body=${encodeURIComponent(letter)}`
  return html`<details>
    <summary>Missing records as a zone file</summary>
    <p><a href="${mail}">Email these records to whoever manages your DNS</a></p>
    ${codeShown('zone', lines)}
  </details>`
}

/** The states of advised records, named like those of required ones. */
const ADVISED_BADGES: Record<string, string> = { ok: 'found', different: 'does not match', no_answer: 'not checked' }

/** Records that make mail safer and are not counted. */
export const advisedTable = (advised: readonly AdvisedResource[]): Html =>
  html`<details>
    <summary>More records that email testing tools check</summary>
    ${advisedRows(
      'Recommended records',
      advised.filter((record) => !isOwn(record)),
      'a',
    )}
  </details>`

const isOwn = (record: AdvisedResource): boolean => ['HOST_ADDRESS', 'REVERSE'].includes(text(record, 'record_type'))

const isAddressToPublish = (record: AdvisedResource): boolean =>
  text(record, 'record_type') === 'HOST_ADDRESS' && text(record, 'state') !== 'ok' && isAddress(text(record, 'value'))

const lineOf = (record: AdvisedResource): string =>
  zoneLine({
    name: text(record, 'name'),
    ttl: number(record, 'ttl'),
    type: text(record, 'dns_type'),
    value: text(record, 'value'),
  })

const advisedRows = (caption: string, rows: readonly AdvisedResource[], id: string): Html =>
  table(
    caption,
    [
      { title: 'Status', kind: 'status' },
      { title: 'Purpose', width: 15 },
      { title: 'Type', kind: 'figure' },
      { title: 'Host', width: 30 },
      'Value',
    ],
    rows.map((record, at) => [
      badge(ADVISED_BADGES[text(record, 'state')] ?? text(record, 'state')),
      text(record, 'record_type').replaceAll('_', ' '),
      text(record, 'dns_type'),
      copied(`${id}n${at}`, text(record, 'name')),
      flag(record, 'answered')
        ? copied(`${id}v${at}`, text(record, 'value'))
        : html`<span class="soft">The DNS lookup failed.</span>`,
    ]),
    'No records.',
  )
