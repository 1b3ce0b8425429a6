// The MTA-STS policies of recipient domains, kept in the store until they expire (RFC 8461 §5.1). A known policy counts
// even when its TXT record is gone or its server is down: an attacker who blocks DNS must not remove the protection.
import { MINUTE, SECOND, type Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Resolver } from '../../net/resolver.ts'
import { parsePolicy, policyId } from '../../smtp/mta-sts.ts'
import type { Store } from '../../store/database.ts'
import { db } from '../../store/query.ts'
import type { RowOf } from '../../schema/tables.ts'
import { fetchFile, type FetchDeps } from '../../net/fetch.ts'

export interface StsDeps {
  store: Store
  clock: Clock
  resolver: Resolver
  fetching: FetchDeps
  log: Log
  /** Port of policy servers; 443 everywhere but in tests. */
  stsPort?: number | undefined
}

export interface KnownPolicy {
  mode: 'enforce' | 'testing' | 'none'
  mx: string[]
}

const TIMEOUT = 60 * SECOND
const MAX_POLICY = 64 * 1024
/** A policy server that does not answer is not asked again for this time. */
const PATIENCE = 5 * MINUTE
const MAX_FAILED = 10_000

const known = (row: RowOf<'sts_policies'> | undefined): KnownPolicy | undefined =>
  row && { mode: row.mode, mx: JSON.parse(row.mx) as string[] }

export class StsCache {
  readonly #deps: StsDeps
  /** When a domain's policy server last failed. */
  readonly #failedAt = new Map<string, number>()

  constructor(deps: StsDeps) {
    this.#deps = deps
  }

  /** The policy that counts for a domain now; undefined when it has none. */
  async get(domain: string): Promise<KnownPolicy | undefined> {
    const { clock, resolver, store } = this.#deps
    const kept = store.first(
      db.selectFrom('sts_policies').selectAll().where('domain', '=', domain).where('expires_at', '>', clock.now()),
    )
    const answer = await resolver.txt(`_mta-sts.${domain}`)
    const id = answer.kind === 'found' ? policyId(answer.records) : undefined
    if (id === undefined || kept?.id === id) return known(kept)
    return known((await this.#fetch(domain, id)) ?? kept)
  }

  async #fetch(domain: string, id: string): Promise<RowOf<'sts_policies'> | undefined> {
    const { clock, fetching, log, store, stsPort = 443 } = this.#deps
    const now = clock.now()
    if (now - (this.#failedAt.get(domain) ?? -Infinity) < PATIENCE) return undefined
    const port = stsPort === 443 ? '' : `:${stsPort}`
    const url = `https://mta-sts.${domain}${port}/.well-known/mta-sts.txt`
    const fetched = await fetchFile(fetching, url, { timeout: TIMEOUT, maxBytes: MAX_POLICY, redirects: 0 })
    const plain = 'bytes' in fetched && /^text\/plain\b/i.test(fetched.contentType ?? '')
    const policy = plain ? parsePolicy(fetched.bytes.toString()) : undefined
    if (!policy) {
      if (this.#failedAt.size > MAX_FAILED) this.#failedAt.clear()
      this.#failedAt.set(domain, now)
      const reason = 'refused' in fetched ? `it ${fetched.refused}` : 'it is not a policy'
      log.warn('mta-sts policy not usable', { domain, reason })
      return undefined
    }
    const row = {
      domain,
      id,
      mode: policy.mode,
      mx: JSON.stringify(policy.mx),
      fetched_at: now,
      expires_at: now + policy.maxAge * SECOND,
    }
    await store.write((tx) => tx.run(db.replaceInto('sts_policies').values(row)))
    return row
  }
}
