// Repeats of a batch whose answer was lost. Mailgun has no idempotency keys, and Ghost repeats a failed batch several
// times. Until its answer is handed to the connection, a batch therefore has a key that is made of its content. If the
// client is gone before that, or the server is killed, the key remains, and an equal request is the same batch.
import { createHash } from 'node:crypto'
import { batchByKey } from '../mail/accept/batch.ts'
import { keyForDay } from '../mail/accept/submit.ts'
import { dropBatchKey } from '../mail/batches.ts'
import type { CompatAttributes, CompatCall } from './kit.ts'

/** The idempotency key of a batch while its answer is not sent. It is valid for 24 hours. */
export function keyWhileUnanswered(
  { deps, owner, token }: CompatCall,
  { attachments = [], ...email }: CompatAttributes,
  recipients: readonly CompatAttributes[],
): string {
  const hash = createHash('sha256').update(JSON.stringify([token, email]))
  // One at a time, because together they can be large.
  for (const { content, ...file } of attachments as CompatAttributes[])
    hash.update(`\n${JSON.stringify(file)}`).update(String(content))
  for (const recipient of recipients) hash.update(`\n${JSON.stringify(recipient)}`)
  const content = hash.digest('hex')
  return keyForDay(deps, owner, (day) => `unanswered ${day} ${content}`, batchByKey)
}

/** Removes the key of a batch whose answer was sent: an equal request is another batch. */
export function answered({ deps, owner }: CompatCall, id: string): void {
  // If this fails, the key remains for its day.
  dropBatchKey(deps.store, owner, id).catch((error: unknown) => void deps.log.fault('compat', error))
}
