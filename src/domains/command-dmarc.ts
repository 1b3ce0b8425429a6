// The text of `postrider domain dmarc` about DNS: the record that applies to a domain, and the record to publish with
// its name.
import { must } from '../base/errors.ts'
import type { Resolver } from '../net/resolver.ts'
import {
  dmarcHost,
  isWeaker,
  nextPolicy,
  observedDmarc,
  policyOf,
  publishedDmarc,
  withPolicy,
  type DmarcPolicy,
  reportsTo,
  withReportsTo,
} from './dmarc.ts'
import type { Domain } from './find.ts'
import { wantedDmarc } from './records.ts'
import type { Reader } from '../store/database.ts'

export interface DmarcAdvice {
  /** The DNS name of the record to publish. */
  record: string
  /** The DNS name of the record that applies, or null if there is not exactly one. */
  published_at: string | null
  published: string | null
  /** The policy of the published record, or null if no record applies. */
  policy: DmarcPolicy | null
  wanted: DmarcPolicy
  value: string
  /** The next stricter policy. Null while the wanted policy is not published, and for the strictest. */
  next: DmarcPolicy | null
  warning: string | null
  /** The reason when no record applies or DNS did not answer. */
  trouble: string | null
}

/** `asked`: the user named the policy in this command, so that a weaker policy than the published one is intended. */
export async function dmarcAdvice(
  resolver: Pick<Resolver, 'txt'>,
  reader: Reader,
  given: Domain,
  wanted: DmarcPolicy,
  asked: boolean,
): Promise<DmarcAdvice> {
  const domain = given.name
  const own = `_dmarc.${domain}`
  const found = await publishedDmarc(resolver, own)
  const { fits, value } = wantedDmarc(reader, { ...given, dmarc_policy: wanted }, found ? observedDmarc(found) : null)
  const nothing = { published_at: null, published: null, policy: null, wanted, value, next: null }
  if (!found || found.records.length > 1) {
    const trouble =
      found === undefined
        ? `DNS does not answer for ${own}`
        : found
          ? `${found.host} has ${found.records.length} DMARC records, so receiving servers ignore all of them`
          : `${dmarcHost(domain, wanted)} has no DMARC record`
    const record = found?.inherited === false ? own : dmarcHost(domain, wanted)
    return { ...nothing, record, warning: isWeaker('none', wanted) ? refusedBy(domain, wanted) : null, trouble }
  }
  const published = must(found.records[0], 'The DMARC record')
  const policy = policyOf(published, found.inherited)
  const [ahead, back] = [isWeaker(policy, wanted), asked && isWeaker(wanted, policy)]
  const shown = {
    published_at: found.host,
    published,
    policy,
    wanted,
    next: ahead || back ? null : nextPolicy(policy),
    warning: ahead ? refusedBy(domain, wanted) : null,
    trouble: null,
  }
  if (!found.inherited)
    return {
      ...shown,
      record: own,
      value: asked ? withReportsTo(withPolicy(published, wanted), reportsTo('dmarc', given)) : value,
    }
  // The record of the organisational domain stays as it is, because it applies to other domains too.
  return fits && !back ? { ...shown, record: found.host, value: published } : { ...shown, record: own, value }
}

const refusedBy = (name: string, policy: DmarcPolicy): string =>
  `With p=${policy}, receiving servers ${policy === 'reject' ? 'reject' : 'move to spam'} all email from ${name} that has neither an aligned DKIM signature nor aligned SPF. Check your DMARC reports first.`

export function dmarcText(domain: string, advice: DmarcAdvice): string {
  const { published, published_at, record, trouble, value, warning } = advice
  return [
    trouble === null ? `Published at ${published_at}: ${published}` : `${trouble}.`,
    ...(published_at === null || published_at === `_dmarc.${domain}`
      ? []
      : [`It applies to ${domain}, which has no record of its own.`]),
    ...(value === published && record === published_at ? [] : [`Publish at ${record}: ${value}`]),
    ...(warning === null ? [] : [warning]),
  ].join('\n')
}
