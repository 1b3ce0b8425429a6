// `postrider domain sts`: a domain's policy for servers that send mail to it; and the records that are advised for it.
import { createPublicKey, X509Certificate, type KeyObject } from 'node:crypto'
import { Option, type Command } from 'commander'
import { DAY, iso, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { readNamed } from '../base/plain-file.ts'
import { advisedRecords, publicKeyOf, type AdvisedRecord } from './advised.ts'
import type { Domain } from './find.ts'
import { setStsMode, stsHost, stsRecord, type StsMode } from './inbound-sts.ts'
import { isFor, Shelf } from '../acme/certificate-files.ts'
import { answer } from '../commands/terminal.ts'
import { silentLog } from '../base/log.ts'
import { certificateFiles, Certificates } from '../acme/certificates.ts'
import type { Deps, Invocation } from '../commands/open.ts'
import type { Whose } from './find-domain.ts'
import { zoneLine } from './zone-lines.ts'
import { reportsTo } from './report-addresses.ts'

type WithDomain = (
  name: string,
  which: Whose,
  work: (deps: Deps, found: Domain & { email: string }) => Promise<void> | void,
) => Promise<void>

/** A policy should be tested for this long before it is enforced. */
const TRIED = 7 * DAY

export function policyCommands(
  one: (usage: string, about: string) => Command,
  invocation: () => Invocation,
  withDomain: WithDomain,
): void {
  one('sts <name>', 'the MTA-STS policy of a domain that receives mail here: senders must use TLS')
    .addOption(
      new Option('--mode <mode>', 'testing first, enforce after a week without trouble, none to take it back')
        .choices(['none', 'testing', 'enforce'])
        .makeOptionMandatory(),
    )
    .option('--force', 'enforce although it was not tried for a week, or its host has no certificate')
    .action((name: string, options: Whose & { mode: StsMode; force?: true }) =>
      withDomain(name, options, async (deps, found) => {
        const { config } = deps
        const { force, mode } = options
        const host = stsHost(found.name)
        const missing = [...(mode === 'enforce' ? untried(deps, found) : []), ...uncertified(deps, host)]
        if (mode === 'enforce' && !force && missing.length > 0)
          throw new OperatorError(`Not enforced: ${missing.join('; ')}; --force enforces it all the same.`)
        const warnings = missing.map(sentence)
        await setStsMode(deps, found.key, mode)
        const records = [
          { name: host, type: 'CNAME', value: config.hostname },
          { name: `_mta-sts.${found.name}`, type: 'TXT', value: stsRecord(mode, config.hostname) },
        ]
        answer(invocation().terminal, { name: found.name, mode, records, warnings }, () =>
          [
            `${found.name} has the MTA-STS policy ${mode}.`,
            ...warnings,
            '',
            ...(mode === 'none'
              ? ['Senders forget the policy within a day; then both records can go.']
              : ['Publish:', '', ...records.map((each) => zoneLine({ ...each, ttl: 3600 }))]),
          ].join('\n'),
        )
      }),
    )
}

/** Reasons not to enforce a policy yet; none when it is enforced already. */
function untried({ clock }: Pick<Deps, 'clock'>, { name, sts_changed_at, sts_mode }: Domain): string[] {
  if (sts_mode === 'enforce') return []
  if (sts_mode !== 'testing' || sts_changed_at === null)
    return [`${name} has not been in testing for a week ("--mode testing"), and senders without TLS would not reach it`]
  return clock.now() - sts_changed_at >= TRIED
    ? []
    : [`${name} has to be in testing until ${iso(sts_changed_at + TRIED)}, and senders without TLS would not reach it`]
}

/** Senders read a policy only from a host whose certificate names it (RFC 8461 §3.3). */
function uncertified({ clock, config }: Pick<Deps, 'clock' | 'config'>, host: string): string[] {
  const brought = new Shelf(config.data_dir).certificate(host)?.read
  const configured = new Certificates({ clock, log: silentLog, config, shelf: undefined }).known('https')
  const read = config.tls.cert === '' ? brought : configured && new X509Certificate(configured.cert)
  return read && isFor(read, host, clock.now())
    ? []
    : [`there is no certificate for ${host} (its CNAME and "[acme]", or one in "[tls]" that names it)`]
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

/** The records that the server advises for a domain at present. `makes`: a missing certificate is made (D122). */
export async function advisedFor(
  { clock, config, resolver }: Pick<Deps, 'clock' | 'config' | 'resolver'>,
  domain: Domain,
  { makes }: { makes: boolean } = { makes: true },
): Promise<AdvisedRecord[]> {
  const shelf = new Shelf(config.data_dir)
  return advisedRecords(
    {
      config,
      resolver,
      publicKeys: keysOf(config, clock, makes),
      certified: config.acme.enabled ? shelf.wanted() : [],
    },
    domain,
    reportsTo('tls', domain),
  )
}

/**
 * Public keys (SubjectPublicKeyInfo, DER) of port 25, the present one and the next one. Empty when the present key will
 * not stay, or cannot be read.
 */
function keysOf(config: Config, clock: Clock, makes: boolean): Uint8Array[] {
  const { cert, keys } = certificateFiles(config)
  if (keys !== undefined)
    try {
      return [publicKeyOf(readNamed(cert).toString())]
    } catch {
      return []
    }
  const shelf = config.acme.enabled ? new Shelf(config.data_dir) : undefined
  const certificates = new Certificates({ clock, log: silentLog, config, shelf })
  const certificate = makes ? certificates.first('smtp') : certificates.known('smtp')
  if (!certificate) return []
  const shown = publicKeyOf(certificate.cert)
  const octets = (key: KeyObject): Buffer => createPublicKey(key).export({ type: 'spki', format: 'der' })
  // Before the first order there is no other key, and the present one will be taken over.
  const made = shelf?.madeKey(config.hostname)
  if (made && !octets(made).equals(shown)) return []
  const next = shelf?.nextKey(config.hostname)
  return [shown, ...(next ? [octets(next)] : [])]
}
