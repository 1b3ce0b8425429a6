// The source of a sent email for its owner: header and parts as they were composed, without the DKIM signature, which
// each attempt makes again (D146). Only the body is stored, so the email is composed again, in a worker thread. In a
// campaign's email the tags are filled with the present data of the contact.
import { codeOf, refuse, TOO_LARGE_CODE } from '../base/errors.ts'
import { deliveriesOf } from '../delivery/queue/operator.ts'
import { mailWith } from '../delivery/queue/claim.ts'
import type { MailTransaction } from '../delivery/queue/transaction.ts'
import { unsignedJob, type LetterDeps } from '../delivery/wire/letter.ts'
import { HIDDEN, unsubscribeMailto } from '../message/return-path.ts'
import { TOO_LARGE } from '../message/too-large.ts'
import type { UnsignedJob } from '../message/unsigned.ts'
import type { Reader } from '../store/database.ts'
import { workersOf } from '../views/html/apart.ts'

export interface SourceDeps extends LetterDeps {
  store: Reader
  /** The job to compose a campaign's email. */
  campaignLetter: (mail: Pick<MailTransaction, 'deliveries' | 'email'>) => UnsignedJob | undefined
}

const compose = workersOf<UnsignedJob, Uint8Array<ArrayBuffer>>(new URL('./source-worker.ts', import.meta.url))

/** Without the recipient's unsubscribe address: a mail client of another reader must not unsubscribe the recipient. */
function shownJob(deps: SourceDeps, mail: Pick<MailTransaction, 'deliveries' | 'email'>): UnsignedJob | undefined {
  const job = unsignedJob(deps, mail)
  return job && { ...job, mailto: unsubscribeMailto(HIDDEN, `${mail.email.mail_from_prefix}.${mail.email.domain}`) }
}

/** The source as a file. Throws 404 if the body is no longer kept. */
export async function sourceOf(deps: SourceDeps, { id, key }: { id: string; key: number }): Promise<Response> {
  const mail = mailWith(deps.store, key, deliveriesOf(deps.store, [key]))
  const job = mail && (mail.email.campaign_key === null ? shownJob(deps, mail) : deps.campaignLetter(mail))
  if (!job) throw refuse('not_found', 'The body of this email is no longer stored. Only its attributes are available.')
  const source = await compose(job).catch((thrown: unknown) => {
    throw codeOf(thrown) === TOO_LARGE_CODE ? refuse('message_too_large', TOO_LARGE) : thrown
  })
  return new Response(source, {
    headers: { 'Content-Type': 'message/rfc822', 'Content-Disposition': `attachment; filename="${id}.eml"` },
  })
}
