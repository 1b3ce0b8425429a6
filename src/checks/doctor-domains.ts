// Checks of `postrider doctor` for the sending domains: whether their published records name this server.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { counted } from '../base/text.ts'
import type { Resolver } from '../net/resolver.ts'
import { listDomains } from '../domains/find.ts'
import { isOfHost, lookUp, wantedRecords } from '../domains/records.ts'
import { DATABASE } from '../store/open.ts'
import { bad, unasked, well, type Finding } from './doctor-machine.ts'
import { withStore, type Invocation } from '../commands/open.ts'

/** The most domains that are checked; the rest are only counted. */
const AT_MOST = 50

/** Looks up the SPF and MX records that the present configuration needs; changes nothing. */
export async function judgeDomains(invocation: Invocation, config: Config, resolver: Resolver): Promise<Finding[]> {
  const check = 'published names'
  if (!existsSync(join(config.data_dir, DATABASE))) return []
  return withStore(invocation, async (store) => {
    const domains = listDomains(store)
    const found = await Promise.all(
      domains.slice(0, AT_MOST).map(async (domain) => {
        const records = wantedRecords(store, domain, config).filter(isOfHost)
        const findings = await Promise.all(records.map((record) => lookUp(resolver, record)))
        const other = findings.find(({ observed, verified }) => verified === false && observed !== null)
        const silent = findings.some(({ verified }) => verified === null)
        return { name: domain.name, observed: other?.observed?.replaceAll('\n', '; '), silent }
      }),
    )
    const names = found.filter(({ observed }) => observed !== undefined)
    const silent = found.filter((each) => each.silent).length
    const [first] = names
    if (!first && silent > 0) return [unasked(check, `SPF and MX of ${counted(silent, 'domain')}`)]
    if (!first)
      return [
        well(
          check,
          `${config.hostname} stands in SPF and MX of ${counted(domains.length, 'domain')}, where they are published`,
        ),
      ]
    return [
      bad(
        check,
        `${names.map(({ name, observed }) => `SPF or MX of ${name} ("${observed}")`).join(', ')} lack something of this server: its name ${config.hostname}, a source address, or the "spf" of a route`,
        `Publish what the page of ${first.name} in the console shows, or "postrider domain records ${first.name}".`,
      ),
    ]
  })
}
