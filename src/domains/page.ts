// Domains: each record with its required and its present value in DNS, and the problems that prevent sending.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import { page } from '../webui/frame.ts'
import { button, dangers, fieldMaker, form } from '../webui/forms.ts'
import { badge, count, facts, live, pageOf, pager, table, time, type Html } from '../webui/widgets.ts'
import { advisedRecords } from './api-advised.ts'
import { domains, records } from './api.ts'
import { advisedTable, isAnswered, recordCards } from './page-records.ts'
import { done, type Form, type Place } from '../webui/place.ts'
import { flag, text, thingOf, type Answer, type Thing, type Visit } from '../webui/visit.ts'

type DomainResource = Thing<typeof domains>
type RecordResource = Thing<typeof records>
/** The part of a domain's page that another subject shows. */
type Panel = (visit: Visit, domainId: string, name: string) => Promise<Html>

/** What other subjects show of a domain. */
interface Panels {
  reputation: Panel
  reports: Panel
}

const LABELS = { name: 'Domain', purpose: 'Used for' } as const

const PURPOSES = [
  ['both', 'all mail'],
  ['transactional', 'mail of programs only'],
  ['marketing', 'campaigns only'],
] as const

/** What a domain is used for, in the words of its form. */
const purposeOf = (domain: DomainResource): string =>
  PURPOSES.find(([name]) => name === text(domain, 'purpose'))?.[1] ?? text(domain, 'purpose')

const ADD = html`<a class="button" href="/domains/new">Add domain</a>`

async function showAll(visit: Visit): Promise<Response> {
  const answer = await visit.get(domains, `/domains?${pageOf(visit)}`)
  const rows = answer.many.map((domain) => [
    html`<a href="/domains/${text(domain, 'name')}">${text(domain, 'name')}</a>`,
    badge(text(domain, 'status')),
    purposeOf(domain),
    time(domain.attributes.checked_at),
  ])
  return page(visit, {
    title: 'Domains',
    about: 'Mail leaves from a domain once its records are in DNS.',
    actions: visit.reading ? '' : ADD,
    done: done(visit),
    body: html`${live(
      visit,
      html`${table(
        'Domains',
        ['Domain', { title: 'Status', kind: 'status' }, LABELS.purpose, { title: 'Last checked', kind: 'time' }],
        rows,
        html`<p>No domain yet. Add the one that your mail comes from.</p>
          ${visit.reading ? '' : ADD}`,
      )}
      ${pager(visit, answer)}`,
    )}`,
  })
}

