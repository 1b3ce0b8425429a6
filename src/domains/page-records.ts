// The records of a domain as a guide: what is still missing comes first, each as the form of a DNS provider asks for
// it, with what it is for and what DNS says now.
import { html } from 'hono/html'
import { badge, codeShown, count, table, type Html } from '../webui/widgets.ts'
import { flag, number, text, type Thing } from '../webui/visit.ts'
import type { advisedRecords } from './api-advised.ts'
import type { domains, records } from './api.ts'
import { partsOf, typeOf, zoneFile } from './zone-lines.ts'

type DomainResource = Thing<typeof domains>
type RecordResource = Thing<typeof records>

/** Whether DNS answered for a record at the last check of its domain. */
export const isAnswered = (record: RecordResource, domain: DomainResource): boolean =>
  text(record, 'checked_at') !== '' && text(record, 'checked_at') >= text(domain, 'checked_at')

/** What a record is for: its name, and why it is needed. */
const MEANINGS: Record<string, readonly [name: string, why: string]> = {
  MAIL_FROM_MX: ['Return path (MX)', 'Bounces of your mail come back to this server.'],
  SPF: ['SPF of the return path', 'It names the servers that may send for this name.'],
  DMARC: ['DMARC', 'It says what receivers do with mail that only claims to be yours, and where they report.'],
  INBOUND_MX: ['Incoming mail (MX)', 'It brings mail for your inboxes to this server.'],
  TRACKING: ['Links', 'Tracked links lead over your own name.'],
}

/** Of the DKIM keys, only the signing one is required. */
function meaningOf(record: RecordResource): readonly [name: string, why: string] {
  const type = text(record, 'record_type')
  if (type !== 'DKIM') return MEANINGS[type] ?? [type.replaceAll('_', ' '), '']
  return flag(record, 'required')
    ? ['DKIM key', 'Receivers check the signature of each mail with it.']
    : ['DKIM key for the next rotation', 'With it in place, the key can be changed at any time.']
}

const copied = (id: string, value: string): Html =>
  html`<code id="${id}" class="value">${value}</code>
    <button class="plain small" type="button" data-copy="${id}">Copy</button>`

/** The name below the domain, as most providers ask for it; "@" is the domain itself. */
const hostBelow = (name: string, domain: string): string =>
  name === domain ? '@' : name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : name

function stateOf(record: RecordResource, domain: DomainResource): Html {
  if (flag(record, 'verified')) return badge('found')
  if (!isAnswered(record, domain)) return badge('not known')
  if (text(record, 'observed') !== '') return badge('different')
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
  return html`<details class="panel record" ${flag(record, 'verified') ? '' : html`open`}>
    <summary>${stateOf(record, domain)} <strong>${name}</strong> <span class="soft">${whole}</span></summary>
    <p class="soft">${why}</p>
    <dl class="facts">
      ${row('Type', html`<code>${typeOf(issued)}</code>`)}
      ${row('Host', html`${copied(`n${at}`, host)} ${host === whole ? '' : html`<span class="soft">whole: ${whole}</span>`}`)}
      ${priority === undefined ? '' : row('Priority', copied(`p${at}`, priority))}
      ${row('Value', copied(`v${at}`, value))}
      ${flag(record, 'verified') || text(domain, 'checked_at') === '' ? '' : row('Found', text(record, 'observed') || (isAnswered(record, domain) ? 'nothing' : 'DNS did not answer'))}
    </dl>
  </details>`
}

/** All records, the required ones first, those that are found folded; and as lines to hand on. */
export function recordCards(domain: DomainResource, all: readonly RecordResource[]): Html {
  const needed = all.filter((record) => flag(record, 'required'))
  const others = all.filter((record) => !flag(record, 'required'))
  const missingFirst = (some: readonly RecordResource[]): RecordResource[] =>
    some.toSorted((one, other) => Number(flag(one, 'verified')) - Number(flag(other, 'verified')))
  const found = needed.filter((record) => flag(record, 'verified')).length
  return html`<h2>Required <span class="soft">${count(found)} of ${count(needed.length)} found</span></h2>
    <progress
      max="${Math.max(needed.length, 1)}"
      value="${found}"
      aria-label="Required records that are found"
    ></progress>
    ${missingFirst(needed).map((record, at) => card(domain, record, at))}
    <h2>Recommended</h2>
    ${missingFirst(others).map((record, at) => card(domain, record, needed.length + at))} ${handedOn(domain, all)}`
}

/** The records as a zone file, and as a mail to whoever keeps the DNS. */
function handedOn(domain: DomainResource, all: readonly RecordResource[]): Html {
  const lines = zoneFile(
    all.map((record) => ({
      record_type: text(record, 'record_type') as never,
      name: text(record, 'name'),
      value: text(record, 'value'),
      ttl: number(record, 'ttl'),
    })),
  )
  const name = text(domain, 'name')
  const letter = `Please publish these records for ${name}:\n\n${lines}\n`
  const mail = `mailto:?subject=${encodeURIComponent(`DNS records of ${name}`)}&body=${encodeURIComponent(letter)}`
  return html`<details>
    <summary>All as a zone file</summary>
    <p><a href="${mail}">Send them to who keeps your DNS</a></p>
    ${codeShown('zone', lines)}
  </details>`
}

/** The states of advised records in the words of the required ones. */
const ADVISED_BADGES: Record<string, string> = { ok: 'found', 'to change': 'different', 'no answer': 'not known' }

/** Records that make mail safer and are not counted. */
export const advisedTable = (advised: readonly Thing<typeof advisedRecords>[]): Html =>
  html`<details>
    <summary>More that mail testers look for</summary>
    ${table(
      'Recommended records',
      [
        { title: 'State', kind: 'status' },
        { title: 'What for', width: 15 },
        { title: 'Type', kind: 'figure' },
        { title: 'Host', width: 30 },
        'Value',
      ],
      advised.map((record, at) => [
        badge(ADVISED_BADGES[text(record, 'state')] ?? text(record, 'state')),
        text(record, 'record_type').replaceAll('_', ' '),
        text(record, 'dns_type'),
        copied(`an${at}`, text(record, 'name')),
        flag(record, 'answered')
          ? copied(`av${at}`, text(record, 'value'))
          : html`<span class="soft">DNS could not be asked what it says now.</span>`,
      ]),
      'None.',
    )}
  </details>`
