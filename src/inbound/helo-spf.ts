// SPF of a server's HELO name and address (RFC 7208 §2.3): receivers use it for bounces, which have no sender.
import { askType, asNodeDns, type Resolver } from '../net/resolver.ts'

/** The result as named in RFC 7208 §2.6: pass, fail, softfail, neutral, none, temperror, permerror. */
export async function heloSpf(resolver: Resolver, helo: string, ip: string): Promise<string> {
  // Loaded only here, because it is large. Elsewhere worker threads load it.
  const { spf } = await import('mailauth/lib/spf/index.js')
  const ask = async (name: string, type: string) => asNodeDns(await askType(resolver, name, type), type)
  const { status } = await spf({ ip, helo, sender: '', mta: helo, resolver: ask })
  return status.result
}
