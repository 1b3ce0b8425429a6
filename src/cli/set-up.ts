// Sets up an installation: its configuration, its first user and its first domain, for `postrider init` and for a
// server whose environment names both (first-start.ts).
import { configAsset } from '../base/assets.ts'
import { createResolver, type Resolver } from '../net/resolver.ts'
import { advisedFor } from '../domains/command-policies.ts'
import type { DomainRecords } from '../domains/command-text.ts'
import { listDomains, type Domain } from '../domains/find.ts'
import { followConfig } from '../domains/issue.ts'
import { registerDomain, type RegisterDeps } from '../domains/lifecycle.ts'
import { recordsOf } from '../domains/records.ts'
import { addUser, findUser, type User } from '../users/users.ts'
import { givenName, organisationalDomain, parseAddress } from '../message/address.ts'
import { DOMAIN_FOLLOWERS } from '../server/domain-followers.ts'
import { withSetting } from '../base/config-edit.ts'
import { withAddresses, withFrontDoor } from './installation.ts'
import type { Deps } from '../views/command/open.ts'
import { OperatorError } from '../base/errors.ts'
import type { Reader } from '../store/database.ts'

/** A resolver with one short try: a machine without DNS should not wait. */
export const hasty = ({ config }: Pick<Deps, 'config'>): Resolver =>
  createResolver({ servers: config.dns.servers, timeout: 2000, tries: 1 })

export interface FirstNames {
  domain: string
  hostname: string
  email: string
}

/** Returns the names in their stored form. `by`: the source of each. Throws an OperatorError for an invalid name. */
export function checkNames<T extends FirstNames>(given: T, by: FirstNames): T {
  const domain = givenName(given.domain)
  if (!domain || !organisationalDomain(domain))
    throw new OperatorError(`${by.domain} "${given.domain}" is not a domain name; use one such as example.org.`)
  const hostname = givenName(given.hostname)
  if (!hostname?.includes('.'))
    throw new OperatorError(
      `${by.hostname} "${given.hostname}" is not a fully qualified host name; use one such as mx.example.org.`,
    )
  const email = parseAddress(given.email)?.address
  if (email === undefined)
    throw new OperatorError(`${by.email} "${given.email}" is not an email address; use one such as you@example.org.`)
  return { ...given, domain, hostname, email }
}

/**
 * Returns the text of a new configuration file. `open`: with HTTPS, submission and automatic certificates. `addresses`:
 * the IP addresses of an installation that does not use all of the machine. `httpPort`: its port for plain HTTP.
 */
export function newConfig(
  names: FirstNames,
  dataDir: string,
  open: boolean,
  addresses: readonly string[] = [],
  httpPort = 8025,
): string {
  const bare = withSetting(withSetting(configAsset('postrider.toml'), 'hostname', names.hostname), 'data_dir', dataDir)
  const text = addresses.length > 0 ? withAddresses(bare, addresses, httpPort) : bare
  return open ? withFrontDoor(text, names, addresses) : text
}

/** Creates the user and the domain, or uses existing ones. */
export async function firstParts(
  deps: Omit<RegisterDeps, 'followers'>,
  { domain: name, email }: Omit<FirstNames, 'hostname'>,
): Promise<User> {
  const user = findUser(deps.store, email) ?? (await addUser(deps, { email }))
  if (domainOf(deps.store, user, name) === undefined)
    await registerDomain({ ...deps, followers: DOMAIN_FOLLOWERS }, user.key, { name, purpose: 'both' })
  // The DNS records of every domain contain the hostname: after a change, the new ones are printed.
  await followConfig(deps)
  return user
}

const domainOf = (store: Reader, { key }: User, name: string): Domain | undefined =>
  listDomains(store, name).find(({ user_key }) => user_key === key)

/** Returns the records to publish for a domain, or undefined if the user does not have it. */
export async function recordsFor(
  deps: Pick<Deps, 'clock' | 'config' | 'store'>,
  user: User,
  name: string,
): Promise<DomainRecords | undefined> {
  const domain = domainOf(deps.store, user, name)
  if (domain === undefined) return undefined
  const advised = await advisedFor({ ...deps, resolver: hasty(deps) }, domain)
  return { domain, records: recordsOf(deps.store, domain.key), advised }
}
