// Which file holds the configuration, and what it says of where the server is. It is read without the rest of the
// configuration, which takes long to load, and without refusing anything: `postrider health` asks ten times a minute.
import { existsSync } from 'node:fs'
import { parse } from 'smol-toml'
import { builtFrom } from './installed.ts'
import { variable } from './config-environment.ts'
import { isObject } from './json.ts'
import { readNamed } from './plain-file.ts'

export const SYSTEM_CONFIG = '/etc/postrider/postrider.toml'
/** In the image, where nothing else can be written, the configuration lies in the volume, beside the data. */
export const VOLUME_CONFIG = '/var/lib/postrider/postrider.toml'
/** Used only without a system-wide file: on a machine with the service, a command is for that service. */
export const HERE = './postrider.toml'

export interface NamedConfig {
  /** The value of --config. */
  configFile: string | undefined
  environment: Record<string, string | undefined>
}

/** The configuration file that an option or a variable names; an empty variable names none. */
export const namedConfig = ({ configFile, environment }: NamedConfig): string | undefined =>
  configFile ?? (environment['POSTRIDER_CONFIG'] || undefined)

/** Whether this program runs from the image. */
export const inImage = (): boolean => builtFrom() === 'image'

/**
 * The configuration file in use: --config, $POSTRIDER_CONFIG, the system's, and then ./postrider.toml, in the image
 * that of the volume; undefined = defaults.
 */
export function findConfig(
  named: NamedConfig,
  { image = inImage(), exists = existsSync }: { image?: boolean; exists?: (file: string) => boolean } = {},
): string | undefined {
  const places = [SYSTEM_CONFIG, image ? VOLUME_CONFIG : HERE]
  return namedConfig(named) ?? places.find((file) => exists(file))
}

/** Where the server is, as the environment or the file says; nothing where neither does or the file cannot be read. */
export function placeOfServer(named: NamedConfig): { data_dir?: string; listen?: string } {
  const { environment } = named
  const { data_dir, http } = treeOf(findConfig(named))
  const listen = said(environment, 'POSTRIDER_HTTP_LISTEN') ?? (isObject(http) ? http['listen'] : undefined)
  const dataDir = said(environment, 'POSTRIDER_DATA_DIR') ?? data_dir
  return {
    ...(typeof dataDir === 'string' && { data_dir: dataDir }),
    ...(typeof listen === 'string' && { listen }),
  }
}

function said(environment: NamedConfig['environment'], name: string): string | undefined {
  try {
    return variable(environment, name)
  } catch {
    return undefined
  }
}

function treeOf(file: string | undefined): Record<string, unknown> {
  try {
    return file === undefined ? {} : parse(readNamed(file).toString())
  } catch {
    return {}
  }
}
