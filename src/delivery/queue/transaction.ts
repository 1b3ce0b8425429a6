// Claimed mail as one SMTP transaction, and the source that it comes from. Submitted mail and campaign mail have
// different sources; all other steps between the queue and the exchanger are the same for both.
import type { CampaignJob, ComposeJob, Signing } from '../../message/letters.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Tx } from '../../store/database.ts'
import type { Gathered } from '../../store/gathered.ts'
import type { SignedWith } from '../../domains/keys.ts'
import type { WarmupPlace } from '../results/warmup-place.ts'
import type { Delivery, Settling } from '../results/settle.ts'
import type { KnownStops } from '../../suppressions/stops.ts'
import { must } from '../../base/errors.ts'

/** An email and its recipients on one lane. */
export interface MailTransaction {
  lane: string
  source: MailSource
  email: ClaimedEmail
  deliveries: Delivery[]
  /** The DKIM key to sign with, or why there is none. */
  signingKey: SignedWith
  known: KnownStops & {
    /** The generation of removed emails; undefined for a campaign's mail. */
    removals?: number
  }
  /** Its place in an allowance of warm-up, or with a relay that stands in for one. */
  place?: WarmupPlace
  /** How many connections refused the mail at MAIL. */
  refusals?: number
}

/** The first recipient of a transaction; there always is one. */
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
  /** Whether DNS has the record of the branded tracking host. */
  branded: 0 | 1
  message_id: string
  created_at: number
  content: string | null
  spool: string | null
  /** The digests from the time when the mail was accepted (store/digests.ts); null: unknown. */
  email_digest: Uint8Array | null
  body_digest: Uint8Array | null
  domain_digest: Uint8Array | null
}

/** The job for the composer. */
export type LetterJob = ComposeJob | CampaignJob

/** The source withdraws a mail: it must not be sent, now or ever. */
export interface Withdrawal {
  /** Ends the claim of the mail. */
  putBack(tx: Tx, now: number): void
}

/** A mail that is to be sent now. */
export interface MailPlan {
  /** For each recipient a verdict that ends the delivery without an attempt; undefined: the mail is sent. */
  ended: readonly (Verdict | undefined)[]
  /** The job for the recipients to which the mail is sent (`transaction`); undefined: the body is no longer kept. */
  job: (transaction: MailTransaction, signature: Signing) => LetterJob | undefined
}

/** The claim of a mail in the transaction that stores it: its lane has room, and the mail goes out from memory. */
export interface NewClaim {
  source: MailSource
  /** The lane that the mail is stored for. */
  lane: string
  place: WarmupPlace | undefined
  /** Hands the mail over to the engine. Call it after the commit. */
  take(mail: MailTransaction): void
  /** Gives the room back. Call it when the mail was not stored. */
  cancel(): void
}

/** Claims room on a lane for the recipients of a new mail that is due now; undefined: the mail waits in the queue. */
export type ClaimNew = (tx: Tx, lane: string, recipients: number) => NewClaim | undefined

/** A claim of up to `limit` due deliveries of a lane. */
export interface Claim {
  lane: string
  now: number
  limit: number
  /** The lane that the mail is bound to by the claim, when it is another. */
  to?: string
  /** Mail alone that was tried on this day, or that was never tried. */
  only?: { triedOn: number } | 'untried'
}

export interface MailSource {
  /** Where results wait for each other, to be written as a page; undefined: each is written at once by `settle`. */
  readonly results?: Gathered<Settling>
  claim(tx: Tx, claim: Claim): MailTransaction[]
  /** Called when a mail is to be sent: returns the remaining recipients and the job for the composer. */
  look(transaction: MailTransaction): MailPlan | Withdrawal
  /** Why the mail is not sent any more; undefined: it is sent. Called again when a connection is open. */
  unwanted(transaction: MailTransaction): Verdict | Withdrawal | undefined
  /** Called when the exchanger has the octets and has not answered for a while. */
  handed?(deliveries: readonly Delivery[]): void
  /** Writes the verdict on one recipient. */
  settle(tx: Tx, settling: Settling): void
}

export interface Sources {
  submitted: MailSource
  campaign: MailSource
}

export const isWithdrawal = (told: MailPlan | Verdict | Withdrawal): told is Withdrawal => 'putBack' in told
