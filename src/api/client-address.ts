// Who asks, behind proxies that the operator trusts (http.trusted_proxies): the last address of X-Forwarded-For that is none of theirs.
import { BlockList, isIP } from 'node:net'
import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import { customerOf } from '../base/network.ts'

/** The address of the client; '' where there is no socket (tests). */
export function clientAddress(context: Context, trusted: readonly string[]): string {
  const bindings = context.env as Partial<HttpBindings> | undefined
  const peer = bindings?.incoming?.socket.remoteAddress?.replace(/^::ffff:/, '') ?? ''
  if (trusted.length === 0) return peer
  const proxies = new BlockList()
  for (const network of trusted) {
    const [address, bits] = network.split('/') as [string, string | undefined]
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) proxies.addAddress(address, family)
    else proxies.addSubnet(address, Number(bits), family)
  }
  const isProxy = (address: string): boolean =>
    isIP(address) !== 0 && proxies.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  const hops = (context.req.header('x-forwarded-for') ?? '').split(',').map((hop) => hop.trim())
  let client = peer
  while (isProxy(client) && hops.length > 0) {
    const hop = hops.pop()!.replace(/^::ffff:(?=\d+\.)/i, '')
    if (isIP(hop) === 0) break
    client = hop
  }
  return client
}

/** What a client is counted by where there is a limit. */
export const rateKey = (context: Context, trusted: readonly string[]): string =>
  customerOf(clientAddress(context, trusted))
