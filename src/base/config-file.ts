// Finds the configuration file, and reads from it where the server is. It does this without the rest of the
// configuration, which takes long to load, and without rejecting errors: `postrider health` runs ten times per minute.
import { existsSync, readdirSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { parse } from 'smol-toml'
import { builtFrom } from './installed.ts'
import { variable } from './config-environment.ts'
import { OperatorError } from './errors.ts'
import { isObject } from './json.ts'
import { userOf } from './named-instance.ts'
import { readNamed } from './plain-file.ts'

export const SYSTEM_CONFIG = '/etc/postrider/postrider.toml'
/** The configuration file in the image. It is in the volume, next to the data, because the rest is read-only. */
export const VOLUME_CONFIG = '/var/lib/postrider/postrider.toml'
/** Used only without a system-wide file: on a machine with the service, a command is for that service. */
export const HERE = './postrider.toml'

/** At most 20 characters: with "postrider-" in front it is the name of a user, which has at most 31 (useradd(8)). */
const INSTANCE = /^[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?$/
/** Its file is SYSTEM_CONFIG. */
const UNNAMED = 'postrider'

/** Returns the configuration file of `--instance NAME`. Throws an OperatorError for an invalid name. */
export function instanceConfig(name: string, image = inImage()): string {
  if (image) throw new OperatorError('--instance has no effect in the image; run one container for each instance.')
  if (name === UNNAMED)
    throw new OperatorError(`"${UNNAMED}" is the installation without a name; remove --instance to use it.`)
  if (!INSTANCE.test(name))
    throw new OperatorError(
      `--instance "${name}" is not a valid name; use 1 to 20 lower-case letters, digits and inner hyphens, such as "shop".`,
    )
  return join(dirname(SYSTEM_CONFIG), `${name}.toml`)
}

/** Returns the instance that a configuration file belongs to, or undefined for any file but those of `--instance`. */
export function instanceOf(file: string | undefined): string | undefined {
  const [, name = UNNAMED] = /^\/etc\/postrider\/([^/]+)\.toml$/.exec(resolve(file ?? '')) ?? []
  return name !== UNNAMED && INSTANCE.test(name) ? name : undefined
}

/** Returns the names of the instances that have a configuration, in alphabetical order. */
export function instances(folder = dirname(SYSTEM_CONFIG)): string[] {
  try {
    return readdirSync(folder)
      .flatMap((file) => instanceOf(join(dirname(SYSTEM_CONFIG), file)) ?? [])
      .sort()
  } catch {
    return []
  }
}

/** The data directory of an instance whose file does not set one, or undefined for the default of the setting. */
export function instanceDataDir(file: string | undefined): string | undefined {
  const name = instanceOf(file)
  return name && `/var/lib/${userOf(name)}`
}

export interface NamedConfig {
  /** The value of --config. */
  configFile: string | undefined
  environment: Record<string, string | undefined>
}

/** The configuration file from an option or a variable. An empty variable counts as unset. */
export const namedConfig = ({ configFile, environment }: NamedConfig): string | undefined =>
  configFile ?? (environment['POSTRIDER_CONFIG'] || undefined)

/** Whether Postrider runs from the container image. */
export const inImage = (): boolean => builtFrom() === 'image'

/**
 * Returns the configuration file in use, or undefined for the defaults. The order is --config, $POSTRIDER_CONFIG, the
 * system's file, then ./postrider.toml, or in the image that of the volume.
 */
export function findConfig(
  named: NamedConfig,
  { image = inImage(), exists = existsSync }: { image?: boolean; exists?: (file: string) => boolean } = {},
): string | undefined {
  const places = [SYSTEM_CONFIG, image ? VOLUME_CONFIG : HERE]
  return namedConfig(named) ?? places.find((file) => exists(file))
}

/**
 * The data directory of a configuration. A relative path starts at the directory of the configuration file, independent
 * of the working directory. Undefined for a relative path without a file.
 */
export const dataDirBeside = (file: string | undefined, dataDir: string): string | undefined =>
  isAbsolute(dataDir) ? dataDir : file === undefined ? undefined : resolve(dirname(resolve(file)), dataDir)

/**
 * The data directory and address from the environment or the file. Empty if both lack them or the file cannot be read.
 */
export function placeOfServer(named: NamedConfig): { data_dir?: string; listen?: string } {
  const { environment } = named
  const file = findConfig(named)
  const { data_dir, http } = treeOf(file)
  const listen = fromEnvironment(environment, 'POSTRIDER_HTTP_LISTEN') ?? (isObject(http) ? http['listen'] : undefined)
  const given = fromEnvironment(environment, 'POSTRIDER_DATA_DIR') ?? data_dir ?? instanceDataDir(file)
  const dataDir = typeof given === 'string' ? dataDirBeside(file, given) : undefined
  return {
    ...(dataDir !== undefined && { data_dir: dataDir }),
    ...(typeof listen === 'string' && { listen }),
  }
}

function fromEnvironment(environment: NamedConfig['environment'], name: string): string | undefined {
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
