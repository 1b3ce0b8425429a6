// What a mail shows of itself: sender, subject and Message-ID. The mails of a campaign have them from their campaign
// and leave their own columns empty.

export interface Identity {
  from: string
  subject: string
  message_id: string
}

/** The columns that a campaign's mails share. */
export interface Shared {
  from_address: string | null
  subject: string
}

/** The sender of a campaign; `domain` is its sending domain. */
export const campaignSender = (from: string | null, domain: string): string => from ?? `noreply@${domain}`

/** The Message-ID of a mail, by its id and its sending domain, with angle brackets (RFC 5322 §3.6.4). */
export const messageIdOf = (id: string, domain: string): string => `<${id}@${domain}>`

/** The identity of a campaign's mail. `domain` is the sending domain. */
export const sharedIdentity = (id: string, { from_address, subject }: Shared, domain: string): Identity => ({
  from: campaignSender(from_address, domain),
  subject,
  message_id: messageIdOf(id, domain),
})

/** The identity of any mail: from its own columns or, when it is a campaign's, from those of the campaign. */
export const identityOf = (
  { from, id, message_id, subject }: Identity & { id: string },
  campaign: Shared | undefined,
  domain: string,
): Identity => (campaign ? sharedIdentity(id, campaign, domain) : { from, subject, message_id })
