// A DNS server on loopback whose records a test writes and changes.
import { startDns, type DnsServer } from '../../src/server/sandbox/dns.ts'
import { createResolver, type Resolver } from '../../src/net/resolver.ts'

export interface TestDns extends DnsServer {
  resolver: Resolver
  /**
   * Sets the records of a name and type. [] means that the name exists without them, undefined that it does not exist.
   */
  set(name: string, type: string, values: string[] | undefined): void
  /** Makes every look-up fail (SERVFAIL), or those of names that fit, until called with false. */
  fail(failing: boolean | RegExp): void
  /** The queries, such as "MX example.net". */
  asked: string[]
}

/**
 * The resolver's timeout in ms. The server answers immediately and drops no query, so a timeout would be a wrong
 * result.
 */
const PATIENCE = 60_000

/** The host name of test appliances: SPF and MX count only while it has an address. */
const HOST = 'mx.postrider.test'

/** Every name not set is NXDOMAIN, but for the address of HOST. `names` may be changed while it runs. */
export async function startTestDns(): Promise<TestDns> {
  const records = new Map([[`A ${HOST}`, ['127.0.0.1']]])
  const names = new Set([HOST])
  const asked: string[] = []
  let failing: boolean | RegExp = false
  const server = await startDns({
    lookUp(name, type) {
      asked.push(`${type} ${name}`)
      if (failing === true || (failing instanceof RegExp && failing.test(name))) return 'failure'
      return records.get(`${type} ${name}`) ?? (names.has(name) ? [] : undefined)
    },
  })
  return {
    ...server,
    resolver: createResolver({ servers: [{ host: '127.0.0.1', port: server.port }], timeout: PATIENCE, tries: 3 }),
    asked,
    set(name, type, values) {
      if (values === undefined) {
        records.delete(`${type} ${name}`)
        if (![...records.keys()].some((key) => key.endsWith(` ${name}`))) names.delete(name)
      } else {
        records.set(`${type} ${name}`, values)
        names.add(name)
      }
    },
    fail: (value) => void (failing = value),
  }
}
