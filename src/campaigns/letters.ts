// The source of campaign emails: gives the composer the content of an email, and decides whether it is still sent. The
// decision is made just before an email is sent, not when it is queued.
import { must } from '../base/errors.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { textsOf } from '../base/json.ts'
import { parseAddress, type Address } from '../message/address.ts'
import { campaignSender } from '../message/identity.ts'
import type { CampaignRecipient, CampaignTemplate } from '../message/campaign.ts'
import { returnPathToken, unsubscribeLocalPart } from '../message/return-path.ts'
import { textOfValue } from '../message/template.ts'
import type { UnsignedJob } from '../message/unsigned.ts'
import { settleBulk, settlePage, withdraw } from '../mail/bulk.ts'
import { claimBulk } from '../delivery/queue/claim.ts'
import { damaged, trackingBase } from '../delivery/wire/letter.ts'
import { domainStop, reasonOf, stopsNow, type KnownStops, type DomainRecipient } from '../suppressions/stops.ts'
import {
  firstOf,
  type Claim,
  type MailTransaction,
  type MailSource,
  type MailPlan,
  type Withdrawal,
} from '../delivery/queue/transaction.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'
import type { Settling } from '../delivery/results/settle.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { Gathered } from '../store/gathered.ts'
import { isIntact, storedDigest } from '../store/digests.ts'
import { db, sql, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { brandOf } from './brand.ts'
import type { QueuedAhead } from './queued-ahead.ts'
import { unsubscribeUrl } from './unsubscribe.ts'

export interface LettersDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  config: Pick<Config, 'http'>
  ahead: QueuedAhead
}

type Campaign = RowOf<'campaigns'>
type Digest = { digest: Uint8Array | null }
type LetterContact = Digest &
  Pick<RowOf<'contacts'>, 'audience_key' | 'name' | 'custom_fields' | 'status' | 'email' | 'preferences'>

const campaignByKey = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('campaigns as c')
    .selectAll('c')
    .select(storedDigest('campaigns', 'c.key').as('digest'))
    .where('c.key', '=', arg.key),
)
const stateOf = statement<{ key: number }>()((arg) =>
  db.selectFrom('campaigns').select(['status', 'deleted_at']).where('key', '=', arg.key),
)
const contactsByKey = statement<{ keys: string }>()((arg) =>
  db
    .selectFrom('contacts as c')
    .select(['c.key', 'c.audience_key', 'c.name', 'c.custom_fields', 'c.status', 'c.email', 'c.preferences'])
    .select(storedDigest('contacts', 'c.key').as('digest'))
    .where(sql<boolean>`c.key in (select value from json_each(${arg.keys}))`),
)
const audienceByKey = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('audiences as a')
    .select(['a.id', 'a.name', 'a.user_key', 'a.domain_key', 'a.description', 'a.title'])
    .select(storedDigest('audiences', 'a.key').as('digest'))
    .where('a.key', '=', arg.key),
)

/** How long (ms) the results of campaign mail wait for each other. */
const PATIENCE = 20
/** The maximum number of cached campaigns. */
const MAX_KNOWN = 50
const MAX_LIST_NAME = 60
/** Replaces the token that identifies the recipient. */
const HIDDEN = 'known-to-the-recipient'

/** Campaign, domain, mail_from_prefix, host of tracked links, user. */
type TemplateName = [key: number, domain: string, prefix: string, base: string, user: string]

interface KnownCampaign {
  campaign: Campaign
  listId: string
  /** The damage of the campaign in the database, as a sentence. */
  damage?: string | undefined
}

export class CampaignLetters implements MailSource {
  readonly results: Gathered<Settling>
  readonly settle = settleBulk
  readonly #deps: LettersDeps
  readonly #known = new Map<number, KnownCampaign>()
  /** The contacts of claimed emails, with the generation of the table when they were read. */
  readonly #contacts = new WeakMap<
    MailTransaction['email'],
    { generation: number; contact: LetterContact | undefined }
  >()
  /** Whether campaigns are halted, as last read. */
  readonly #halted = new Map<number, boolean>()

  constructor(deps: LettersDeps) {
    this.#deps = deps
    this.results = new Gathered(deps.store, PATIENCE, settlePage)
  }

  /** Returns the template for a name from `letter`. Workers request it. */
  template(name: string): CampaignTemplate | undefined {
    const [key, domain, prefix, base, user] = JSON.parse(name) as TemplateName
    const known = this.#know(key)
    if (!known) return undefined
    const { campaign } = known
    const tracked = campaign.opens_tracked === 1 || campaign.clicks_tracked === 1
    return {
      id: name,
      from: address(campaignSender(campaign.from_address, domain)),
      replyTo: campaign.reply_to === null ? [] : textsOf(campaign.reply_to).map(address),
      subject: campaign.subject,
      html: campaign.body_html,
      text: campaign.body_text,
      footer: campaign.test_mode === 0 ? 'link' : 'words',
      extra: [
        ...(campaign.test_mode === 1
          ? []
          : ([['List-Id', known.listId.replace('{domain}', domain)]] as [string, string][])),
        ['Feedback-ID', `${campaign.id}:${user}:campaign:${domain}`],
      ],
      tracking: tracked
        ? {
            base,
            key: this.#deps.keyring.derive('tracking').toString('base64'),
            opens: campaign.opens_tracked === 1,
            clicks: campaign.clicks_tracked === 1,
          }
        : null,
      seed: `${prefix}${campaign.id}`.replace(/[^A-Za-z0-9]/g, '').slice(-32),
    }
  }

