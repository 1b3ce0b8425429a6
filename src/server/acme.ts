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
import { CertificateStore } from '../acme/certificate-files.ts'
import { checkLinksOf } from '../domains/issue.ts'
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
  /** Wakes the domains loop. */
  ring: () => void
}

export interface Acme {
  certificateStore: CertificateStore
  loop: Loop
  proofOf: (token: string) => string | undefined
  proofFor: (name: string) => Certificate | undefined
  /** Wakes the loop if the hosts of branded links are other ones than it last saw. Cheap. */
  look(): void
  /**
   * Waits at most `patience` ms for an order in progress. An authority can take minutes. The next start tries again.
   */
  stop(patience: number): Promise<void>
}

/**
 * The contents of the files that `[acme]` names: the key of an external account, and the authorities of its server.
 * Undefined when it is off. Throws an OperatorError when the configuration cannot work.
 */
export function acmeSettings({ acme, hostname }: Pick<Config, 'acme' | 'hostname'>) {
  if (!acme.enabled) return undefined
  if (!acme.accept_terms)
    throw new OperatorError(
      `"acme.accept_terms" is false; set it to true to accept the terms of service of ${new URL(acme.directory).host}, or set "acme.enabled" to false.`,
    )
  if (!isName(hostname))
    throw new OperatorError(
      `"hostname" is "${hostname}", which is not a public name; set it to the DNS name of this server, or set "acme.enabled" to false.`,
    )
  return {
    binding: bindingOf(acme),
    authorities: acme.ca_file === '' ? undefined : settingOf(acme.ca_file, 'acme.ca_file'),
  }
}

/** Undefined when `[acme]` is off. Throws as `acmeSettings`. */
export function createAcme(parts: AcmeParts): Acme | undefined {
  const { clock, config, log, renewed } = parts
  const { acme, data_dir } = config
  const settings = acmeSettings(config)
  if (!settings) return undefined
  const certificateStore = new CertificateStore(data_dir)
  let seen: string | undefined
  const renewals = new Renewals({
    clock,
    log,
    certificateStore,
    renewed: (name) => {
      renewed()
      checkLinksOf(parts, name)
    },
    ways: [
      ...(acme.listen.length > 0 ? (['http-01'] as const) : []),
      ...(config.http.tls_listen.length > 0 ? (['tls-alpn-01'] as const) : []),
    ],
    names: () => {
      const hosts = linksHosts(parts.store)
      seen = hosts.join(' ')
      return wantedNames(parts, certificateStore, hosts)
    },
    client: {
      directory: acme.directory,
      email: acme.email,
      binding: settings.binding,
      fetch: createFetch(settings.authorities, `postrider/${version}`),
    },
  })
  const loop = new Loop({
    name: 'certificates',
    clock,
    log,
    run: () => renewals.run(),
  })
  return {
    certificateStore,
    loop,
    proofOf: (token) => renewals.proofOf(token),
    proofFor: (name) => renewals.proofFor(name),
    look: () => seen !== undefined && linksHosts(parts.store).join(' ') !== seen && loop.ring(),
    stop: (patience) =>
      Promise.race([loop.stop(), new Promise<void>((resolve) => clock.wake(clock.now() + patience, resolve))]),
  }
}

const isName = (name: string): boolean => name.includes('.') && isIP(name) === 0

function settingOf(path: string, key: string): string {
  try {
    return readNamed(path).toString()
  } catch (thrown) {
    throw new OperatorError(
      `"${key}" (${path}) cannot be read (${whyUnread(thrown)}); correct the path or its permissions.`,
    )
  }
}

function bindingOf({ eab_key_file, eab_kid }: Config['acme']): { id: string; key: string } | undefined {
  if (eab_kid === '' && eab_key_file === '') return undefined
  if (eab_kid === '' || eab_key_file === '')
    throw new OperatorError(
      'External account binding needs two settings; set both "acme.eab_kid" and "acme.eab_key_file", or neither.',
    )
  return { id: eab_kid, key: settingOf(eab_key_file, 'acme.eab_key_file').trim() }
}

/** The hosts of branded links whose DNS records are there. */
const linksHosts = (store: Store): string[] =>
  store
    .all(
      raw<{ name: string }>(
        `select r.name from records r join domains d on d.key = r.domain_key
         where r.record_type = 'TRACKING' and r.verified = 1 and d.deleted_at is null order by r.key`,
      ),
    )
    .map(({ name }) => name)

/**
 * The server's own names, and names of domains whose DNS records lead to this server: branded links, and the host of an
 * MTA-STS policy.
 */
async function wantedNames(
  { config, log, resolver, store }: AcmeParts,
  certificateStore: CertificateStore,
  branded: readonly string[],
): Promise<string[]> {
  const { acme, hostname, http } = config
  const url = new URL(http.public_url)
  const own = [
    hostname,
    ...(url.protocol === 'https:' ? [url.hostname] : []),
    ...acme.names.map((name) => name.toLowerCase()),
  ]
  const domains = store.all(
    raw<{ name: string }>(
      `select distinct name from domains where deleted_at is null and status = 'active' order by key`,
    ),
  )
  const policies: string[] = []
  const before = new Set(certificateStore.wanted())
  for (const { name } of domains) {
    const host = stsHost(name)
    // While DNS does not answer, a name that was wanted before stays wanted.
    if ((await leadsTo(resolver, host, hostname)) ?? before.has(host)) policies.push(host)
    else log.debug('mta_sts_host_skipped', { host })
  }
  return [...new Set([...own, ...branded, ...policies])].filter(isName)
}

/** Whether a name shares an address with this server's hostname, or undefined if DNS does not respond. */
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
