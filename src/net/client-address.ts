// The client's address behind proxies that the operator trusts (http.trusted_proxies): the last address in
// X-Forwarded-For that is not one of these proxies.
import { BlockList, isIP } from 'node:net'
import type { HttpBindings } from '@hono/node-server'
import type { Config } from '../base/config.ts'
import { customerOf, addNetwork } from '../base/network.ts'

const LOCAL_PROXY: readonly string[] = ['127.0.0.1', '::1']
/** The networks of each list of proxies. Every request is checked with one. */
const listed = new WeakMap<readonly string[], BlockList>()

/**
 * The trusted proxies. By default, if the public URL is https, a proxy on this machine is trusted, because this
 * listener has no TLS of its own.
 */
const proxiesOf = ({ public_url, trusted_proxies }: Http): readonly string[] =>
  trusted_proxies.length === 0 && public_url.startsWith('https:') ? LOCAL_PROXY : trusted_proxies

type Http = Pick<Config['http'], 'public_url' | 'trusted_proxies'>

/**
 * The facts about a request that identify its client: the connection and the proxies' headers. A Hono context has them.
 */
export interface ClientFacts {
  env: Partial<Pick<HttpBindings, 'incoming'>>
  req: { header(name: string): string | undefined }
}

/**
 * The client's address, or '' if the request has no socket (tests). Without `http` it is the peer address of the
 * connection.
 */
export function clientAddress(context: ClientFacts, http?: Http): string {
  const trusted = http ? proxiesOf(http) : []
  const bindings = context.env as ClientFacts['env'] | undefined
  const peer = bindings?.incoming?.socket.remoteAddress?.replace(/^::ffff:/, '') ?? ''
  if (trusted.length === 0) return peer
  const proxies = blockListOf(trusted)
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

function blockListOf(networks: readonly string[]): BlockList {
  const known = listed.get(networks)
  if (known) return known
  const list = new BlockList()
  for (const network of networks) addNetwork(list, network)
  listed.set(networks, list)
  return list
}

/** The key of a client for limits. */
export const rateKey = (context: ClientFacts, http: Http): string => customerOf(clientAddress(context, http))
