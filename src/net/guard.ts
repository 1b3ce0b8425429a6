// Connects to hosts from untrusted users. Our resolver looks the addresses up, they are checked, and the socket
// connects to exactly these, so that a second DNS answer cannot lead elsewhere (D28, D55).
import { isIP, type LookupFunction } from 'node:net'
import type { AddressCheck } from '../base/network.ts'
import type { Resolver } from './resolver.ts'

export interface Guard {
  resolver: Resolver
  allowed: AddressCheck
}

/** The host has no address that we may connect to. The message is the end of a sentence. */
export class ForbiddenAddress extends Error {}

const refusedWords = (address: string): string =>
  `resolves to ${address}, which is not a public address and not in "network.allow_private"`

/** Returns why a URL with an IP address as host is rejected, as the end of a sentence. */
export function addressRefused({ allowed }: Pick<Guard, 'allowed'>, { hostname }: URL): string | undefined {
  // The URL parser writes every spelling of an IP address in one form.
  const literal = hostname.replace(/^\[|\]$/g, '')
  return isIP(literal) && !allowed(literal) ? refusedWords(literal) : undefined
}

/**
 * Whether a URL is plain HTTP to a loopback address that `network.allow_private` lists, as in the sandbox: an endpoint
 * under development needs no certificate (D233).
 */
export const isLocalHttp = ({ allowed }: Pick<Guard, 'allowed'>, { hostname, protocol }: URL): boolean =>
  protocol === 'http:' && ['127.0.0.1', '[::1]'].includes(hostname) && allowed(hostname.replace(/^\[|\]$/g, ''))

/**
 * Returns a lookup function for sockets that returns only allowed addresses. It fails with ForbiddenAddress if all are
 * forbidden.
 */
export function guardedLookup({ allowed, resolver }: Guard): LookupFunction {
  return (hostname, options, callback) => {
    const give = async (): Promise<void> => {
      try {
        const [a, aaaa] = await Promise.all([resolver.a(hostname), resolver.aaaa(hostname)])
        const all = [a, aaaa].flatMap((answer) => (answer.kind === 'found' ? answer.records : []))
        const usable = all.filter(allowed)
        if (all.length > 0 && usable.length === 0) throw new ForbiddenAddress(refusedWords(all[0]!))
        const [first] = usable
        if (first === undefined) throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' })
        if (options.all)
          callback(
            null,
            usable.map((address) => ({ address, family: isIP(address) })),
          )
        else callback(null, first, isIP(first))
      } catch (thrown) {
        callback(thrown as NodeJS.ErrnoException, '')
      }
    }
    void give()
  }
}
