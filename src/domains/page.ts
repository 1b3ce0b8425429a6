// Domains: each record with its required and its present value in DNS, and the problems that prevent sending.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import type { DomainPanel } from '../parts/part.ts'
import { badge, count, facts, live, time, type Html } from '../views/html/widgets.ts'
import { advisedRecords, domains, records } from './api.ts'
import { advisedTable, isAnswered, recordCards } from './page-records.ts'
import type { Place } from '../views/html/place.ts'
import { flag, text, type Thing, type Visit } from '../views/html/visit.ts'
import type { Actions } from '../views/actions.ts'
import type { ListView } from '../views/list.ts'
import { listPlaces, onePlace, type ShownOne } from '../views/pages.ts'

type DomainResource = Thing<typeof domains>
type RecordResource = Thing<typeof records>
/** The sections of other modules. */
type Panels = readonly DomainPanel[]

const PURPOSE = 'Used for'

const PURPOSES = [
  ['both', 'Transactional and marketing'],
  ['transactional', 'Transactional'],
  ['marketing', 'Marketing'],
] as const

/** The purpose of a domain, in the words of its form. */
const purposeOf = (domain: DomainResource): string =>
  PURPOSES.find(([name]) => name === text(domain, 'purpose'))?.[1] ?? text(domain, 'purpose')

const list = listPlaces({
  path: '/domains',
  title: 'Domains',
  about: 'You can send from a domain when its DNS records are verified.',
  add: { label: 'Add domain' },
  form: {
    title: 'Add domain',
    about:
      'Next, you get the DNS records to add at your DNS provider. You can send when the required ones are verified.',
    of: domains,
    fields: {
      name: { label: 'Domain', hint: 'For example example.org: the part after @ in your From address.' },
      purpose: { label: PURPOSE, options: PURPOSES, value: 'both' },
    },
    button: 'Add domain',
    // The next step depends on DNS, which may have the records already: the live line of the page has it.
    done: (visit, one) => visit.say(`/domains/${text(one, 'name')}`, `${text(one, 'name')} was added.`),
  },
  list: (): ListView<typeof domains> => ({
    of: domains,
    from: '/domains',
    caption: 'Domains',
    live: true,
    columns: [
      { title: 'Domain', of: 'name', to: (each) => `/domains/${text(each, 'name')}` },
      { title: 'Status', kind: 'status', of: 'status' },
      { title: PURPOSE, of: purposeOf },
      { title: 'Last checked', kind: 'time', of: 'checked_at' },
    ],
    empty: 'No domains yet. Add the domain you want to send from.',
  }),
})

/** The domain that the path names. Throws 404. */
export async function domainNamed(visit: Visit): Promise<DomainResource> {
  const name = visit.context.req.param('name')!
  const { many } = await visit.get(domains, `/domains?filter%5Bname%5D=${encodeURIComponent(name.toLowerCase())}`)
  if (!many[0]) throw refuse('not_found', 'There is no such domain.')
  return many[0]
}

/** The problem that prevents sending, in one sentence. */
function wayOf(domain: DomainResource, all: readonly RecordResource[]): string {
  const needed = all.filter((record) => flag(record, 'required') && !flag(record, 'verified'))
  const addressless = needed.some((record) => flag(record, 'missing_address'))
  const missing = needed.filter((record) => isAnswered(record, domain) && !flag(record, 'missing_address')).length
  const lacksKey = needed.some((record) => text(record, 'record_type') === 'DKIM' && isAnswered(record, domain))
  const silent = all.filter((record) => !isAnswered(record, domain)).length
  const unasked = `The DNS lookup of ${count(silent)} of ${count(all.length)} records failed. Their last known status was kept.`
  if (text(domain, 'status') === 'active')
    return addressless
      ? 'Sending, but the hostname of this server has no A or AAAA record: SPF fails and bounce messages do not arrive. Publish the address record below.'
      : missing === 0
        ? silent > 0
          ? `Sending. ${unasked}`
          : 'All required records are verified. You can send.'
        : lacksKey
          ? 'The DKIM record of the signing key is missing. If the next check in a minute does not find it either, email is held until it is back.'
          : `Sending, but ${count(missing)} required ${missing === 1 ? 'record is' : 'records are'} missing.`
  if (text(domain, 'status') === 'suspended') return 'This domain is suspended. Contact the operator of this server.'
  if (text(domain, 'checked_at') === '') return 'DNS has not been checked yet. This page updates automatically.'
  if (missing === 0 && addressless)
    return 'SPF and MX point to this server, but it has no A or AAAA record. Publish the address record below. This page updates automatically.'
  if (missing === 0 && silent > 0) return `${unasked} This page updates automatically.`
  return `${count(missing)} required ${missing === 1 ? 'record is' : 'records are'} missing. Add ${missing === 1 ? 'it' : 'them'} at your DNS provider. This page updates automatically.`
}