  claim(tx: Tx, claim: Claim): MailTransaction[] {
    const claimed = claimBulk(tx, this, this.#deps.keyring, claim)
    const generation = tx.generation('contacts', 'changed')
    const contacts = readContacts(
      tx,
      claimed.map(({ email }) => email.contact_key),
    )
    for (const { email } of claimed)
      if (email.contact_key !== null)
        this.#contacts.set(email, { generation, contact: contacts.get(email.contact_key) })
    return claimed
  }

  /** The contact as it is now: read again when any contact was changed or removed since the mail was claimed. */
  #contactOf(email: MailTransaction['email']): LetterContact | undefined {
    if (email.contact_key === null) return undefined
    const { store } = this.#deps
    const known = this.#contacts.get(email)
    if (known?.generation === store.generation('contacts', 'changed')) return known.contact
    return readContacts(store, [email.contact_key]).get(email.contact_key)
  }

  look(work: MailTransaction): MailPlan | Withdrawal {
    const { log } = this.#deps
    const { email, known: stops } = work
    const delivery = firstOf(work)
    const campaign = campaignOf(work)
    if (delivery.attempts === 1) this.#deps.ahead.attempted(campaign)
    if (this.#isHalted(work)) return withdrawalOf(work)
    const known = must(this.#know(campaign), 'The campaign of a mail')
    const contact = this.#contactOf(email)
    const harm = known.damage ?? (contact && damageIn('contacts', contact))
    const verdict =
      harm === undefined
        ? this.#unwanted(known.campaign, contact, delivery, stops)
        : damaged(log, email.id, `Mail ${email.id} is not sent: ${harm}`)
    if (verdict) return { ended: [verdict], job: () => undefined }
    return {
      ended: [undefined],
      job: (_, signature) => ({
        campaign: this.#templateName(known.campaign, email),
        recipient: this.#recipient(known.campaign, contact, work),
        signature,
      }),
    }
  }

  /**
   * Returns the content of an email whether or not it may still be sent, or undefined if its campaign was removed. Its
   * unsubscribe link and address have no effect, because a click of another viewer must not unsubscribe the recipient.
   */
  unsigned(work: Pick<MailTransaction, 'deliveries' | 'email'>): UnsignedJob | undefined {
    const known = this.#know(campaignOf(work))
    const template = known && this.template(this.#templateName(known.campaign, work.email))
    return template && { template, recipient: this.#recipient(known.campaign, this.#contactOf(work.email), work, true) }
  }

  unwanted(work: MailTransaction): Verdict | Withdrawal | undefined {
    if (this.#isHalted(work)) return withdrawalOf(work)
    return domainStop(this.#deps.store, work.email)
  }

  #templateName({ key }: Campaign, email: MailTransaction['email']): string {
    const base = trackingBase(this.#deps, email)
    return JSON.stringify([key, email.domain, email.mail_from_prefix, base, email.user_id] satisfies TemplateName)
  }

  /** The parts that differ for each recipient. */
  #recipient(
    campaign: Campaign,
    contact: LetterContact | undefined,
    work: Pick<MailTransaction, 'deliveries' | 'email'>,
    hidden = false,
  ): CampaignRecipient {
    const { email } = work
    const { address: to, key } = firstOf(work)
    const mailFrom = `${email.mail_from_prefix}.${email.domain}`
    const leave = campaign.test_mode === 1 ? undefined : this.#leave(campaign, { delivery: key, to, mailFrom, hidden })
    return {
      to: { ...address(to), name: contact?.name ?? '' },
      messageId: email.message_id,
      date: email.created_at,
      delivery: key,
      values: { ...fieldsOf(contact), name: contact?.name ?? '', email: to, ...leave?.values },
      extra: [
        ['CFBL-Address', `${returnPathToken(this.#deps.keyring, key)}@${mailFrom}; report=arf`],
        ...(leave?.extra ?? []),
      ],
    }
  }

  /**
   * Whether an email must not be sent now: its campaign is not sending, or the daily limit for the receiver is reached.
   */
  #isHalted(work: MailTransaction): boolean {
    const { clock, store } = this.#deps
    return this.#isPaused(campaignOf(work)) || work.slot?.isClosed(store, clock.now()) === true
  }

  /** Whether a campaign may not send now, or never again. */
  #isPaused(key: number): boolean {
    const known = this.#halted.get(key)
    if (known !== undefined) return known
    const state = this.#deps.store.first(stateOf({ key }))
    const halted = state?.status !== 'sending' || state.deleted_at !== null
    this.#halted.set(key, halted)
    return halted
  }

  /** Must be called when a campaign's status may have changed. */
  lookAgain(): void {
    this.#halted.clear()
  }

  /**
   * A contact that was removed, unsubscribed or suppressed since the campaign started gets no email. A test has no
   * contact.
   */
  #unwanted(
    campaign: Campaign,
    contact: LetterContact | undefined,
    to: DomainRecipient,
    known: KnownStops,
  ): Verdict | undefined {
    const { clock, keyring, store } = this.#deps
    const at = { stage: 'compose' } as const
    const test = campaign.test_mode === 1
    if (!test && contact?.audience_key !== campaign.audience_key)
      return ownVerdict('suppressed', '5.7.1', 'The contact was removed after the campaign started.', at)
    if (contact && contact.status !== 'subscribed')
      return ownVerdict('suppressed', '5.7.1', `The contact is ${contact.status}.`, at)
    const [entry] = stopsNow(known, store, keyring, [to], clock.now(), 'marketing')
    if (!entry) return undefined
    const verdict = ownVerdict('suppressed', '5.7.1', `The address is suppressed (${entry.reason}).`, at)
    return { ...verdict, suppression: reasonOf(entry) }
  }

  /** The unsubscribe links: one https and one mailto URI (RFC 2369, RFC 8058). */
  #leave(
    campaign: Campaign,
    { delivery, hidden, mailFrom, to }: { delivery: number; to: string; mailFrom: string; hidden: boolean },
  ): { values: Record<string, string>; extra: [string, string][] } {
    const { config, keyring } = this.#deps
    const url = hidden
      ? `${config.http.public_url}/u/${HIDDEN}`
      : unsubscribeUrl(keyring, config.http.public_url, {
          delivery,
          domain: campaign.domain_key,
          audience: campaign.audience_key,
          email: to,
        })
    const local = hidden ? HIDDEN : unsubscribeLocalPart(keyring, delivery)
    const mailto = `mailto:${local}@${mailFrom}?subject=unsubscribe`
    return {
      values: { unsubscribe_url: url, unsubscribe_mailto: mailto },
      extra: [
        ['List-Unsubscribe', `<${url}>, <${mailto}>`],
        ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
      ],
    }
  }

  #know(key: number): KnownCampaign | undefined {
    const known = this.#known.get(key)
    if (known) return known
    const { store } = this.#deps
    const campaign = store.first(campaignByKey({ key }))
    if (!campaign) return undefined
    const audience = store.first(audienceByKey({ key: campaign.audience_key }))
    // The internal name of an audience is not for its subscribers.
    const name = (audience?.title ?? brandOf(store, campaign.user_key).sender_name ?? '')
      .replace(/[^\x20-\x7e]|["\\<>]/g, '')
      .trim()
      .slice(0, MAX_LIST_NAME)
    const listId = `${name === '' ? '' : `"${name}" `}<${audience?.id ?? campaign.id}.{domain}>`
    const damage = damageIn('campaigns', campaign) ?? (audience && damageIn('audiences', audience))
    // A corrupt campaign is not cached. It is read again for the next email, and may be repaired by then.
    if (damage !== undefined) return { campaign, listId, damage }
    // Cached without expiry, because a started campaign does not change.
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(key, { campaign, listId })
    return { campaign, listId }
  }
}

function readContacts(reader: Reader, keys: readonly (number | null)[]): Map<number, LetterContact> {
  const wanted = keys.filter((key) => key !== null)
  if (wanted.length === 0) return new Map()
  return new Map(reader.all(contactsByKey({ keys: JSON.stringify(wanted) })).map(({ key, ...row }) => [key, row]))
}

const campaignOf = ({ email }: Pick<MailTransaction, 'email'>): number =>
  must(email.campaign_key, 'The campaign of a mail')

const withdrawalOf = (work: MailTransaction): Withdrawal => ({
  putBack: (tx, now) => withdraw(tx, firstOf(work).key, campaignOf(work), now),
})

/** Describes a corrupt row. Returns undefined if the row is intact. */
const damageIn = (table: string, row: Digest): string | undefined =>
  isIntact(table, { ...row }, row.digest) ? undefined : `its row of ${table} in the database is not what was written.`

const address = (text: string): Address => parseAddress(text) ?? { name: '', address: text, local: text, domain: '' }

function fieldsOf(contact: LetterContact | undefined): Record<string, string> {
  if (!contact || contact.custom_fields === null) return {}
  const fields = JSON.parse(contact.custom_fields) as Record<string, unknown>
  // A null prototype, because a field may have any name, even "__proto__".
  const values = Object.create(null) as Record<string, string>
  for (const [name, value] of Object.entries(fields)) values[name] = textOfValue(value)
  return values
}
