// `postrider domain sts` and `domain dmarc`: a domain's policies for mail that it receives, and for mail in its name.
import { createPublicKey } from 'node:crypto'
import { Option, type Command } from 'commander'
import { DAY } from '../base/clock.ts'
import { advisedRecords, publicKeyOf, type AdvisedRecord } from '../domains/advised.ts'
import { domainByKey, type Domain } from '../domains/find.ts'
import { setStsMode, stsHost, stsRecord, type StsMode } from '../domains/inbound-sts.ts'
import { setDmarcPolicy } from '../domains/records.ts'
import { followConfig } from '../domains/issue.ts'
import { Shelf } from '../acme/shelf.ts'
import { organisationalDomain } from '../message/address.ts'
import { answer } from './terminal.ts'
import { silentLog } from '../base/log.ts'
import { Certificates } from './certificates.ts'
import type { Desk, Invocation } from './open.ts'
import type { Whose } from './whose.ts'

type WithDomain = (
  name: string,
  which: Whose,
  work: (desk: Desk, found: Domain & { email: string }) => Promise<void> | void,
) => Promise<void>

/** A policy is tested for this long before it is enforced. */
const TRIED = 7 * DAY

export function policyCommands(
  one: (usage: string, about: string) => Command,
  invocation: () => Invocation,
  withDomain: WithDomain,
): void {
  one('sts <name>', 'the MTA-STS policy of a domain that receives mail here: who writes to it must use TLS')
    .addOption(
      new Option('--mode <mode>', 'testing first, enforce after a week without trouble, none to take it back')
        .choices(['none', 'testing', 'enforce'])
        .makeOptionMandatory(),
    )
    .action((name: string, options: Whose & { mode: StsMode }) =>
      withDomain(name, options, async (desk, found) => {
        const { clock, config, store } = desk
        const { mode } = options
        const early =
          mode === 'enforce' && !(found.sts_mode === 'testing' && clock.now() - found.sts_changed_at! >= TRIED)
        await setStsMode(desk, found.key, mode)
        const changed = domainByKey(store, found.key)!
        const host = stsHost(found.name)
        const certified = new Shelf(config.data_dir).certificate(host) !== undefined || config.tls.cert !== ''
        const warnings = [
          ...(early
            ? ['It was not in testing for a week before: senders who cannot agree on TLS will not reach you.']
            : []),
          ...(certified
            ? []
            : [`There is no certificate for ${host} yet: publish its CNAME and turn [acme] on, or give one in [tls].`]),
        ]
        const records = [
          { name: host, type: 'CNAME', value: config.hostname },
          { name: `_mta-sts.${found.name}`, type: 'TXT', value: stsRecord(changed) },
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
  one('dmarc <name>', 'what a domain’s DMARC record says, and what it should say next')
    .addOption(
      new Option('--policy <policy>', 'what receivers are asked to do with mail that fails').choices([
        'none',
        'quarantine',
        'reject',
      ]),
    )
    .action((name: string, options: Whose & { policy?: Domain['dmarc_policy'] }) =>
      withDomain(name, options, async (desk, found) => {
        const wanted = options.policy ?? found.dmarc_policy
        if (options.policy !== undefined) {
          await setDmarcPolicy(desk, found.key, options.policy)
          await followConfig(desk)
        }
        const host = `_dmarc.${organisationalDomain(found.name) ?? found.name}`
        const asked = await desk.resolver.txt(host)
        const records = asked.kind === 'found' ? asked.records.filter((text) => /^v\s*=\s*DMARC1/.test(text)) : []
        const published = records.length === 1 ? records[0]! : null
        const policy = published === null ? null : (/[;\s]p\s*=\s*(\w+)/i.exec(published)?.[1]?.toLowerCase() ?? null)
        const next = NEXT[policy ?? 'absent'] ?? null
        const warning = strictness(wanted) > strictness(policy) ? refusedBy(found.name, wanted) : null
        answer(
          invocation().terminal,
          { name: found.name, record: host, published, policy, wanted, value: `v=DMARC1; p=${wanted};`, next, warning },
          (shown) =>
            [
              published === null
                ? `${host} has ${records.length === 0 ? 'no DMARC record' : `${records.length} DMARC records, which is as good as none`}.`
                : `${host} says: ${published}`,
              ...(policy === wanted ? [] : [`It should say: ${shown.value}`]),
              ...(warning === null ? [] : [warning]),
              ...(next === null || next === wanted
                ? []
                : [`The next step is "postrider domain dmarc ${found.name} --policy ${next}".`]),
            ].join('\n'),
        )
      }),
    )
}

const NEXT: Record<string, Domain['dmarc_policy']> = { absent: 'none', none: 'quarantine', quarantine: 'reject' }
const strictness = (policy: string | null): number => ['none', 'quarantine', 'reject'].indexOf(policy ?? 'none')

const refusedBy = (name: string, policy: string): string =>
  `With p=${policy}, receivers ${policy === 'reject' ? 'refuse' : 'put aside'} mail in the name of ${name} that neither this server nor another with an aligned DKIM key or SPF sends: look at your DMARC reports first.`

/** The records that a domain is advised to publish at present. */
export async function advisedFor(
  { clock, config, resolver }: Desk,
  domain: Domain & { email: string },
): Promise<AdvisedRecord[]> {
  const shelf = new Shelf(config.data_dir)
  const certificates = new Certificates({
    clock,
    log: silentLog,
    config,
    shelf: config.acme.enabled ? shelf : undefined,
  })
  const next = config.acme.enabled ? shelf.nextKey(config.hostname) : undefined
  const publicKeys = [
    publicKeyOf(certificates.first('smtp').cert),
    ...(next ? [createPublicKey(next).export({ type: 'spki', format: 'der' })] : []),
  ]
  return advisedRecords(
    { config, resolver, publicKeys, certified: config.acme.enabled ? shelf.names() : [] },
    domain,
    config.notices.operator || domain.email,
  )
}

/** A record as a line of a zone file. */
export const zoneLine = ({
  name,
  ttl,
  type,
  value,
}: Pick<AdvisedRecord, 'name' | 'ttl' | 'value'> & { type: string }): string =>
  `${name}. ${ttl} IN ${type} ${type === 'TXT' ? `"${value.replace(/["\\]/g, '\\$&')}"` : type === 'CNAME' ? `${value}.` : value}`
