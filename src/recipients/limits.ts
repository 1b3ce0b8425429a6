// Limits of the emails that people can request for an address, over all accounts of the server. Only hashes of
// addresses are stored.
import { DAY, MINUTE } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { comparable, recipientHash } from '../base/recipient-hash.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'

/** Emails to one address in 24 hours. */
export const PER_ADDRESS = 3
/** The kind of the email with the link to the recipient's data. */
export const DATA_LINK = 'subscriber_link'
/** The time between two emails of one kind to one address about one audience. */
const SPACING = 5 * MINUTE

/** The hash of a mailbox: its address without "+tag", and without the dots that Gmail ignores. */
function mailboxHash(keyring: Keyring, address: string): string {
  const text = comparable(address)
  const at = text.lastIndexOf('@')
  const [local = ''] = text.slice(0, at).split('+')
  const isGmail = ['@gmail.com', '@googlemail.com'].includes(text.slice(at))
  return recipientHash(keyring, isGmail ? `${local.replaceAll('.', '')}@gmail.com` : local + text.slice(at))
}

export interface RequestedEmail {
  to: string
  /** The kind of the email, which is also its tag: "subscriber_link". */
  kind: string
  /** The key of the audience that it is about, or null. */
  audience: number | null
}

/**
 * Returns from when on an email can be sent (Infinity if never), or undefined if it can be sent now. `perAddress`: how
 * many an address gets in 24 hours, 0 for none.
 */
export function limitedUntil(
  reader: Reader,
  { keyring }: { keyring: Keyring },
  { audience, kind, to }: RequestedEmail,
  now: number,
  perAddress = PER_ADDRESS,
): number | undefined {
  const sent = reader.all(
    db
      .selectFrom('recipient_emails')
      .select(['kind', 'audience_key', 'sent_at'])
      .where('recipient_hash', '=', mailboxHash(keyring, to))
      .where('sent_at', '>', now - DAY)
      .orderBy('sent_at', 'desc'),
  )
  const isSame = (each: (typeof sent)[number]): boolean => each.kind === kind && each.audience_key === audience
  // The sign-ups of somebody else must not block the link to the recipient's own data.
  const counted = sent.filter((each) => (each.kind === DATA_LINK) === (kind === DATA_LINK))
  const oldest = perAddress === 0 ? Infinity : counted[perAddress - 1]?.sent_at
  const until = Math.max((oldest ?? -Infinity) + DAY, (sent.find(isSame)?.sent_at ?? -Infinity) + SPACING)
  return until > now ? until : undefined
}

/** Whether an email must not be sent now. */
export const isLimited = (...given: Parameters<typeof limitedUntil>): boolean => limitedUntil(...given) !== undefined

/** Counts an email. Called in the transaction that queues it. */
export function countEmail(
  tx: Tx,
  { keyring }: { keyring: Keyring },
  { audience, kind, to }: RequestedEmail,
  now: number,
): void {
  const row = { recipient_hash: mailboxHash(keyring, to), kind, audience_key: audience, sent_at: now }
  tx.run(db.insertInto('recipient_emails').values(row))
}

/** Deletes what no limit counts any more. */
export const forgetCounted = (store: Store, now: number): Promise<unknown> =>
  store.write((tx) => tx.run(db.deleteFrom('recipient_emails').where('sent_at', '<=', now - DAY)))
