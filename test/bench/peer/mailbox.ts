// The peer of the inbound benchmark: Postfix as an exchanger that takes mail into a mailbox (a maildir, by virtual(8)),
// as durable as it comes: the queue file is on the disk before the 250, the letter in the mailbox before the queue file
// goes.
import { receivingPostfix, type ReceivingPostfix } from '../../interop/rig/postfix.ts'

export { missing } from '../../interop/rig/sandbox.ts'

export function mailboxPostfix(domain: string): Promise<ReceivingPostfix> {
  return receivingPostfix({
    domains: [domain],
    tls: false,
    // Its cautious pace towards strangers is lifted: all of the load comes from one address, for one mailbox.
    settings: {
      default_process_limit: 100,
      smtpd_client_connection_count_limit: 0,
      initial_destination_concurrency: 20,
      in_flow_delay: 0,
    },
  }).start()
}
