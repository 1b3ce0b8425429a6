// The source of a sent mail for its owner: header and parts as they were composed, without the signature of DKIM, which
// each attempt makes again (D146). Only the body is stored, so the mail is composed again, in a worker thread. In a
// campaign's mail the tags are filled with what is known of the contact now.
import { refuse } from '../base/errors.ts'
import { deliveriesOf } from '../delivery/queue/operator.ts'
import { mailWith } from '../delivery/queue/claim.ts'
import type { MailTransaction } from '../delivery/queue/transaction.ts'
import { unsignedJob, type LetterDeps } from '../delivery/wire/letter.ts'
import type { UnsignedJob } from '../message/unsigned.ts'
import type { Reader } from '../store/database.ts'
import { workersOf } from '../webui/apart.ts'

export interface SourceDeps extends LetterDeps {
  store: Reader
  /** What a campaign's mail is composed from. */
  campaignLetter: (mail: Pick<MailTransaction, 'deliveries' | 'email'>) => UnsignedJob | undefined
}

const compose = workersOf<UnsignedJob, Uint8Array<ArrayBuffer>>(new URL('./source-worker.ts', import.meta.url))

/** The source as a file. Throws 404 when the body is no longer kept. */
export async function sourceOf(deps: SourceDeps, { id, key }: { id: string; key: number }): Promise<Response> {
  const mail = mailWith(deps.store, key, deliveriesOf(deps.store, [key]))
  const job = mail && (mail.email.campaign_key === null ? unsignedJob(deps, mail) : deps.campaignLetter(mail))
  if (!job) throw refuse('not_found', 'The text of this mail is no longer kept.')
  return new Response(await compose(job), {
    headers: { 'Content-Type': 'message/rfc822', 'Content-Disposition': `attachment; filename="${id}.eml"` },
  })
}
