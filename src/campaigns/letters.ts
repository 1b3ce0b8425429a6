// Gives the composer the content of a campaign's mail, and decides whether the mail is still to be sent. The decision
// is made when the mail is about to be sent, not when it was queued.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { parseAddress, type Address } from '../message/address.ts'
import { withFooter } from '../message/footer.ts'
import type { CampaignRecipient, CampaignTemplate } from '../message/campaign.ts'
import { returnPathToken, unsubscribeLocalPart } from '../message/return-path.ts'
import { textOfValue } from '../message/template.ts'
import type { Bulk, BulkLetter, BulkWork } from '../outbound/attempt.ts'
import { damaged } from '../outbound/intact.ts'
import { stopsNow, type KnownStops, type Recipient } from '../outbound/stops.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'
import type { Store } from '../store/database.ts'
import { digestNumber, isIntact } from '../store/digests.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'
import { unsubscribeUrl } from './unsubscribe-token.ts'

export interface LettersDesk {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  config: Pick<Config, 'http'>
}

type Campaign = RowOf<'campaigns'>
type Digest = { digest: Uint8Array | null }
type Contact = Digest &
  Pick<RowOf<'contacts'>, 'audience_key' | 'name' | 'custom_fields' | 'status' | 'email' | 'preferences'>

const [OF_CAMPAIGN, OF_CONTACT, OF_AUDIENCE] = ['campaigns', 'contacts', 'audiences'].map(digestNumber) as [
  number,
  number,
  number,
]

const campaignByKey = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('campaigns as c')
    .leftJoin('digests as d', (on) => on.on('d.of', '=', OF_CAMPAIGN).onRef('d.row_key', '=', 'c.key'))
    .selectAll('c')
    .select('d.digest')
    .where('c.key', '=', arg.key),
)
const stateOf = statement<{ key: number }>()((arg) =>
  db.selectFrom('campaigns').select(['status', 'deleted_at']).where('key', '=', arg.key),
)
const contactByKey = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('contacts as c')
    .leftJoin('digests as d', (on) => on.on('d.of', '=', OF_CONTACT).onRef('d.row_key', '=', 'c.key'))
    .select(['c.audience_key', 'c.name', 'c.custom_fields', 'c.status', 'c.email', 'c.preferences', 'd.digest'])
    .where('c.key', '=', arg.key),
)
const audienceByKey = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('audiences as a')
    .leftJoin('digests as d', (on) => on.on('d.of', '=', OF_AUDIENCE).onRef('d.row_key', '=', 'a.key'))
    .select(['a.id', 'a.name', 'a.user_key', 'a.domain_key', 'a.description', 'd.digest'])
    .where('a.key', '=', arg.key),
)

/** The most campaigns that are kept in memory. */
const MAX_KNOWN = 50
const MAX_LIST_NAME = 60

/** Campaign, domain, mail_from_prefix, host of tracked links, user. */
type TemplateName = [key: number, domain: string, prefix: string, base: string, user: string]

interface Known {
  campaign: Campaign
  listId: string
  /** What of it is damaged in the database, as a sentence. */
  damage?: string | undefined
}

export class CampaignLetters implements Bulk {
  readonly #desk: LettersDesk
  /** Called at the first attempt of each mail. */
  taken: (campaign: number) => void = () => {}
  readonly #known = new Map<number, Known>()
  /** Whether campaigns are halted, as last read. */
  readonly #halted = new Map<number, 'hold' | 'drop' | undefined>()

  constructor(desk: LettersDesk) {
    this.#desk = desk
  }

  /** The template behind a name that `letter` returned; a worker asks for it. */
  template(name: string): CampaignTemplate | undefined {
    const [key, domain, prefix, base, user] = JSON.parse(name) as TemplateName
    const known = this.#know(key)
    if (!known) return undefined
    const { campaign } = known
    const tracked = campaign.opens_tracked === 1 || campaign.clicks_tracked === 1
    return {
      id: name,
      from: address(campaign.from_address ?? `noreply@${domain}`),
      replyTo: campaign.reply_to === null ? [] : (JSON.parse(campaign.reply_to) as string[]).map(address),
      subject: campaign.subject,
      ...withFooter({ html: campaign.body_html, text: campaign.body_text }, campaign.test_mode === 0),
      extra: [
        ...(campaign.test_mode === 1
          ? []
          : ([['List-Id', known.listId.replace('{domain}', domain)]] as [string, string][])),
        ['Feedback-ID', `${campaign.id}:${user}:campaign:${domain}`],
      ],
      tracking: tracked
        ? {
            base,
            key: this.#desk.keyring.derive('tracking').toString('base64'),
            opens: campaign.opens_tracked === 1,
            clicks: campaign.clicks_tracked === 1,
          }
        : null,
      seed: `${prefix}${campaign.id}`.replace(/[^A-Za-z0-9]/g, '').slice(-32),
    }
  }