/** The form for a new domain, empty or as it was refused. */
function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Response | Promise<Response> {
  const entry = fieldMaker(LABELS, errors, typed)
  return page(visit, {
    title: 'Add domain',
    about: 'You get records to add where the domain was bought. Mail leaves once the required ones are found.',
    crumbs: [['/domains', 'Domains']],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${entry('name', { required: true, hint: 'Such as example.org: the part after the @ in your sender address.' })}
        ${entry('purpose', { options: PURPOSES, value: 'both' })} <button>Add domain</button>`,
      { to: '/domains' },
    ),
  })
}

const fresh: Place = { path: '/domains/new', changes: true, show: (visit) => showNew(visit) }

const list: Place = {
  path: '/domains',
  show: (visit) => showAll(visit),
  async act(visit, given) {
    const answer = await visit.ask('POST', '/domains', {
      type: 'domains',
      attributes: { name: given.get('name').trim(), purpose: given.get('purpose') },
    })
    return answer.one ? added(visit, text(thingOf(domains, answer.one), 'name')) : showNew(visit, answer.errors, given)
  },
}

/** What is to do next depends on DNS, which may have the records already: the page's live line says it. */
const added = (visit: Visit, name: string): Response => visit.say(`/domains/${name}`, `${name} is added.`)

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
  const missing = needed.filter((record) => isAnswered(record, domain)).length
  const silent = all.filter((record) => !isAnswered(record, domain)).length
  const unasked = `DNS could not be asked about ${count(silent)} of ${count(all.length)} records: nothing is known of them, and nothing was changed for it.`
  if (text(domain, 'status') === 'active')
    return missing === 0
      ? silent > 0
        ? `Mail goes out. ${unasked}`
        : 'All required records are in DNS; mail goes out.'
      : `Mail goes out, but ${count(missing)} required records are no longer seen.`
  if (text(domain, 'status') === 'suspended') return 'It is suspended; ask the operator of this server.'
  if (text(domain, 'checked_at') === '') return 'DNS has not been asked yet; this page follows.'
  if (missing === 0 && silent > 0) return `${unasked} This page follows.`
  return `${count(missing)} required ${missing === 1 ? 'record is' : 'records are'} not in DNS yet. Publish them with your DNS provider; this page follows.`
}

async function showOne(visit: Visit, panels: Panels, errors: Answer['errors'] = []): Promise<Response> {
  const domain = await domainNamed(visit)
  const [all, advised, days, seen] = await Promise.all([
    visit.all(records, `/domains/${domain.id}/records`),
    visit.all(advisedRecords, `/domains/${domain.id}/advised-records`),
    panels.reputation(visit, domain.id, text(domain, 'name')),
    panels.reports(visit, domain.id, text(domain, 'name')),
  ])
  return page(visit, {
    title: text(domain, 'name'),
    crumbs: [['/domains', 'Domains']],
    actions: html`<a class="button plain" href="/why/${text(domain, 'name')}">Why?</a>
      ${button(visit, 'check', 'Check now')}`,
    errors,
    done: done(visit),
    body: html`${live(
        visit,
        html`<p>${badge(text(domain, 'status'))} ${wayOf(domain, all)}</p>
          ${text(domain, 'checked_at') === '' ? '' : html`<p class="soft">DNS was asked ${time(domain.attributes.checked_at)}; this page follows.</p>`}
          ${recordCards(domain, all)}`,
      )}
      ${advisedTable(advised)}
      <h2>Reputation</h2>
      ${days}
      <h2>What others report</h2>
      ${seen}
      <h2>Settings</h2>
      ${settings(visit, domain)}
      <p>
        ${button(visit, 'rotate', 'Rotate the DKIM key', { confirm: 'The standby key signs from now on, and a new standby record is to be published.' })}
      </p>
      ${dangers(visit, [
        [
          'Nothing is sent from the domain any more, and its key is erased after seven days.',
          button(visit, 'remove', 'Remove the domain', {
            danger: true,
            confirm: 'Nothing is sent from it any more, and its key is erased after seven days.',
          }),
        ],
      ])}`,
  })
}

function settings(visit: Visit, domain: DomainResource): Html {
  const yes = (name: string, label: string, on: boolean): Html | '' =>
    button(visit, 'set', on ? `Stop tracking ${label}` : `Track ${label}`, { fields: { name, value: String(!on) } })
  return facts([
    [LABELS.purpose, purposeOf(domain)],
    ['Return path', `${text(domain, 'mail_from_prefix')}.${text(domain, 'name')}`],
    [
      'Encryption (TLS)',
      text(domain, 'tls_policy') === 'Require'
        ? 'always encrypted: else nothing is delivered'
        : 'encrypted where the receiver can',
    ],
    [
      'Opens',
      html`${flag(domain, 'open_tracking_enabled') ? 'tracked' : 'not tracked'}
      ${yes('open_tracking_enabled', 'opens', flag(domain, 'open_tracking_enabled'))}`,
    ],
    [
      'Clicks',
      html`${flag(domain, 'click_tracking_enabled') ? 'tracked' : 'not tracked'}
      ${yes('click_tracking_enabled', 'clicks', flag(domain, 'click_tracking_enabled'))}`,
    ],
  ])
}

const one = (panels: Panels): Place => ({
  path: '/domains/:name',
  show: (visit) => showOne(visit, panels),
  async act(visit, given) {
    const domain = await domainNamed(visit)
    const name = text(domain, 'name')
    const here = `/domains/${name}`
    const patch = (attributes: Record<string, unknown>) =>
      visit.ask('PATCH', `/domains/${domain.id}`, { type: 'domains', id: domain.id, attributes })
    switch (given.action) {
      case 'check':
        await visit.ask('POST', `/domains/${domain.id}/check`)
        return visit.say(here, `DNS was asked about ${name} just now.`)
      case 'remove': {
        const gone = await visit.ask('DELETE', `/domains/${domain.id}`)
        return gone.status === 204
          ? visit.say('/domains', `${name} is removed: nothing is sent from it any more.`)
          : showOne(visit, panels, gone.errors)
      }
      case 'rotate': {
        const answer = await patch({ rotate_dkim_key: true })
        return answer.one
          ? visit.say(here, 'The standby key signs from now on. Publish the record of the next one below.')
          : showOne(visit, panels, answer.errors)
      }
      default: {
        const on = given.get('value') === 'true'
        const tracked = given.get('name') === 'open_tracking_enabled' ? 'Opens' : 'Clicks'
        const answer = await patch({ [given.get('name')]: on })
        return answer.one
          ? visit.say(here, `${tracked} of mail from ${name} are ${on ? 'tracked' : 'not tracked'} from now on.`)
          : showOne(visit, panels, answer.errors)
      }
    }
  },
})

export const domainPlaces = (panels: Panels): Place[] => [fresh, list, one(panels)]
