// Finds the compatibility APIs that applications use: their keys need https, and a request that turns on tracking fails
// on a domain without it.
import { DAY } from '../base/clock.ts'
import { counted } from '../base/text.ts'
import { ok, warn, type AccountFinder, type Finder } from '../parts/findings/finding.ts'
import { raw } from '../store/query.ts'

/** The newest requests that a finder reads. */
const NEWEST = 100_000
/** Until an application that does not repeat a refused request is forgotten. */
const RECENT = DAY

/** Finds out whether an application has used a compatibility API in the time for which requests are kept. */
export const usedFinder = (name: string, paths: readonly string[]): Finder => ({
  find({ config, store }) {
    const isUsed = store?.first(
      raw<{ used: number }>(
        `select 1 as used from (select path from token_requests order by key desc limit ${NEWEST})
         where ${paths.map(() => 'path like ?').join(' or ')} limit 1`,
        paths.map((path) => `${path}/%`),
      ),
    )
    if (!isUsed) return []
    const id = `${name} API`
    return config.http.public_url.startsWith('https:')
      ? [ok(id, `applications use the compatibility API for ${name}, over https`)]
      : [
          warn(
            id,
            `applications use the compatibility API for ${name}, but "http.public_url" is not https, so their keys can be read on the way`,
            'Turn on automatic certificates ("acme.enabled") or use a proxy with TLS, set "http.public_url" to an https URL, and use it in the applications.',
          ),
        ]
  },
})

/** The tokens of an account whose emails were refused because of tracking. */
export const trackingFindings =
  (paths: readonly string[]): AccountFinder =>
  ({ now, store, userKey }) =>
    store
      .all(
        raw<{ id: string; name: string; times: number }>(
          `select t.id, t.name, count(*) as times from tokens t join token_requests r on r.token_key = t.key
           where t.user_key = ? and r.created_at > ? and r.error = 'tracking_disabled'
             and (${paths.map(() => 'r.path like ?').join(' or ')})
           group by t.key`,
          [userKey, now - RECENT, ...paths.map((path) => `${path}/%`)],
        ),
      )
      .map(({ id, name, times }) => ({
        ...warn(
          'tracking',
          `${counted(times, 'request')} of ${name} turned on tracking, which the sending domain does not allow, and sent no email`,
          'Turn on tracking on the page of the sending domain, or turn it off in the application. Ghost has the switch in the settings of its email newsletters.',
        ),
        subject: name,
        href: `/tokens/${id}`,
      }))
