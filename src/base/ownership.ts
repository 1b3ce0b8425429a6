// Which user a command runs as. A command of root becomes the owner of the data directory before it opens a file there
// (D119), because the owner can put links there that root would follow. A file elsewhere must be accessible to the
// owner, or is given by standard input and output.
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  statSync,
} from 'node:fs'
import { dirname, resolve, sep } from 'node:path'
import { makeDirectory } from './durable.ts'
import { codeOf, messageOf, OperatorError } from './errors.ts'
import { isInstance, userOf } from './named-instance.ts'

export interface Owner {
  uid: number
  gid: number
}

export const isRoot = (): boolean => process.geteuid?.() === 0

/** Reads the users of this machine: name, password, uid, gid and more of each (passwd(5)). */
function usersIn(file: string): string[][] {
  const passwd = statSync(file, { throwIfNoEntry: false }) ? readFileSync(file, 'utf8') : ''
  return passwd.split('\n').map((line) => line.split(':'))
}

/** Returns the ids of the user that the systemd unit names, or undefined if this machine has no such user. */
export function serviceUser(users = '/etc/passwd'): Owner | undefined {
  const [, , uid, gid] = usersIn(users).find(([name]) => name === userOf()) ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}

/** Returns the name of a user, or undefined. */
export const userName = (uid: number, users = '/etc/passwd'): string | undefined =>
  usersIn(users).find(([, , other]) => other === String(uid))?.[0]

/** Names the user of this process: "user postrider (10025)", or "user 10025" without a name. */
export function thisUser(users?: string): string {
  const uid = process.geteuid?.()
  if (uid === undefined) return 'this user'
  const name = userName(uid, users)
  return name === undefined ? `user ${uid}` : `user ${name} (${uid})`
}

/**
 * Permanently gives a process of root the user and the groups of the data directory. Has no effect for other users, for
 * a directory of root, and for one that does not exist. Throws an OperatorError if root cannot change its user.
 */
export function becomeOwner(dataDir: string): void {
  const owner = ownerToBecome(dataDir)
  if (owner === undefined) return
  switching(dataDir, owner, () => {
    process.setgid!(owner.gid)
    process.setuid!(owner.uid)
  })
}

/**
 * As `becomeOwner`, only while `work` runs: for a command that also changes files of root. The work must start no
 * process and load no library that the owner could exchange, because these could become root again.
 */
export async function asOwner<T>(dataDir: string, work: () => Promise<T>): Promise<T> {
  const owner = ownerToBecome(dataDir)
  if (owner === undefined) return work()
  const [gid, groups] = [process.getegid!(), process.getgroups!()]
  switching(dataDir, owner, () => {
    process.setegid!(owner.gid)
    process.seteuid!(owner.uid)
  })
  try {
    return await work()
  } finally {
    process.seteuid!(0)
    process.setegid!(gid)
    process.setgroups!(groups)
  }
}

/** Returns the user that a process of root must become, or undefined. */
function ownerToBecome(dataDir: string): Owner | undefined {
  const owner = isRoot() ? statSync(dataDir, { throwIfNoEntry: false }) : undefined
  if (owner?.uid !== 0) return owner
  refuseForeignLinks(dataDir)
  return undefined
}

function switching(dataDir: string, owner: Owner, become: () => void): void {
  try {
    setGroups(owner)
    become()
  } catch (thrown) {
    throw new OperatorError(
      `${dataDir} belongs to user ${owner.uid}, but this root user cannot switch to it; run the command as the owner of the directory.`,
      { cause: thrown },
    )
  }
}

/** Sets the groups that systemd gives to the service. */
function setGroups({ gid, uid }: Owner): void {
  try {
    // The types of Node lack this function.
    ;(process as unknown as { initgroups(user: number, group: number): void }).initgroups(uid, gid)
  } catch {
    // A user without an entry has no other groups.
    process.setgroups!([gid])
  }
}

/** Rejects a data directory of root whose path has a link of another user, who could lead root anywhere. */
function refuseForeignLinks(dataDir: string): void {
  const foreign = foreignLink(resolve(dataDir))
  if (foreign !== undefined)
    throw new OperatorError(
      `The path of the data directory ${dataDir} has a symbolic link of user ${foreign}, which root does not follow; set "data_dir" to the target of the link.`,
    )
}

/** Returns the user of the first link on the path that is not root's, also within the targets of root's links. */
function foreignLink(path: string): number | undefined {
  const names = path.split(sep)
  for (let length = 2; length <= names.length; length++) {
    const part = names.slice(0, length).join(sep)
    const found = lstatSync(part)
    if (!found.isSymbolicLink()) continue
    if (found.uid !== 0) return found.uid
    const within = foreignLink(resolve(dirname(part), readlinkSync(part)))
    if (within !== undefined) return within
  }
  return undefined
}

/**
 * Root uses no configuration from its working directory that another user has put there, unless the data belongs to
 * that user too. Throws an OperatorError.
 */
export function refuseAnothers(file: string, dataDir: string): void {
  const uid = isRoot() ? (statSync(file, { throwIfNoEntry: false })?.uid ?? 0) : 0
  if (uid === 0 || statSync(dataDir, { throwIfNoEntry: false })?.uid === uid) return
  throw new OperatorError(
    `${file} belongs to user ${uid}, so root does not use it automatically; add --config ${file} to use it.`,
  )
}

/**
 * As root, creates the user of an instance, as sysusers.d(5) does for the installation without a name. A user for each
 * instance keeps the data of one from the processes of another. Throws an OperatorError.
 */
export function makeInstanceUser(): void {
  if (!isRoot() || !isInstance() || serviceUser()) return
  const name = userOf()
  try {
    const line = `u ${name} - "Postrider instance" /var/lib/${name}`
    execFileSync('systemd-sysusers', ['--inline', line], { stdio: 'pipe' })
  } catch (thrown) {
    throw new OperatorError(
      `The user ${name} cannot be created by systemd-sysusers (${codeOf(thrown) || messageOf(thrown).trim()}); create it with "useradd --system ${name}".`,
    )
  }
}

/** As root, creates a missing data directory for the service's user, if there is one. */
export function makeForService(dataDir: string): void {
  makeInstanceUser()
  const service = isRoot() ? serviceUser() : undefined
  if (!service || lstatSync(dataDir, { throwIfNoEntry: false })) return
  makeDirectory(dataDir)
  giveDirectory(dataDir, service)
}

/** Gives a directory of root to a user. A link or file that another user put in its place is never changed. */
export function giveDirectory(dir: string, { gid, uid }: Owner): void {
  const handle = openSync(dir, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    if (fstatSync(handle).uid === 0) fchownSync(handle, uid, gid)
  } finally {
    closeSync(handle)
  }
}
