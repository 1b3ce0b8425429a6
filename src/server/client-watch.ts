// Detects in a container that all clients of port 25 have the address of the default gateway: a network bridge then
// hides their addresses. Logs a warning once.
import { BEHIND_NAT, defaultGateway, inContainer } from '../base/container.ts'
import type { Log } from '../base/log.ts'

/** Messages received before the warning. */
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
      log.warn('client_addresses_hidden', { gateway, reason: BEHIND_NAT.detail, fix: BEHIND_NAT.fix })
    }
  }
}
