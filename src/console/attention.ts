// What needs a person, on the overview: each with its weight, in the group that it belongs to, and with one action.
import { html } from 'hono/html'
import { DAY } from '../base/clock.ts'
import { campaigns } from '../campaigns/api.ts'
import { receiverAlarms } from '../reputation/api-alarms.ts'
import { statistics } from '../reputation/api-statistics.ts'
import { troubles, type NeedsLook } from '../webui/troubles.ts'
import { count, percent, type Html } from '../webui/widgets.ts'
import { number, objects, text, texts, type Thing, type Visit } from '../webui/visit.ts'
import { webhooks } from '../webhooks/api.ts'
import { isFailing } from '../webhooks/page.ts'
import type { Known } from './first-steps.ts'

type Stats = Thing<typeof statistics>

/** Rates from which on receivers begin to distrust a sender, and refuse its mail. */
export const LIMITS = {
  bounce_rate: [0.02, 0.05],
  complaint_rate: [0.001, 0.003],
} as const

interface NeedsPerson extends NeedsLook {
  group: 'Delivery' | 'Server'
}

/** The rates for which receivers distrust or refuse mail. */
const rates = (stats: Stats): NeedsPerson[] =>
  (['bounce_rate', 'complaint_rate'] as const).flatMap((name) => {
    const value = number(stats, name)
    const [warn, bad] = LIMITS[name]
    if (value < warn) return []
    const why = name === 'bounce_rate' ? 'bounced: the addresses are old, or were never right' : 'was called spam'
    const mails = value >= bad ? 'Receivers refuse such senders' : 'Receivers begin to distrust such senders'
    const weight = value >= bad ? ('bad' as const) : ('waits' as const)
    const what = `${percent(value)} of the mail in this period ${why}. ${mails}.`
    return [{ weight, group: 'Delivery', what, to: '/receivers', action: 'See where' }]
  })

const alarmed = (alarms: readonly Thing<typeof receiverAlarms>[]): NeedsPerson[] =>
  alarms.map((alarm) => ({
    weight: 'bad',
    group: 'Delivery',
    what: text(alarm, 'says'),
    to: `/receivers/${encodeURIComponent(text(alarm, 'receiver'))}`,
    action: 'See what it says',
  }))

const domainsThatWait = (senders: Known['senders']): NeedsPerson[] =>
  senders.flatMap((domain) => {
    const [name, status] = [text(domain, 'name'), text(domain, 'status')]
    if (status === 'active') return []
    const what = html`<b>${name}</b> is ${status}: it cannot send${status === 'verifying' ? ' yet' : ''}.`
    const weight = status === 'verifying' ? 'waits' : 'bad'
    return [{ weight, group: 'Delivery', what, to: `/domains/${name}`, action: 'See its records' }]
  })

const failingWebhooks = (endpoints: readonly Thing<typeof webhooks>[]): NeedsPerson[] =>
  endpoints.flatMap((webhook) => {
    if (!isFailing(webhook)) return []
    const off = text(webhook, 'status') === 'disabled'
    const last = text(webhook, 'last_failure')
    const what = html`The webhook
      <b>${text(webhook, 'name')}</b> ${off ? 'is disabled' : 'is failing'}${last === '' ? '.' : `: ${last}`}`
    return [
      { weight: off ? 'bad' : 'waits', group: 'Delivery', what, to: `/webhooks/${webhook.id}`, action: 'See why' },
    ]
  })

const stoppedCampaigns = (stopped: readonly Thing<typeof campaigns>[]): NeedsPerson[] =>
  stopped.map((campaign) => {
    const failed = text(campaign, 'status') === 'failed'
    return {
      weight: failed ? 'bad' : 'waits',
      group: 'Delivery',
      what: html`The campaign
        <b>${text(campaign, 'name')}</b> ${failed ? 'could not be sent' : 'is paused; its mail waits'}.`,
      to: `/campaigns/${campaign.id}`,
      action: failed ? 'See why' : 'Open campaign',
    }
  })

