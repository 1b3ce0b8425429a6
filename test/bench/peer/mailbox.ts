// The peer of the inbound benchmark: Postfix as a receiving server that delivers into a mailbox (a maildir, by
// virtual(8)), fully durable: the queue file is on the disk before the 250, and the message in the mailbox before the
// queue file is deleted.
import { FULL_SPEED, receivingPostfix, type ReceivingPostfix } from '../../interop/rig/postfix.ts'

export { missing } from '../../interop/rig/sandbox.ts'

export function mailboxPostfix(domain: string): Promise<ReceivingPostfix> {
  return receivingPostfix({ domains: [domain], tls: false, settings: FULL_SPEED }).start()
}
