// The other installations on this machine: the one without a name, and the instances. Each needs its own IP address,
// because receiving servers connect to port 25 only.
import { resolve } from 'node:path'
import { instanceConfig, instanceOf, instances, SYSTEM_CONFIG } from '../base/config-file.ts'
import { configFrom, type Config } from '../base/config.ts'
import { formatEndpoint } from '../base/network.ts'
import { listenersOf, sharedListener } from '../server/settings.ts'
import { settingsIn } from './installation.ts'

export interface Neighbour {
  file: string
  config: Config
}

/**
 * Returns those whose configuration is valid and readable for this process. A configuration at another path, such as
 * one for a trial, has no neighbours.
 */
export function neighbours(
  own: string | undefined,
  files: readonly string[] = [SYSTEM_CONFIG, ...instances().map((name) => instanceConfig(name))],
): Neighbour[] {
  const path = resolve(own ?? '')
  if (path !== SYSTEM_CONFIG && instanceOf(path) === undefined) return []
  return files
    .filter((file) => file !== path)
    .flatMap((file) => {
      try {
        const settings = settingsIn(file)
        // The package installs a file without settings.
        return settings === undefined ? [] : [{ file, config: configFrom(settings, file, {}) }]
      } catch {
        return []
      }
    })
}

/** Returns a sentence for each neighbour that listens on an address and port of this configuration, with the fix. */
export const collisions = (config: Config, others: readonly Neighbour[]): string[] =>
  others.flatMap(({ config: other, file }) => {
    if (config.data_dir === other.data_dir)
      return [
        `"data_dir" (${config.data_dir}) is also that of ${file}; set a directory of its own for each installation.`,
      ]
    const [one, same] = sharedListener(config, other) ?? []
    return one && same
      ? `"${one.key}" (${formatEndpoint(one.host, one.port)}) overlaps with "${same.key}" (${formatEndpoint(same.host, same.port)}) of ${file}; set the listeners of each installation to its own IP address.`
      : []
  })

/** Returns the first port from 8025 on that no neighbour listens on, for plain HTTP on loopback. */
export function httpPort(others: readonly Neighbour[]): number {
  const used = new Set(others.flatMap(({ config }) => listenersOf(config).map(({ port }) => port)))
  let port = 8025
  while (used.has(port)) port++
  return port
}
