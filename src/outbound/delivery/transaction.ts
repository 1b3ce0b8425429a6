// Claimed mail as one SMTP transaction, and the source that it comes from. Submitted mail and campaign mail differ in
// their source, and nowhere else on the way from the queue to the exchanger and back.
import type { CampaignJob, ComposeJob, Signing } from '../../message/letters.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Tx } from '../../store/database.ts'
import type { SignedWith } from '../../domains/keys.ts'
import type { Delivery, Settling } from './settle.ts'
import type { KnownStops } from '../suppressions/stops.ts'

/** An email and its recipients on one lane. */
export interface MailTransaction {
  lane: string
  source: Source
  email: ClaimedEmail
  deliveries: Delivery[]
  /** The DKIM key to sign with, or why there is none. */
  signingKey: SignedWith
  known: KnownStops & {
    /** The generation of removed emails; undefined for a campaign's mail. */
    removals?: number
  }
  /** How many connections refused it at MAIL. */
  refusals?: number
}

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
  /** Whether DNS has the record of the branded tracking host. */
  branded: 0 | 1
  message_id: string
  created_at: number
  content: string | null
  spool: string | null
  /** What was written when it was accepted (store/digests.ts); null: unknown. */
  email_digest: Uint8Array | null
  body_digest: Uint8Array | null
  domain_digest: Uint8Array | null
}

/** What the composer is asked to make. */
export type LetterJob = ComposeJob | CampaignJob

/** Mail that its source does not want sent now, or ever. */
export interface Withdrawal {
  /** Takes it out of the claimed mail. */
  putBack(tx: Tx, now: number): void
}

/** Mail whose turn has come. */
export interface Wanted {
  /** For each recipient the verdict that ends it here; undefined: it is written to. */
  ended: readonly (Verdict | undefined)[]
  /** What to compose for the recipients of `transaction`, those written to; undefined: the body is no longer kept. */
  job: (transaction: MailTransaction, signature: Signing) => LetterJob | undefined
}

export interface Source {
  /** How long (ms) results of its mails may wait for each other, to share one commit; 0: each is written at once. */
  readonly patience: number
  /** Claims up to `limit` due deliveries of a lane. */
  claim(tx: Tx, lane: string, now: number, limit: number): MailTransaction[]
  /** The turn of a mail has come: to whom it still goes, and what is composed. */
  look(transaction: MailTransaction): Wanted | Withdrawal
  /** Why it is not sent any more. Asked again once a connection is open; undefined: it is sent. */
  unwanted(transaction: MailTransaction): Verdict | Withdrawal | undefined
  /** The octets are with the exchanger, which has not answered for a while. */
  handed?(deliveries: readonly Delivery[]): void
  /** Writes the verdict on one recipient. */
  settle(tx: Tx, settling: Settling): void
}

export interface Sources {
  submitted: Source
  campaign: Source
}

export const isWithdrawal = (told: Wanted | Verdict | Withdrawal): told is Withdrawal => 'putBack' in told
