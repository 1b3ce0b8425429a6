// The settings of two machines that share one data directory (docs/high-availability.md): those that must be the same
// on both, and a list of all differences.
import { createHash } from 'node:crypto'
import type { Config } from './config.ts'
import { isObject } from './json.ts'

/** The settings that senders, clients and links depend on. Few names, because serving.json fits into one sector. */
const SHARED: Record<string, readonly string[]> = {
  hostname: ['hostname'],
  'http.public_url': ['http.public_url'],
  listen: ['http.listen', 'http.tls_listen', 'smtp.listen', 'submission.listen', 'submission.tls_listen'],
  'delivery.routes': ['delivery.routes'],
}
const SHARED_PATHS = new Set(Object.values(SHARED).flat())

/** A short digest of the settings that must be the same on both machines, by name. */
export function digestsOf(config: Config): Record<string, string> {
  const values = flat(config)
  const digest = (paths: readonly string[]): string =>
    createHash('sha256')
      .update(JSON.stringify(paths.map((path) => values.get(path))))
      .digest('hex')
      .slice(0, 8)
  return Object.fromEntries(Object.entries(SHARED).map(([name, paths]) => [name, digest(paths)]))
}

/** The names whose digests differ. A name of another version is ignored. */
export function differentFrom(digests: Record<string, string>, config: Config): string[] {
  const own = digestsOf(config)
  return Object.keys(own).filter((name) => (digests[name] ?? own[name]) !== own[name])
}

export interface Difference {
  /** The name with its section, such as "delivery.source". */
  setting: string
  here: unknown
  there: unknown
  /** Whether both machines need the same value. */
  must_match: boolean
}

/** Every setting that differs between two configurations, with defaults filled in. */
export function differences(here: Config, there: Config): Difference[] {
  const [ours, theirs] = [flat(here), flat(there)]
  return [...new Set([...ours.keys(), ...theirs.keys()])].flatMap((setting) => {
    const pair = { here: ours.get(setting) ?? null, there: theirs.get(setting) ?? null }
    const same = JSON.stringify(pair.here) === JSON.stringify(pair.there)
    return same ? [] : [{ setting, ...pair, must_match: SHARED_PATHS.has(setting) }]
  })
}

const isEndpoint = (value: object): boolean => 'host' in value && 'port' in value

/** The values by their names with sections. An endpoint is one value. */
function flat(tree: object, section = ''): Map<string, unknown> {
  return new Map(
    Object.entries(tree).flatMap(([key, value]): [string, unknown][] =>
      isObject(value) && !isEndpoint(value) ? [...flat(value, `${section}${key}.`)] : [[`${section}${key}`, value]],
    ),
  )
}
