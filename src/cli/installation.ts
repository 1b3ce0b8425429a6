// The installation on this machine: the configuration file that the service reads, and the owner of the data directory.
// Writes the file, and gives files that root has created to the service's user.
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { codeOf, OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import { readNamed } from '../base/plain-file.ts'
import { KEY_FILE } from '../base/keyring.ts'
import { unusableError, whyUnusable } from '../base/unusable.ts'
import { asCaller, asCallerAt, giveDirectory, SERVICE_USER, serviceUser, type Owner } from '../base/ownership.ts'
import { isAside, isExchange } from '../store/exchange.ts'
import { DATABASE, demandClosed } from '../store/open.ts'
import { ROOM_FILE } from '../store/room.ts'
import { inImage, namedConfig, SYSTEM_CONFIG, VOLUME_CONFIG } from '../base/config-file.ts'
import { type Invocation } from '../commands/open.ts'

const UNITS = ['/usr/lib/systemd/system/postrider.service', '/etc/systemd/system/postrider.service']
/** Names that show that a directory is, or was, a data directory. */
const OURS = [DATABASE, `${DATABASE}-wal`, KEY_FILE, 'erasures.ledger', 'serve.lock', ROOM_FILE, 'spool']

const isRoot = (): boolean => process.getuid?.() === 0

/** What systemctl makes when the service is to start with the machine. */
const ENABLED = '/etc/systemd/system/multi-user.target.wants/postrider.service'

/** How the service takes a new configuration; one that does not start with the machine yet will do so from then on. */
export const startLine = (exists: (file: string) => boolean = existsSync): string =>
  exists(ENABLED) ? 'systemctl restart postrider' : 'systemctl enable --now postrider'

export const hasUnit = (): boolean => UNITS.some((file) => existsSync(file))

/** The file that `init` writes: the named one, else the one that the service reads. Throws an OperatorError. */
export function configPlace(
  { configFile, environment }: Pick<Invocation, 'configFile' | 'environment'>,
  { image = inImage(), root = isRoot(), installed = existsSync(SYSTEM_CONFIG) || hasUnit() } = {},
): string {
  const named = namedConfig({ configFile, environment })
  if (named !== undefined) return resolve(named)
  if (image) return installed ? SYSTEM_CONFIG : VOLUME_CONFIG
  if (root) return SYSTEM_CONFIG
  if (installed)
    throw new OperatorError(
      `Postrider is installed as a service here and reads ${SYSTEM_CONFIG}, which is root's: run "sudo postrider init", or name a file of your own with --config.`,
    )
  return resolve('./postrider.toml')
}

/** The text of a configuration file; undefined when there is none, or when it has only comments, as in the package. */
export function settingsIn(file: string): string | undefined {
  try {
    const text = asCallerAt(file, () => readNamed(file).toString())
    return /^[ \t]*[^\s#]/m.test(text) ? text : undefined
  } catch (thrown) {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(thrown))) return undefined
    throw unusableError(thrown, file) ?? new OperatorError(`${file} cannot be read (${whyUnread(thrown)}).`)
  }
}

/** The part before the first section, and the rest. */
function atTop(text: string): [string, string] {
  const section = /^[ \t]*\[/m.exec(text)?.index ?? text.length
  return [text.slice(0, section), text.slice(section)]
}

/** Pattern for a top-level setting with a text value, quotes included. */
const topLevel = (key: string): RegExp =>
  new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*("(?:[^"\\\\\n]|\\\\.)*"|'[^'\n]*')`, 'm')

/** Whether the text sets this key to a value that is not empty. */
export const sets = (text: string, key: string): boolean => (topLevel(key).exec(atTop(text)[0])?.[1]?.length ?? 0) > 2

/** The text with a top-level setting changed, or added at the top. */
export function withSetting(text: string, key: string, value: string): string {
  const [head, rest] = atTop(text)
  const line = `${key} = ${JSON.stringify(value)}`
  return topLevel(key).test(head) ? head.replace(topLevel(key), () => line) + rest : `${line}\n${text}`
}

/**
 * A new configuration that turns on HTTPS, submission and automatic certificates. Throws when a line that must be
 * changed is missing.
 */
export function withFrontDoor(text: string, { email, hostname }: { email: string; hostname: string }): string {
  const changes: [section: string, key: string, value: string][] = [
    ['http', 'tls_listen', bothFamilies(443)],
    ['http', 'public_url', `"https://${hostname}"`],
    ['submission', 'listen', bothFamilies(587)],
    ['submission', 'tls_listen', bothFamilies(465)],
    ['acme', 'enabled', 'true'],
    ['acme', 'email', JSON.stringify(email)],
    ['acme', 'accept_terms', 'true'],
  ]
  return changes.reduce((changed, [section, key, value]) => {
    const place = new RegExp(`(^\\[${section}\\]$[\\s\\S]*?^${key} = ).*$`, 'm')
    const next = changed.replace(place, (_, before: string) => before + value)
    if (next === changed) throw new Error(`${section}.${key} does not stand in the configuration.`)
    return next
  }, text)
}

/** Returns a function that restores a configuration file to its present state. */
export function keepConfig(file: string, owner: Owner | undefined): () => void {
  const at = <T>(work: () => T): T => asCallerAt(file, work)
  const former = at(() => (existsSync(file) ? readNamed(file).toString() : undefined))
  return () => {
    if (former === undefined) at(() => rmSync(file, { force: true }))
    else if (at(() => readNamed(file).toString()) !== former) writeConfig(file, former, owner)
  }
}

/**
 * Writes a configuration completely or not at all; a replaced file keeps its owner and mode. Throws an OperatorError.
 */