/** Whether opens or clicks are tracked, with the button that changes it. */
const tracking = ({ button: act, one }: ShownOne<typeof domains>, name: 'open' | 'click'): Html =>
  html`${flag(one, `${name}_tracking_enabled`) ? 'tracked' : 'not tracked'} ${act(`${name}-on`)} ${act(`${name}-off`)}`

function settings(shown: ShownOne<typeof domains>): Html {
  const { one: domain } = shown
  return facts([
    [PURPOSE, purposeOf(domain)],
    ['Return path', `${text(domain, 'mail_from_prefix')}.${text(domain, 'name')}`],
    [
      'Encryption (TLS)',
      text(domain, 'tls_policy') === 'Require'
        ? 'required: email is not delivered without TLS'
        : 'opportunistic: used if the receiving server supports it',
    ],
    ['Opens', tracking(shown, 'open')],
    ['Clicks', tracking(shown, 'click')],
  ])
}

/** The actions that track opens or clicks, or stop it. */
function trackingActions(name: 'open' | 'click', tracked: string): Actions<typeof domains> {
  const attribute = `${name}_tracking_enabled` as const
  return {
    [`${name}-on`]: {
      label: `Track ${name}s`,
      when: (one) => !flag(one, attribute),
      ask: { attributes: { [attribute]: true } },
      said: (one) => `${tracked} of email from ${text(one, 'name')} are now tracked.`,
    },
    [`${name}-off`]: {
      label: `Stop tracking ${name}s`,
      when: (one) => flag(one, attribute),
      ask: { attributes: { [attribute]: false } },
      said: (one) => `${tracked} of email from ${text(one, 'name')} are no longer tracked.`,
    },
  }
}

const ACTIONS: Actions<typeof domains> = {
  check: {
    label: 'Check now',
    ask: 'check',
    said: (one) => `The DNS records of ${text(one, 'name')} were checked.`,
  },
  rotate: {
    label: 'Rotate DKIM key',
    confirm: 'The standby key becomes the signing key. You must publish a new standby record.',
    ask: { attributes: { rotate_dkim_key: true } },
    said: 'The DKIM key was rotated. Publish the new standby record below.',
  },
  ...trackingActions('open', 'Opens'),
  ...trackingActions('click', 'Clicks'),
  remove: {
    label: 'Remove domain',
    confirm: 'Sending from this domain stops. Its DKIM keys are erased after 7 days.',
    danger: true,
    deletes: true,
    said: (one) => `${text(one, 'name')} was removed.`,
  },
}

const one = (panels: Panels): Place =>
  onePlace({
    path: '/domains/:name',
    of: domains,
    list: ['/domains', 'Domains'],
    find: domainNamed,
    title: 'name',
    actions: ACTIONS,
    head: ({ button: act, one: domain }) =>
      html`<a class="button plain" href="/why/${text(domain, 'name')}">Why?</a> ${act('check')}`,
    async body(shown) {
      const { one: domain, visit } = shown
      const [all, advised, ...sections] = await Promise.all([
        visit.all(records, `/domains/${domain.id}/records`),
        visit.all(advisedRecords, `/domains/${domain.id}/advised-records`),
        ...panels.map(({ show }) => show(visit, domain.id, text(domain, 'name'))),
      ])
      return html`${live(
          visit,
          html`<p>${badge(text(domain, 'status'))} ${wayOf(domain, all)}</p>
            ${text(domain, 'checked_at') === '' ? '' : html`<p class="soft">Last checked ${time(domain.attributes.checked_at)}. Updates automatically.</p>`}
            ${recordCards(domain, all, advised)}`,
        )}
        ${advisedTable(advised)}
        ${panels.map(
          ({ title }, index) =>
            html`<h2>${title}</h2>
              ${sections[index]}`,
        )}
        <h2>Settings</h2>
        ${settings(shown)}
        <p>${shown.button('rotate')}</p>`
    },
  })

export const domainPlaces = (panels: Panels): Place[] => [...list, one(panels)]
