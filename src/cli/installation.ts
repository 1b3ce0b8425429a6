// The installation on this machine: the configuration file that the service reads, and the owner of the data directory.
// Writes the file, and gives files that root has created to the service's user.
import {
  accessSync,
  constants,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { makeOpen, withEntry } from '../base/config-edit.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import { isObject } from '../base/json.ts'
import { formatEndpoint } from '../base/network.ts'
import { readNamed } from '../base/plain-file.ts'
import { KEY_FILE } from '../base/keyring.ts'
import { isInstance, unitName, userOf } from '../base/named-instance.ts'
import { parseToml } from '../base/toml.ts'
import { unusableError, whyUnusable } from '../base/unusable.ts'
import { giveDirectory, isRoot, serviceUser, userName, type Owner } from '../base/ownership.ts'
import { isAside, isExchange } from '../store/exchange.ts'
import { DATABASE, demandClosed } from '../store/open.ts'
import { RESERVE_FILE } from '../store/reserve.ts'
import { inImage, instanceOf, namedConfig, SYSTEM_CONFIG, VOLUME_CONFIG } from '../base/config-file.ts'
import { type Invocation } from '../views/command/open.ts'

/** File names that identify a present or former data directory. */
const OURS = [DATABASE, `${DATABASE}-wal`, KEY_FILE, 'erasures.ledger', 'serve.lock', RESERVE_FILE, 'spool']

/** The command that applies a new configuration. It also enables the service if it does not start at boot yet. */
export function startLine(exists: (file: string) => boolean = existsSync): string {
  const unit = unitName()
  // The link that systemctl creates to start the service at boot.
  const isEnabled = exists(`/etc/systemd/system/multi-user.target.wants/${unit}.service`)
  return `systemctl ${isEnabled ? 'restart' : 'enable --now'} ${unit}`
}

/** Whether systemd has the unit of this installation. */
export const hasUnit = (): boolean =>
  ['/usr/lib/systemd/system', '/etc/systemd/system'].some((folder) =>
    existsSync(`${folder}/postrider${isInstance() ? '@' : ''}.service`),
  )

/** The file that `init` writes: the named one, or the one that the service reads. Throws an OperatorError. */
export function configPlace(
  { configFile, environment }: Pick<Invocation, 'configFile' | 'environment'>,
  { image = inImage(), root = isRoot(), installed = existsSync(SYSTEM_CONFIG) || hasUnit() } = {},
): string {
  const named = namedConfig({ configFile, environment })
  if (instanceOf(named) !== undefined && !root)
    throw new OperatorError(`Instances belong to root; run "sudo postrider init".`)
  if (named !== undefined) return resolve(named)
  if (image) return installed ? SYSTEM_CONFIG : VOLUME_CONFIG
  if (root) return SYSTEM_CONFIG
  if (installed)
    throw new OperatorError(
      `Postrider is installed as a service that reads ${SYSTEM_CONFIG}, which belongs to root; run "sudo postrider init", or choose another file with --config.`,
    )
  return resolve('./postrider.toml')
}

/** Returns the text of a configuration file, or undefined if it is missing or has only comments, as in the package. */
export function settingsIn(file: string): string | undefined {
  try {
    const text = readNamed(file).toString()
    return /^[ \t]*[^\s#]/m.test(text) ? text : undefined
  } catch (thrown) {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(thrown))) return undefined
    throw (
      unusableError(thrown, file) ??
      new OperatorError(`${file} cannot be read (${whyUnread(thrown)}); check its permissions.`)
    )
  }
}

const listed = (texts: readonly string[]): string => `[${texts.map((each) => JSON.stringify(each)).join(', ')}]`

const listenOn = (hosts: readonly string[], port: number): string =>
  listed(hosts.map((host) => formatEndpoint(host, port)))

/** Returns the configuration with these IP addresses for receiving, certificates and sending, instead of all. */
export const withAddresses = (text: string, addresses: readonly string[], httpPort: number): string =>
  [
    ['http', `listen = "127.0.0.1:${httpPort}"`],
    ['smtp', `listen = ${listenOn(addresses, 25)}`],
    ['acme', `listen = ${listenOn(addresses, 80)}`],
    ['delivery', `source = ${listed(addresses)}`],
  ].reduce((changed, [section = '', line = '']) => withEntry(changed, section, line), text)

/**
 * Returns the configuration with HTTPS, submission and automatic certificates enabled. Settings that differ from their
 * default stay. `addresses`: to listen on, all if empty. Throws an OperatorError for invalid TOML.
 */
