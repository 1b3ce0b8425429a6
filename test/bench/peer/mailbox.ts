// The peer of the inbound benchmark: Postfix as an exchanger that takes mail into a mailbox (a maildir, by virtual(8)),
// as durable as it comes: the queue file is on the disk before the 250, the letter in the mailbox before the queue file
// goes.
import { readdirSync, readFileSync } from 'node:fs'
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

/** Memory of a process group, in MB: what each process has of its own and its share of the rest (PSS). */
export function memoryMb(group: number): number {
  let kilobytes = 0
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    try {
      const line = readFileSync(`/proc/${pid}/stat`, 'latin1')
      if (Number(line.slice(line.lastIndexOf(')') + 2).split(' ')[2]) !== group) continue
      kilobytes += Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1'))?.[1] ?? 0)
    } catch {
      // It has ended meanwhile.
    }
  }
  return kilobytes / 1000
}
