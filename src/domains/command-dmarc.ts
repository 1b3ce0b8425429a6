// The text of `postrider domain dmarc` about DNS: the record that applies to a domain, and the record to publish with
// its name.
import { must } from '../base/errors.ts'
import type { Resolver } from '../net/resolver.ts'
import {
  dmarcHost,
  isWeaker,
  judgeDmarc,
  nextPolicy,
  observedDmarc,
  policyOf,
  publishedDmarc,
  withPolicy,
  type DmarcPolicy,
} from './dmarc.ts'
import type { Domain } from './find.ts'
import { reportsTo, withReportsTo } from './report-addresses.ts'

export interface DmarcAdvice {
  /** The DNS name of the record to publish. */
  record: string
  /** The DNS name of the record that applies; null: there is none, or several at one name. */
  published_at: string | null
  published: string | null
  /** The policy of the published record; null when no record applies. */
  policy: DmarcPolicy | null
  wanted: DmarcPolicy
  /** The value to publish at `record`. */
  value: string
  /** The next stricter policy; null while the wanted policy is not published, and after the strictest. */
  next: DmarcPolicy | null
  warning: string | null
  /** The reason when no record applies or DNS did not answer. */
  trouble: string | null
}

/** `asked`: the user named the policy in this command, so that a weaker policy than the published one is intended. */
export async function dmarcAdvice(
  resolver: Pick<Resolver, 'txt'>,
  given: Pick<Domain, 'mail_from_prefix' | 'name'>,
  wanted: DmarcPolicy,
  asked: boolean,
): Promise<DmarcAdvice> {
  const domain = given.name
  const own = `_dmarc.${domain}`
  const found = await publishedDmarc(resolver, own)
  const { fits, value } = judgeDmarc(wanted, found ? observedDmarc(found) : null, reportsTo('dmarc', given))
  const nothing = { published_at: null, published: null, policy: null, wanted, value, next: null }
  if (!found || found.records.length > 1) {
    const trouble =
      found === undefined
        ? `DNS does not answer for ${own}`
        : found
          ? `${found.host} has ${found.records.length} DMARC records, which is as good as none`
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
  `With p=${policy}, receivers ${policy === 'reject' ? 'refuse' : 'put aside'} mail in the name of ${name} that neither this server nor another with an aligned DKIM key or SPF sends: look at your DMARC reports first.`

/** The advice in sentences. */
export function dmarcText(domain: string, advice: DmarcAdvice): string {
  const { published, published_at, record, trouble, value, warning } = advice
  return [
    trouble === null ? `${published_at} says: ${published}` : `${trouble}.`,
    ...(published_at === null || published_at === `_dmarc.${domain}`
      ? []
      : [`That counts for ${domain}, which has no record of its own.`]),
    ...(value === published && record === published_at ? [] : [`${record} should say: ${value}`]),
    ...(warning === null ? [] : [warning]),
  ].join('\n')
}
