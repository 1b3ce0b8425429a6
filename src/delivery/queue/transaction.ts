// Claimed mail as one SMTP transaction, and the source that it comes from. Submitted mail and campaign mail have
// different sources. All other steps between the queue and the receiving server are the same for both.
import type { CampaignJob, ComposeJob, Signing } from '../../message/letters.ts'
import type { Syntax } from '../../message/variables.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Tx } from '../../store/database.ts'
import type { Gathered } from '../../store/gathered.ts'
import type { SignedWith } from '../../domains/keys.ts'
import type { DaySlot } from '../../parts/gate.ts'
import type { Delivery, Settling } from '../results/settle.ts'
import type { KnownStops } from '../../suppressions/stops.ts'
import { must } from '../../base/errors.ts'

/** An email and its recipients on one lane. */
export interface MailTransaction {
  lane: string
  source: MailSource
  email: ClaimedEmail
  deliveries: Delivery[]
  /** The DKIM key to sign with, or the reason why the email cannot be signed. */
  signingKey: SignedWith
  known: KnownStops & {
    /** The generation of removed emails, or undefined for a campaign's mail. */
    removals?: number
  }
  /** Its slot in a daily limit. */
  slot?: DaySlot
  /** How many connections rejected the email at MAIL. */
  refusals?: number
}

/** The first recipient of a transaction, which always exists. */
export const firstOf = ({ deliveries }: { deliveries: readonly Delivery[] }): Delivery =>
  must(deliveries[0], 'The recipient of a transaction')

export interface ClaimedEmail {
  key: number
  id: string
  user_key: number
  domain_key: number
  /** Set for a campaign's mail: then the fields that are '' here are columns of the campaign. */
  campaign_key: number | null
  contact_key: number | null
  domain_id: string
  domain: string
  mail_from_prefix: string
  tls_policy: 'Require' | 'Optional'
  user_id: string
  from: string
  to: string
  cc: string | null
  bcc: string | null
  reply_to: string | null
  subject: string
  agent_id: string | null
  opens_tracked: 0 | 1
  clicks_tracked: 0 | 1
  ai_disclosure: 0 | 1 | null
  tracking_redirect_mode: 'shared' | 'branded'
  /** Until when links may use the domain's own host, or null if they may not (domains/links-host.ts). */
  links_until: number | null
  message_id: string
  /** When the email was due, if it was scheduled. */
  scheduled_at: number | null
  created_at: number
  content: string | null
  spool: string | null
  /** The placeholders of the body that its batch shares, or null if it has a body of its own. */
  batch_syntax: Syntax | null
  batch_content: string | null
  batch_spool: string | null
  batch_digest: Uint8Array | null
  /** The digests from the time when the email was accepted (store/digests.ts), or null if unknown. */
  email_digest: Uint8Array | null
  body_digest: Uint8Array | null
  domain_digest: Uint8Array | null
}

/** The job for the composer. */
export type LetterJob = ComposeJob | CampaignJob

/** The source withdraws an email: it must not be sent, now or ever. */
export interface Withdrawal {
  putBack(tx: Tx, now: number): void
}

/** An email that is to be sent now. */
export interface MailPlan {
  /** For each recipient a verdict that ends the delivery without an attempt, or undefined if the email is sent. */
  ended: readonly (Verdict | undefined)[]
  /**
   * The job for the recipients to which the mail is sent (`transaction`), or undefined if the body is no longer kept.
   */
  job: (transaction: MailTransaction, signature: Signing) => LetterJob | undefined
}

/**
 * The claim of an email in the transaction that stores it: its lane has capacity, and the email is sent from memory.
 */
export interface NewClaim {
  source: MailSource
  /** The lane that the email is stored for. */
  lane: string
  slot: DaySlot | null
  /** Hands the email over to the engine. Call it after the commit. */
  take(mail: MailTransaction): void
  /** Gives the capacity back. Call it if the email was not stored. */
  cancel(): void
}

/**
 * Claims capacity on a lane for the recipients of a new email that is due now, or returns undefined if the email has to
 * be queued.
 */
export type ClaimNew = (tx: Tx, lane: string, recipients: number) => NewClaim | undefined

/** A claim of up to `limit` due deliveries of a lane. */
export interface Claim {
  lane: string
  now: number
  limit: number
  /** The lane that the claim binds the email to, if it is another. */
  to?: string
  /** Only email that was counted on this day, or that was never attempted. */
  only?: { triedOn: number } | 'untried'
}

export interface MailSource {
  /** Collects results, to write them as a page. Undefined if `settle` writes each one immediately. */
  readonly results?: Gathered<Settling>
  /** The mail transactions of claimed deliveries on a lane. */
  claimed(tx: Tx, deliveries: readonly Delivery[], on: { lane: string; now: number }): MailTransaction[]
  /** Called when an email is to be sent: returns the remaining recipients and the job for the composer. */
  look(transaction: MailTransaction): MailPlan | Withdrawal
  /** The reason why the email is no longer sent, or undefined if it is sent. Called again when a connection is open. */
  unwanted(transaction: MailTransaction): Verdict | Withdrawal | undefined
  /** Called when the receiving server has the bytes and has not answered for a while. */
  handed?(deliveries: readonly Delivery[]): void
  /** Writes the verdict on one recipient. */
  settle(tx: Tx, settling: Settling): void
}

export interface Sources {
  submitted: MailSource
  campaign: MailSource
}

/** The source of an email. */
export const sourceFor = ({ campaign, submitted }: Sources, email: Pick<ClaimedEmail, 'campaign_key'>): MailSource =>
  email.campaign_key === null ? submitted : campaign

export const isWithdrawal = (result: MailPlan | Verdict | Withdrawal): result is Withdrawal => 'putBack' in result