  /** The letter for one delivery of a campaign, or the reason why there is none. */
  letter({ base, delivery, email, known: stops }: BulkWork): BulkLetter | Verdict | 'hold' | 'drop' {
    const { keyring, log, store } = this.#desk
    if (delivery.attempts === 1) this.taken(email.campaign_key!)
    const halted = this.halted(email.campaign_key!)
    if (halted) return halted
    const known = this.#know(email.campaign_key!)!
    const { campaign } = known
    const contact = email.contact_key === null ? undefined : store.first(contactByKey({ key: email.contact_key }))
    const harm = known.damage ?? (contact && damageIn('contacts', contact))
    if (harm !== undefined) return damaged(log, email.id, `Mail ${email.id} is not sent: ${harm}`)
    const test = campaign.test_mode === 1
    const unwanted = this.#unwanted(campaign, contact, delivery, stops)
    if (unwanted) return unwanted
    const mailFrom = `${email.mail_from_prefix}.${email.domain}`
    const leave = test ? undefined : this.#leave(campaign, delivery.key, delivery.address, mailFrom)
    const recipient: CampaignRecipient = {
      to: { ...address(delivery.address), name: contact?.name ?? '' },
      messageId: `<${email.id}@${email.domain}>`,
      date: email.created_at,
      delivery: delivery.key,
      values: { ...fieldsOf(contact), name: contact?.name ?? '', email: delivery.address, ...leave?.values },
      extra: [
        ['CFBL-Address', `${returnPathToken(keyring, delivery.key)}@${mailFrom}; report=arf`],
        ...(leave?.extra ?? []),
      ],
    }
    const name = JSON.stringify([
      campaign.key,
      email.domain,
      email.mail_from_prefix,
      base,
      email.user_id,
    ] satisfies TemplateName)
    return { campaign: name, recipient }
  }

  /** Whether a campaign may not send now (`hold`) or never again (`drop`). */
  halted(key: number): 'hold' | 'drop' | undefined {
    if (!this.#halted.has(key)) this.#halted.set(key, this.#haltedNow(key))
    return this.#halted.get(key)
  }

  /** Says that a campaign's status may have changed. */
  lookAgain(): void {
    this.#halted.clear()
  }

  #haltedNow(key: number): 'hold' | 'drop' | undefined {
    const state = this.#desk.store.first(stateOf({ key }))
    if (!state || state.deleted_at !== null || state.status === 'cancelled') return 'drop'
    return state.status === 'sending' ? undefined : 'hold'
  }

  /**
   * A contact that was removed, unsubscribed or suppressed since the
   * campaign began gets no mail. A test has no contact.
   */
  #unwanted(campaign: Campaign, contact: Contact | undefined, to: Recipient, known: KnownStops): Verdict | undefined {
    const { clock, keyring, store } = this.#desk
    const at = { stage: 'compose' } as const
    const test = campaign.test_mode === 1
    if (!test && contact?.audience_key !== campaign.audience_key)
      return ownVerdict('suppressed', '5.7.1', 'The contact was removed after the campaign had begun.', at)
    if (contact && contact.status !== 'subscribed')
      return ownVerdict('suppressed', '5.7.1', `The contact is ${contact.status}.`, at)
    const [entry] = stopsNow(known, store, keyring, [to], clock.now(), 'marketing')
    return entry && ownVerdict('suppressed', '5.7.1', `The address is suppressed (${entry.reason}).`, at)
  }

  /** The unsubscribe links: one https and one mailto URI (RFC 2369, RFC 8058). */
  #leave(
    campaign: Campaign,
    delivery: number,
    to: string,
    mailFrom: string,
  ): { values: Record<string, string>; extra: [string, string][] } {
    const { config, keyring } = this.#desk
    const url = unsubscribeUrl(keyring, config.http.public_url, {
      delivery,
      domain: campaign.domain_key,
      audience: campaign.audience_key,
      email: to,
    })
    const mailto = `mailto:${unsubscribeLocalPart(keyring, delivery)}@${mailFrom}?subject=unsubscribe`
    return {
      values: { unsubscribe_url: url, unsubscribe_mailto: mailto },
      extra: [
        ['List-Unsubscribe', `<${url}>, <${mailto}>`],
        ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
      ],
    }
  }

  #know(key: number): Known | undefined {
    const known = this.#known.get(key)
    if (known) return known
    const { store } = this.#desk
    const campaign = store.first(campaignByKey({ key }))
    if (!campaign) return undefined
    const audience = store.first(audienceByKey({ key: campaign.audience_key }))
    const name = (audience?.name ?? '')
      .replace(/[^\x20-\x7e]|["\\<>]/g, '')
      .trim()
      .slice(0, MAX_LIST_NAME)
    const listId = `${name === '' ? '' : `"${name}" `}<${audience?.id ?? campaign.id}.{domain}>`
    const damage = damageIn('campaigns', campaign) ?? (audience && damageIn('audiences', audience))
    // Not kept: it is read again with the next mail, which may be after its repair.
    if (damage !== undefined) return { campaign, listId, damage }
    // Kept without an end: a campaign that has begun does not change.
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(key, { campaign, listId })
    return { campaign, listId }
  }
}

/** A row that is not what was written, as a sentence. */
const damageIn = (table: string, row: Digest): string | undefined =>
  isIntact(table, { ...row }, row.digest) ? undefined : `its row of ${table} in the database is not what was written.`

const address = (text: string): Address => parseAddress(text) ?? { name: '', address: text, local: text, domain: '' }

function fieldsOf(contact: Contact | undefined): Record<string, string> {
  if (!contact || contact.custom_fields === null) return {}
  const fields = JSON.parse(contact.custom_fields) as Record<string, unknown>
  // Null prototype: a field may have any name, even "__proto__".
  const values = Object.create(null) as Record<string, string>
  for (const [name, value] of Object.entries(fields)) values[name] = textOfValue(value)
  return values
}
