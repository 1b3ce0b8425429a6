// What makes an installation of an empty data directory: the first user and the first domain, for `postrider init` and
// for a server that is told both by its environment (first-start.ts).
import { createResolver, type Resolver } from '../net/resolver.ts'
import { advisedFor } from '../domains/command-policies.ts'
import type { DomainRecords } from '../domains/command-text.ts'
import { listDomains, type Domain } from '../domains/find.ts'
import { followConfig } from '../domains/issue.ts'
import { registerDomain, type RegisterDeps } from '../domains/lifecycle.ts'
import { recordsOf } from '../domains/records.ts'
import { addUser, findUser, type User } from '../identity/users.ts'
import { givenName, organisationalDomain, parseAddress } from '../message/address.ts'
import { DOMAIN_FOLLOWERS } from '../server/domain-followers.ts'
import type { Deps } from '../commands/open.ts'
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

/** The names as they are stored. `by`: what gave each. Throws an OperatorError for one that is none. */
export function checkNames<T extends FirstNames>(given: T, by: FirstNames): T {
  const domain = givenName(given.domain)
  if (!domain || !organisationalDomain(domain))
    throw new OperatorError(`${by.domain}: "${given.domain}" is not a domain name such as example.org.`)
  const hostname = givenName(given.hostname)
  if (!hostname?.includes('.'))
    throw new OperatorError(`${by.hostname}: "${given.hostname}" is not a full host name such as mx.example.org.`)
  const email = parseAddress(given.email)?.address
  if (email === undefined)
    throw new OperatorError(`${by.email}: "${given.email}" is not an email address such as you@example.org.`)
  return { ...given, domain, hostname, email }
}

/** Creates the user and the domain, or takes those that are there. */
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

/** The records to publish for a domain of a user; undefined where the user has no such domain. */
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
