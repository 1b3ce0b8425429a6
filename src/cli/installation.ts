// The installation on this machine: the configuration file that the service reads, and the owner of the data directory.
// Writes the file, and gives files that root has created to the service's user.
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { codeOf, OperatorError } from '../base/errors.ts'
import { KEY_FILE } from '../base/keyring.ts'
import { DATABASE } from '../store/open.ts'
import { SYSTEM_CONFIG, type Invocation } from './open.ts'
import { SERVICE_USER, serviceUser } from './ownership.ts'

const UNITS = ['/usr/lib/systemd/system/postrider.service', '/etc/systemd/system/postrider.service']
/** Files that show a present or former data directory. */
const OURS = [DATABASE, KEY_FILE, 'serve.lock', 'spool']

export interface Owner {
  uid: number
  gid: number
}

const isRoot = (): boolean => process.geteuid?.() === 0

export const hasUnit = (): boolean => UNITS.some((file) => existsSync(file))

/** The file that `init` writes: as named, else the one that the service reads. Throws an OperatorError. */
export function configPlace(
  { configFile, environment }: Pick<Invocation, 'configFile' | 'environment'>,
  { root = isRoot(), installed = existsSync(SYSTEM_CONFIG) || hasUnit() } = {},
): string {
  const named = configFile ?? environment['POSTRIDER_CONFIG']
  if (named !== undefined) return resolve(named)
  if (root) return SYSTEM_CONFIG
  if (installed)
    throw new OperatorError(
      `Postrider is installed as a service here and reads ${SYSTEM_CONFIG}, which is root's: run "sudo postrider init", or name a file of your own with --config.`,
    )
  return resolve('./postrider.toml')
}

/** The text of a configuration file; undefined when there is none, or only comments, as in the package. */
export function settingsIn(file: string): string | undefined {
  try {
    const text = readFileSync(file, 'utf8')
    return /^[ \t]*[^\s#]/m.test(text) ? text : undefined
  } catch (thrown) {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(thrown))) return undefined
    throw new OperatorError(`${file} cannot be read (${codeOf(thrown)}); run "sudo postrider init".`)
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

/** Whether the text sets it to a value that is not empty. */
export const sets = (text: string, key: string): boolean => (topLevel(key).exec(atTop(text)[0])?.[1]?.length ?? 0) > 2

/** The text with a top-level setting changed, or added at the top. */
export function withSetting(text: string, key: string, value: string): string {
  const [head, rest] = atTop(text)
  const line = `${key} = ${JSON.stringify(value)}`
  return topLevel(key).test(head) ? head.replace(topLevel(key), () => line) + rest : `${line}\n${text}`
}

/** Writes the whole configuration or nothing; a replaced file keeps its owner and mode. Throws an OperatorError. */
export function writeConfig(file: string, text: string, owner: Owner | undefined): void {
  let draft: string | undefined
  try {
    makeOpen(dirname(file))
    // A symbolic link stays one.
    const place = existsSync(file) ? realpathSync(file) : file
    const old = existsSync(place) ? statSync(place) : undefined
    draft = `${place}.new`
    const handle = openSync(draft, 'w', 0o640)
    try {
      writeFileSync(handle, text)
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    // It may hold secrets: only the service may read it.
    chmodSync(draft, old ? old.mode & 0o777 : 0o640)
    if (isRoot()) chownSync(draft, old?.uid ?? 0, old && old.gid !== 0 ? old.gid : (owner?.gid ?? 0))
    renameSync(draft, place)
  } catch (thrown) {
    if (draft !== undefined) rmSync(draft, { force: true })
    throw notWritten(file, thrown)
  }
}

/** Creates a folder that everybody may list, and its parents, whatever the umask. */
function makeOpen(folder: string): void {
  if (existsSync(folder)) return
  makeOpen(dirname(folder))
  mkdirSync(folder)
  chmodSync(folder, 0o755)
}

const notWritten = (file: string, thrown: unknown): OperatorError => {
  switch (codeOf(thrown)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new OperatorError(
        `${file} cannot be written, its disk is full; "df -h" shows the disks, make room and run it again.`,
      )
    case 'EACCES':
    case 'EPERM':
      return new OperatorError(
        `${file} cannot be written without root; run "sudo postrider init", or choose another place with --config.`,
      )
    default:
      return new OperatorError(`${file} cannot be written (${codeOf(thrown)}); choose another place with --config.`)
  }
}

/** The service's user, if there is one and we are root; only root can change owners. */
export const serviceOwner = (passwd?: string): Owner | undefined => (isRoot() ? serviceUser(passwd) : undefined)

const textOf = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** The name of a user, for a sentence. */
const nameOf = (uid: number): string =>
  new RegExp(`^([^:]+):[^:]*:${uid}:`, 'm').exec(textOf('/etc/passwd'))?.[1] ?? `user ${uid}`

/** Creates the data directory, or refuses one that cannot be used or given to `owner`. Throws an OperatorError. */
export function prepareDataDir(dir: string, owner: Owner | undefined): void {
  if (!existsSync(dir)) return makeDataDir(dir)
  const { uid } = statSync(dir)
  if (owner === undefined) {
    try {
      accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK)
    } catch {
      throw new OperatorError(
        `The data directory ${dir} belongs to ${nameOf(uid)}: run "sudo -u ${nameOf(uid)} postrider init", or choose another with --data.`,
      )
    }
    return
  }
  if (uid !== 0 && uid !== owner.uid)
    throw new OperatorError(
      `The data directory ${dir} belongs to ${nameOf(uid)}: "chown -R ${SERVICE_USER}:${SERVICE_USER} ${dir}" gives it to the service, or choose another with --data.`,
    )
  const entries = readdirSync(dir).filter((name) => name !== 'lost+found')
  if (entries.length > 0 && !entries.some((name) => OURS.includes(name)))
    throw new OperatorError(`${dir} holds files that are not Postrider's; choose an empty directory with --data.`)
}

function makeDataDir(dir: string): void {
  try {
    // The service must reach it: its parents are open, only the directory itself is closed.
    makeOpen(dirname(dir))
    mkdirSync(dir, { mode: 0o700 })
  } catch (thrown) {
    throw new OperatorError(
      ['EACCES', 'EPERM'].includes(codeOf(thrown))
        ? `The data directory ${dir} cannot be made without root; run "sudo postrider init", or choose another place with --data.`
        : `The data directory ${dir} cannot be made (${codeOf(thrown)}); choose another place with --data.`,
    )
  }
}

/** Gives a data directory and root's files in it to the service's user. Files of other users stay theirs. */
export function giveDataDir(dir: string, { uid, gid }: Owner): void {
  const give = (path: string): void => {
    const found = lstatSync(path)
    // A hard link may be a file outside the directory.
    if (found.uid === 0 && (found.isDirectory() || found.nlink === 1)) lchownSync(path, uid, gid)
    if (found.isDirectory()) for (const name of readdirSync(path)) give(join(path, name))
  }
  give(realpathSync(dir))
}