export function writeConfig(file: string, text: string, owner: Owner | undefined): void {
  asCallerAt(file, () => replaceConfig(file, text, owner))
}

function replaceConfig(file: string, text: string, owner: Owner | undefined): void {
  let draft: string | undefined
  try {
    makeOpen(dirname(file))
    // A symbolic link is kept; its target is replaced.
    const place = existsSync(file) ? realpathSync(file) : file
    const old = existsSync(place) ? statSync(place) : undefined
    rmSync(`${place}.new`, { force: true })
    const handle = openSync(`${place}.new`, 'wx', 0o640)
    draft = `${place}.new`
    try {
      writeFileSync(handle, text)
      // It may contain secrets, so only the service may read it.
      fchmodSync(handle, old ? old.mode & 0o777 : 0o640)
      if (process.geteuid?.() === 0)
        fchownSync(handle, old?.uid ?? 0, old && old.gid !== 0 ? old.gid : (owner?.gid ?? 0))
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    renameSync(draft, place)
  } catch (thrown) {
    if (draft !== undefined) rmSync(draft, { force: true })
    throw notWritten(file, thrown)
  }
}

/**
 * Makes a folder that all users may read, and its missing parents, whatever the umask is; returns the folders that it
 * made.
 */
function makeOpen(folder: string): string[] {
  if (existsSync(folder)) return []
  const above = makeOpen(dirname(folder))
  mkdirSync(folder)
  chmodSync(folder, 0o755)
  return [...above, folder]
}

const notWritten = (file: string, thrown: unknown): OperatorError =>
  unusableError(thrown, file) ??
  new OperatorError(`${file} cannot be written (${codeOf(thrown)}); choose another place with --config.`)

/** The service's user, if there is one and this process is root; only root can change owners. */
export const serviceOwner = (passwd?: string): Owner | undefined => (isRoot() ? serviceUser(passwd) : undefined)

const textOf = (file: string): string => {
  try {
    return readNamed(file).toString()
  } catch {
    return ''
  }
}

/** The name of a user, for a message. */
const nameOf = (uid: number): string =>
  new RegExp(`^([^:]+):[^:]*:${uid}:`, 'm').exec(textOf('/etc/passwd'))?.[1] ?? `user ${uid}`

/**
 * Makes the data directory, or refuses an existing one that cannot be used or given to `owner`. Returns a function that
 * removes the files of a failed installation. When it throws an OperatorError, nothing has changed.
 */
export function prepareDataDir(dir: string, owner: Owner | undefined): () => void {
  if (!existsSync(dir)) return makeDataDir(dir)
  const { uid } = statSync(dir)
  if (owner === undefined) {
    try {
      accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK)
    } catch (thrown) {
      const why = whyUnusable(thrown, dir)
      if (why === 'not ours' && !inImage())
        throw new OperatorError(
          `The data directory ${dir} belongs to ${nameOf(uid)}: run "sudo -u ${nameOf(uid)} postrider init", or choose another with --data.`,
        )
      throw unusableError(thrown, dir) ?? thrown
    }
  } else if (uid !== 0 && uid !== owner.uid)
    throw new OperatorError(
      `The data directory ${dir} belongs to ${nameOf(uid)}: "chown -R ${SERVICE_USER}:${SERVICE_USER} ${dir}" gives it to the service, or choose another with --data.`,
    )
  const entries = entriesOf(dir)
  const ours = entries.some((name) => OURS.includes(name))
  if (entries.length > 0 && !ours && !entries.some((name) => isAside(name) || isExchange(name)))
    throw new OperatorError(`${dir} holds files that are not Postrider's; choose an empty directory with --data.`)
  demandClosed(dir)
  // Files of an earlier installation are never touched.
  return () => {
    if (!ours) clear(dir, entries)
  }
}

/** The names of the data in a directory; empty for a file, which is refused later. */
function entriesOf(dir: string): string[] {
  const others = ['lost+found', basename(VOLUME_CONFIG)]
  return statSync(dir).isDirectory() ? readdirSync(dir).filter((name) => !others.includes(name)) : []
}

/** Removes all files from a directory except those named in `but`. */
function clear(dir: string, but: readonly string[]): void {
  for (const name of entriesOf(dir)) if (!but.includes(name)) rmSync(join(dir, name), { recursive: true, force: true })
}

/** Makes the data directory and its missing parents; returns a function that removes them again. */
function makeDataDir(dir: string): () => void {
  let made: string[] = []
  const takeBack = (): void => {
    if (existsSync(dir)) clear(dir, [])
    for (const folder of [dir, ...made.toReversed()])
      if (existsSync(folder) && readdirSync(folder).length === 0) asCaller(() => rmdirSync(folder))
  }
  try {
    // The service must reach the directory: its parents are readable for all, the directory itself only for its owner.
    asCaller(() => {
      made = makeOpen(dirname(dir))
      mkdirSync(dir, { mode: 0o700 })
    })
    return takeBack
  } catch (thrown) {
    throw (
      unusableError(thrown, dir) ??
      new OperatorError(
        `The data directory ${dir} cannot be made (${codeOf(thrown)}); choose another place with --data.`,
      )
    )
  }
}

/**
 * Gives a data directory of root, and files in it that belong to root, to the service's user. Files of other users do
 * not change, nor does a directory that is another's already: who owns it could exchange what is in it meanwhile.
 */
export function giveDataDir(dir: string, owner: Owner): void {
  const place = realpathSync(dir)
  if (lstatSync(place).uid !== 0) return
  giveContent(place, owner)
  // Last: until then nobody else can enter.
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

const bothFamilies = (port: number): string => `["[::]:${port}", "0.0.0.0:${port}"]`
