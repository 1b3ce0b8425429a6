// `postrider domain sts`: a domain's policy for servers that send mail to it, and its advised records.
import { createPublicKey, X509Certificate, type KeyObject } from 'node:crypto'
import { Option, type Command } from 'commander'
import { DAY, iso, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { readNamed } from '../base/plain-file.ts'
import { advisedRecords, publicKeyOf } from './advised.ts'
import type { Domain } from './find.ts'
import { setStsMode, stsHost, stsRecord, type StsMode } from './inbound-sts.ts'
import { isFor, CertificateStore } from '../acme/certificate-files.ts'
import { answer } from '../views/command/terminal.ts'
import { silentLog } from '../base/log.ts'
import { certificateFiles, Certificates } from '../acme/certificates.ts'
import type { Deps, Invocation } from '../views/command/open.ts'
import type { Whose } from './find-domain.ts'
import { zoneLine } from './zone-lines.ts'
import { reportsTo } from './dmarc.ts'
import type { AdvisedRecord } from './advised-record.ts'

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
  one('sts <name>', 'set the MTA-STS policy of a domain (TLS for received email)')
    .addOption(
      new Option('--mode <mode>', 'testing first, enforce after a week, none to remove the policy')
        .choices(['none', 'testing', 'enforce'])
        .makeOptionMandatory(),
    )
    .option('--force', 'enforce without a week of testing or a certificate')
    .action((name: string, options: Whose & { mode: StsMode; force?: true }) =>
      withDomain(name, options, async (deps, found) => {
        const { config } = deps
        const { force, mode } = options
        const host = stsHost(found.name)
        const missing = [...(mode === 'enforce' ? untried(deps, found) : []), ...uncertified(deps, host)]
        if (mode === 'enforce' && !force && missing.length > 0)
          throw new OperatorError(
            `The policy is not enforced yet: ${missing.join(', and ')}; add --force to enforce it anyway.`,
          )
        const warnings = missing.map(sentence)
        await setStsMode(deps, found.key, mode)
        const records = [
          { name: host, type: 'CNAME', value: config.hostname },
          { name: `_mta-sts.${found.name}`, type: 'TXT', value: stsRecord(mode, config.hostname) },
        ]
        answer(invocation().terminal, { name: found.name, mode, records, warnings }, () =>
          [
            `The MTA-STS policy of ${found.name} is ${mode}.`,
            ...warnings,
            '',
            ...(mode === 'none'
              ? ['Sending servers forget the policy within a day. After that you can delete both records.']
              : ['Publish:', '', ...records.map((each) => zoneLine({ ...each, ttl: 3600 }))]),
          ].join('\n'),
        )
      }),
    )
}

/** Reasons not to enforce a policy yet. Empty if it is already enforced. */
function untried({ clock }: Pick<Deps, 'clock'>, { name, sts_changed_at, sts_mode }: Domain): string[] {
  if (sts_mode === 'enforce') return []
  if (sts_mode !== 'testing' || sts_changed_at === null)
    return [
      `${name} has not been in testing for a week ("--mode testing"), so sending servers without TLS could fail unnoticed`,
    ]
  return clock.now() - sts_changed_at >= TRIED
    ? []
    : [
        `${name} is in testing until ${iso(sts_changed_at + TRIED)}, so sending servers without TLS could fail unnoticed`,
      ]
}

/** Senders read a policy only from a host whose certificate names it (RFC 8461 §3.3). */
function uncertified({ clock, config }: Pick<Deps, 'clock' | 'config'>, host: string): string[] {
  const brought = new CertificateStore(config.data_dir).certificate(host)?.read
  const configured = new Certificates({ clock, log: silentLog, config, certificateStore: undefined }).known('https')
  const read = config.tls.cert === '' ? brought : configured && new X509Certificate(configured.cert)
  return read && isFor(read, host, clock.now())
    ? []
    : [`there is no certificate for ${host} (publish its CNAME and enable "[acme]", or set one in "[tls]")`]
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

/** The records that the server advises for a domain at present. `makes`: a missing certificate is made (D122). */
export async function advisedFor(
  { clock, config, resolver }: Pick<Deps, 'clock' | 'config' | 'resolver'>,
  domain: Domain,
  { makes }: { makes: boolean } = { makes: true },
): Promise<AdvisedRecord[]> {
  const certificateStore = new CertificateStore(config.data_dir)
  return advisedRecords(
    {
      config,
      resolver,
      publicKeys: keysOf(config, clock, makes),
      certified: config.acme.enabled ? certificateStore.wanted() : [],
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
  const certificateStore = config.acme.enabled ? new CertificateStore(config.data_dir) : undefined
  const certificates = new Certificates({ clock, log: silentLog, config, certificateStore })
  const certificate = makes ? certificates.first('smtp') : certificates.known('smtp')
  if (!certificate) return []
  const shown = publicKeyOf(certificate.cert)
  const derOf = (key: KeyObject): Buffer => createPublicKey(key).export({ type: 'spki', format: 'der' })
  // Before the first order there is no other key, and the present one will be taken over.
  const made = certificateStore?.madeKey(config.hostname)
  if (made && !derOf(made).equals(shown)) return []
  const next = certificateStore?.nextKey(config.hostname)
  return [shown, ...(next ? [derOf(next)] : [])]
}