/** What a check of the server means when it fails. */
const MEANING: Readonly<Record<string, string>> = {
  'reverse DNS': 'Reverse DNS is wrong: large receivers refuse your mail.',
  'SPF of HELO': 'The SPF record of this server is wrong: receivers distrust its bounces.',
  'port 25 out': 'Mail cannot leave this server.',
  'port 25 in': 'Mail from elsewhere does not reach this server.',
  DANE: 'The resolver fails at TLSA records: mail to signed domains waits.',
  blocklists: 'The address of this server is on a blocklist: receivers refuse your mail.',
  'lists of domains': 'A domain of this server is on a blocklist: receivers refuse its mail.',
  certificate: 'The mail certificate is not valid: others cannot send to this server safely.',
  disk: 'The disk is almost full: mail will be refused.',
  'data directory': 'The data directory cannot be used.',
  'installation key': 'The key of this installation is not there: secrets cannot be opened after the next start.',
  backups: 'There has been no backup for too long.',
  clock: 'The clock is wrong: signatures and sign-ins will be refused.',
}

/** Checks about which the page of the watch says more. */
const WATCHED = new Set(['reverse DNS', 'blocklists', 'lists of domains'])

const troublesOf = (server: NonNullable<Known['server']>): NeedsPerson[] =>
  texts(server, 'troubles').map((what) => ({
    weight: 'bad',
    group: 'Server',
    what,
    to: '/server',
    action: 'How to fix it',
  }))

const ofServer = (server: NonNullable<Known['server']>): NeedsPerson[] =>
  objects(server, 'findings').flatMap(({ check, detail, status }) => {
    if (status === 'ok') return []
    const meaning = status === 'fail' ? MEANING[check] : undefined
    const what = meaning ? html`${meaning} <span class="soft">${detail}</span>` : html`<b>${check}</b>: ${detail}`
    const to = WATCHED.has(check) ? '/server/watch' : '/server'
    return [{ weight: status === 'fail' ? 'bad' : 'waits', group: 'Server', what, to, action: 'How to fix it' }]
  })

/** The age from which on a backup is called too old. */
const OLD_BACKUP = 8 * DAY

function oldBackup(visit: Visit, server: NonNullable<Known['server']>): NeedsPerson[] {
  const age = visit.now() - Date.parse(text(server, 'last_backup_at'))
  const what = `The last backup is ${count(Math.floor(age / DAY))} days old.`
  return age > OLD_BACKUP ? [{ weight: 'waits', group: 'Server', what, to: '/server', action: 'See backups' }] : []
}

function groupOf(name: NeedsPerson['group'], found: readonly NeedsPerson[]): Html | '' {
  const of = found.filter(({ group }) => group === name)
  if (of.length === 0) return ''
  const heavy = [...of.filter(({ weight }) => weight === 'bad'), ...of.filter(({ weight }) => weight === 'waits')]
  return html`<h3>${name}</h3>
    ${troubles(heavy)}`
}

/** The problems that a person should look at, the heavier ones first. */
export async function attention(visit: Visit, stats: Stats, { senders, server }: Known): Promise<Html> {
  const [endpoints, stopped, alarms] = await Promise.all([
    visit.get(webhooks, '/webhooks?page%5Bsize%5D=100'),
    visit.get(campaigns, '/campaigns?filter%5Bstatus%5D=paused,failed&page%5Bsize%5D=10'),
    visit.get(receiverAlarms, '/statistics/alarms?filter%5Bstate%5D=open&page%5Bsize%5D=10'),
  ])
  const found = [
    ...alarmed(alarms.many),
    ...rates(stats),
    ...domainsThatWait(senders),
    ...failingWebhooks(endpoints.many),
    ...stoppedCampaigns(stopped.many),
    ...(server ? [...troublesOf(server), ...ofServer(server), ...oldBackup(visit, server)] : []),
  ]
  return html`<h2>What needs attention</h2>
    ${found.length === 0 ? html`<p>Nothing. All is well.</p>` : html`${groupOf('Delivery', found)} ${groupOf('Server', found)}`}`
}
