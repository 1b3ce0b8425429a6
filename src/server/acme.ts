// Assembles certificates by ACME: the wanted names and their proofs.
import { isIP } from 'node:net'
import type { Certificate } from '../base/certificate.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import { readNamed } from '../base/plain-file.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import type { Resolver } from '../net/resolver.ts'
import { version } from '../base/version.ts'
import { createFetch } from '../acme/http.ts'
import { Renewals } from '../acme/renewals.ts'
import { Shelf } from '../acme/certificate-files.ts'
import { stsHost } from '../domains/inbound-sts.ts'
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'

export interface AcmeParts {
  store: Store
  clock: Clock
  log: Log
  config: Config
  resolver: Resolver
  /** Called when there is a new certificate. */
  renewed: () => void
}

export interface Acme {
  shelf: Shelf
  loop: Loop
  proofOf: (token: string) => string | undefined
  proofFor: (name: string) => Certificate | undefined
  /**
   * Waits at most `patience` ms for an order in progress. An authority may take minutes; it is asked again after the
   * next start.
   */
  stop(patience: number): Promise<void>
}

/** Undefined when `[acme]` is off. Throws an OperatorError when the configuration cannot work. */
export function createAcme(parts: AcmeParts): Acme | undefined {
  const { clock, config, log, renewed } = parts
  const { acme, data_dir, hostname } = config
  if (!acme.enabled) return undefined
  if (!acme.accept_terms)
    throw new OperatorError(
      `"acme.enabled" needs "acme.accept_terms = true", which says that you accept the terms of service of ${new URL(acme.directory).host}.`,
    )
  if (!isName(hostname))
    throw new OperatorError(`"acme.enabled" needs a "hostname" that the world knows; "${hostname}" is none.`)
  const shelf = new Shelf(data_dir)
  const renewals = new Renewals({
    clock,
    log,
    shelf,
    renewed,
    ways: [
      ...(acme.listen.length > 0 ? (['http-01'] as const) : []),
      ...(config.http.tls_listen.length > 0 ? (['tls-alpn-01'] as const) : []),
    ],
    names: () => wantedNames(parts, shelf),
    client: {
      directory: acme.directory,
      email: acme.email,
      binding: bindingOf(acme),
      fetch: createFetch(
        acme.ca_file === '' ? undefined : settingOf(acme.ca_file, 'acme.ca_file'),
        `postrider/${version}`,
      ),
    },
  })
  const loop = new Loop({
    name: 'certificates',
    clock,
    log,
    run: () => renewals.run(),
  })
  return {
    shelf,
    loop,
    proofOf: (token) => renewals.proofOf(token),
    proofFor: (name) => renewals.proofFor(name),
    stop: (patience) =>
      Promise.race([loop.stop(), new Promise<void>((resolve) => clock.wake(clock.now() + patience, resolve))]),
  }
}

const isName = (name: string): boolean => name.includes('.') && isIP(name) === 0

function settingOf(path: string, key: string): string {
  try {
    return readNamed(path).toString()
  } catch (thrown) {
    throw new OperatorError(`"${key}" (${path}) cannot be read (${whyUnread(thrown)}); correct it or its permissions.`)
  }
}

function bindingOf({ eab_key_file, eab_kid }: Config['acme']): { id: string; key: string } | undefined {
  if (eab_kid === '' && eab_key_file === '') return undefined
  if (eab_kid === '' || eab_key_file === '')
    throw new OperatorError('External account binding needs both "acme.eab_kid" and "acme.eab_key_file".')
  return { id: eab_kid, key: settingOf(eab_key_file, 'acme.eab_key_file').trim() }
}

/**
 * The server's own names, and names of domains whose DNS records lead to this server: branded links, and the host of an
 * MTA-STS policy.
 */
async function wantedNames({ config, log, resolver, store }: AcmeParts, shelf: Shelf): Promise<string[]> {
  const { acme, hostname, http } = config
  const url = new URL(http.public_url)
  const own = [
    hostname,
    ...(url.protocol === 'https:' ? [url.hostname] : []),
    ...acme.names.map((name) => name.toLowerCase()),
  ]
  const branded = store.all(
    raw<{ name: string }>(
      `select r.name from records r join domains d on d.key = r.domain_key
       where r.record_type = 'TRACKING' and r.verified = 1 and d.deleted_at is null order by r.key`,
    ),
  )
  const domains = store.all(
    raw<{ name: string }>(
      `select distinct name from domains where deleted_at is null and status = 'active' order by key`,
    ),
  )
  const policies: string[] = []
  const before = new Set(shelf.wanted())
  for (const { name } of domains) {
    const host = stsHost(name)
    // While DNS does not answer, a name that was wanted before stays wanted.
    if ((await leadsTo(resolver, host, hostname)) ?? before.has(host)) policies.push(host)
    else log.debug('no MTA-STS host', { host })
  }
  return [...new Set([...own, ...branded.map(({ name }) => name), ...policies])].filter(isName)
}

/** Whether a name has an address in common with this server's name; undefined when DNS does not answer. */
async function leadsTo(resolver: Resolver, name: string, hostname: string): Promise<boolean | undefined> {
  const addresses = async (of: string): Promise<{ known: boolean; found: string[] }> => {
    const answers = await Promise.all([resolver.a(of), resolver.aaaa(of)])
    return {
      known: answers.every(({ kind }) => kind !== 'failed'),
      found: answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : [])),
    }
  }
  const [theirs, ours] = await Promise.all([addresses(name), addresses(hostname)])
  if (theirs.found.some((address) => ours.found.includes(address))) return true
  return theirs.known && ours.known ? false : undefined
}
