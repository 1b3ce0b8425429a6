// Notices in a container that every client of port 25 comes from the default gateway: then a network bridge hides who
// they are, and says so in the log, once.
import { BEHIND_NAT, defaultGateway, inContainer } from '../base/container.ts'
import type { Log } from '../base/log.ts'

/** How many messages must have come before it says something. */
const FEW = 5

/** A function to call with the address of the client of each message. */
export function clientWatch(
  log: Pick<Log, 'warn'>,
  gateway: string | undefined = inContainer() ? defaultGateway() : undefined,
): (client: string) => void {
  // Undefined: it is settled.
  let seen: number | undefined = gateway === undefined ? undefined : 0
  return (client) => {
    // The server's own mail to its own domains.
    if (seen === undefined || client === '127.0.0.1' || client === '::1') return
    if (client !== gateway) seen = undefined
    else if (++seen === FEW) {
      seen = undefined
      log.warn('clients are hidden behind NAT', { gateway, reason: BEHIND_NAT.detail, mend: BEHIND_NAT.mend })
    }
  }
}