export function withFrontDoor(
  text: string,
  { email, hostname }: { email: string; hostname: string },
  addresses: readonly string[],
): string {
  const hosts = addresses.length > 0 ? addresses : ['::', '0.0.0.0']
  const changes: [section: string, key: string, value: string][] = [
    ['http', 'tls_listen', listenOn(hosts, 443)],
    ['http', 'public_url', `"https://${hostname}"`],
    ['submission', 'listen', listenOn(hosts, 587)],
    ['submission', 'tls_listen', listenOn(hosts, 465)],
    ['acme', 'enabled', 'true'],
    ['acme', 'email', JSON.stringify(email)],
    ['acme', 'accept_terms', 'true'],
  ]
  const tree = parseToml(text, 'the configuration')
  const isSet = (section: string, key: string): boolean => {
    const of = tree[section]
    const value = isObject(of) ? of[key] : undefined
    return Array.isArray(value) ? value.length > 0 : Boolean(value)
  }
  return changes
    .filter(([section, key]) => !isSet(section, key))
    .reduce((changed, [section, key, value]) => withEntry(changed, section, `${key} = ${value}`), text)
}

/** The service's user, if it exists and this process is root. Only root can change owners. */
export const serviceOwner = (passwd?: string): Owner | undefined => (isRoot() ? serviceUser(passwd) : undefined)

/** The name of a user, for a message. */
const nameOf = (uid: number): string => userName(uid) ?? `user ${uid}`

/** Creates the data directory. Throws an OperatorError for an existing one that cannot be used or given to `owner`. */
export function prepareDataDir(dir: string, owner: Owner | undefined): void {
  if (!existsSync(dir)) return makeDataDir(dir)
  const { uid } = statSync(dir)
  if (owner === undefined) {
    try {
      accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK)
    } catch (thrown) {
      const why = whyUnusable(thrown, dir)
      if (why === 'not ours' && !inImage())
        throw new OperatorError(
          `The data directory ${dir} belongs to ${nameOf(uid)}; run "sudo -u ${nameOf(uid)} postrider init", or choose another directory with --data.`,
        )
      throw unusableError(thrown, dir) ?? thrown
    }
  } else if (uid !== 0 && uid !== owner.uid)
    throw new OperatorError(
      `The data directory ${dir} belongs to ${nameOf(uid)}; run "chown -R ${userOf()}:${userOf()} ${dir}" to give it to the service, or choose another directory with --data.`,
    )
  const entries = entriesOf(dir)
  const isOurs = (name: string): boolean => OURS.includes(name) || isAside(name) || isExchange(name)
  if (entries.length > 0 && !entries.some(isOurs))
    throw new OperatorError(
      `${dir} contains files that do not belong to Postrider; choose an empty directory with --data.`,
    )
  demandClosed(dir)
}

/** Returns the names of the data in a directory. Empty for a file, which is rejected later. */
function entriesOf(dir: string): string[] {
  const others = ['lost+found', basename(VOLUME_CONFIG)]
  return statSync(dir).isDirectory() ? readdirSync(dir).filter((name) => !others.includes(name)) : []
}

/** Creates the data directory, which is closed to others, below parents that the service can pass. */
function makeDataDir(dir: string): void {
  try {
    makeOpen(dirname(dir))
    mkdirSync(dir, { mode: 0o700 })
  } catch (thrown) {
    throw (
      unusableError(thrown, dir) ??
      new OperatorError(
        `The data directory ${dir} cannot be created (${codeOf(thrown)}); choose another path with --data.`,
      )
    )
  }
}

/**
 * Gives a data directory of root, and files in it that belong to root, to the service's user. Files of other users do
 * not change, nor does a directory of another user, because its owner could exchange the files in the meantime.
 */
export function giveDataDir(dir: string, owner: Owner): void {
  const place = realpathSync(dir)
  if (lstatSync(place).uid !== 0) return
  giveContent(place, owner)
  // Last: until then, no other user can enter.
  giveDirectory(place, owner)
}

function giveContent(dir: string, owner: Owner): void {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name)
    const found = lstatSync(path)
    if (found.isDirectory()) giveContent(path, owner)
    // A file with several hard links may also be outside the directory.
    if (found.uid === 0 && (found.isDirectory() || found.nlink === 1)) lchownSync(path, owner.uid, owner.gid)
  }
}
