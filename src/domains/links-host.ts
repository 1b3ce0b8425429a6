// Whether the host of branded links is usable: links in email lead there only while this installation answers there
// with a certificate that browsers accept (D215). The request takes the route of a recipient's browser, so that a proxy
// in front of this server counts as well.
import type { TLSSocket } from 'node:tls'
import { DAY, SECOND } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import { isLocal } from '../base/local-trouble.ts'
import { trackedUrl } from '../message/tracking.ts'
import { fetchingOf, guardedBy } from '../net/fetch.ts'
import { ForbiddenAddress } from '../net/guard.ts'
import { ask, within, wordsFor, type HttpsFault } from '../net/https.ts'
import type { Resolver } from '../net/resolver.ts'

export interface LinksHostDeps {
  config: Config
  keyring: Keyring
  resolver: Resolver
  /** Port of the HTTPS servers in DNS. 443 except in tests. */
  httpsPort?: number | undefined
}

/**
 * `until`: the time in epoch ms until which tracked links use the host. `fault`: the reason against it, as the end of a
 * sentence.
 */
export type LinksHost = { until: number } | { fault: string }

const TIMEOUT = 10 * SECOND
/** Recipients open links for a while, so a certificate that expires within this time is not used for new links. */
const MARGIN = DAY
/** No delivery has this key, so that the click is not recorded. */
const NO_DELIVERY = 0

/** Follows a tracked link over `host` as a browser does. Returns undefined if the check failed locally. */
export async function lookAtLinksHost(deps: LinksHostDeps, host: string): Promise<LinksHost | undefined> {
  const { config, httpsPort = 443, keyring } = deps
  const target = config.http.public_url
  const key = keyring.derive('tracking').toString('base64')
  const base = `https://${host}${httpsPort === 443 ? '' : `:${httpsPort}`}`
  let certificateEnd = Number.NaN
  const { fault, headers, status } = await within(TIMEOUT, (signal) =>
    ask(new URL(trackedUrl({ base, key }, NO_DELIVERY, target)), {
      ...guardedBy(fetchingOf(deps)),
      signal,
      headers: { 'user-agent': 'Postrider' },
      most: 0,
      wanted: (_, { socket }) => {
        certificateEnd = Date.parse((socket as TLSSocket).getPeerCertificate().valid_to)
        return false
      },
    }),
  )
  if (fault) return isLocal(fault.error) ? undefined : { fault: faultWords(fault) }
  // Only this installation can open the token.
  if (status !== 302 || headers.location !== target) return { fault: `another server answers there (status ${status})` }
  return { until: certificateEnd - MARGIN }
}

const faultWords = (fault: HttpsFault): string =>
  fault.error instanceof ForbiddenAddress ? `the name ${fault.error.message}` : wordsFor(fault)
