// Who a command is. A command of root works as the owner of the data directory (D119): the owner could put links
// there, and root would follow them. What the command line names outside is opened as the caller, where no directory on
// the way belongs to the owner.
import { spawn, type SpawnOptions } from 'node:child_process'
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
import { dirname, join, resolve } from 'node:path'
import { makeDirectory } from './durable.ts'
import { OperatorError } from './errors.ts'

/** The user that the package creates and the systemd unit names. */
export const SERVICE_USER = 'postrider'

export interface Owner {
  uid: number
  gid: number
}

/** As whom this process of root works on the data directory; undefined: as who called it. */
let owner: (Owner & { caller: Owner }) | undefined
/** The number of `asCaller` that are under way. */
let calls = 0

const isRoot = (): boolean => process.getuid?.() === 0

/** The users that this machine names: name, password, uid, gid and more of each (passwd(5)). */
function usersIn(file: string): string[][] {
  const passwd = statSync(file, { throwIfNoEntry: false }) ? readFileSync(file, 'utf8') : ''
  return passwd.split('\n').map((line) => line.split(':'))
}

/** The ids of the service's user; undefined without such a user. */
export function serviceUser(users = '/etc/passwd'): Owner | undefined {
  const [, , uid, gid] = usersIn(users).find(([name]) => name === SERVICE_USER) ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}

/** As whom `asCaller` failed: the command works as its owner again when the error is told. */
const failedAs = new WeakMap<Error, number>()

/** The user who was refused something, in words: "user postrider (10025)", or "user 10025" where it has no name. */
export function userRefused(thrown: unknown, users = '/etc/passwd'): string {
  const uid = (thrown instanceof Error ? failedAs.get(thrown) : undefined) ?? process.geteuid?.()
  if (uid === undefined) return 'this user'
  const [name] = usersIn(users).find(([, , other]) => other === String(uid)) ?? []
  return name === undefined ? `user ${uid}` : `user ${name} (${uid})`
}

/**
 * From here on a process of root works as the owner of the data directory. Does nothing for other users, for a
 * directory of root, and where there is none yet. Throws an OperatorError when root may not change its user.
 */
export function becomeOwner(dataDir: string): void {
  if (!isRoot() || owner !== undefined) return
  const found = statSync(dataDir, { throwIfNoEntry: false })
  if (found === undefined) return
  if (found.uid === 0) return refuseForeignLinks(dataDir)
  try {
    setGroups(found)
    owner = { uid: found.uid, gid: found.gid, caller: { uid: 0, gid: process.getegid!() } }
    actAs(owner)
  } catch (thrown) {
    owner = undefined
    throw new OperatorError(
      `${dataDir} belongs to user ${found.uid}, and this root may not work as that user; run the command as the user who owns the directory.`,
      { cause: thrown },
    )
  }
}

/** Whether a process of root works as the owner of its data directory. */
export const worksAsOwner = (): boolean => owner !== undefined

/** A process of root that serves strangers for long gives root up for good. */
export function remainOwner(): void {
  if (owner === undefined) return
  const { gid, uid } = owner
  process.seteuid!(0)
  process.setgid!(gid)
  process.setuid!(uid)
  owner = undefined
}

/** The groups of the user, as systemd gives them to the service. */
function setGroups({ gid, uid }: Owner): void {
  try {
    // Its types do not know this function of Node.
    ;(process as unknown as { initgroups(user: number, group: number): void }).initgroups(uid, gid)
  } catch {
    // A user without an entry has no groups but its own.
    process.setgroups!([gid])
  }
}

function actAs({ gid, uid }: Owner): void {
  // Only root may change the group.
  process.seteuid!(0)
  process.setegid!(gid)
  process.seteuid!(uid)
}

/**
 * Starts a program that is to have no more than the owner. With the effective user alone it would be root as soon as it
 * asks to be, and a shell or a Postrider does.
 */
export const spawnAsOwner = ((program: string, args: readonly string[], options: SpawnOptions) => {
  const ids = owner === undefined ? {} : { uid: owner.uid, gid: owner.gid }
  return asCaller(() => spawn(program, args, { ...options, ...ids }))
}) as typeof spawn

/** Runs `work` as who called the command; until its promise is settled, when it returns one. */
export function asCaller<T>(work: () => T): T {
  if (owner === undefined) return work()
  const { caller, ...self } = owner
  if (calls++ === 0) actAs(caller)
  const back = (): void => void (--calls === 0 && actAs(self))
  const fail = (thrown: unknown): never => {
    if (thrown instanceof Error) failedAs.set(thrown, caller.uid)
    throw thrown
  }
  let settles = false
  try {
    const result = work()
    if (!(result instanceof Promise)) return result
    settles = true
    return result.catch(fail).finally(back) as T
  } catch (thrown) {
    return fail(thrown)
  } finally {
    if (!settles) back()
  }
}

/**
 * Runs `work`, which uses a path outside the data directory: as the caller, unless the owner of the data directory can
 * lead the path elsewhere; then as the owner, who reaches nothing new.
 */
export function asCallerAt<T>(path: string, work: () => T): T {
  if (owner === undefined) return work()
  const self = owner
  return asCaller(() => isLedBy(path, self)) ? work() : asCaller(work)
}

const LINKS = 40

/** Whether a user may change a directory on the way to a path, links included. */
export function isLedBy(path: string, user: Owner): boolean {
  return way(path).some((each) => each.isDirectory() && mayWrite(each, user))
}

type FoundOwner = NonNullable<ReturnType<typeof lookAt>>
const lookAt = (path: string) => lstatSync(path, { throwIfNoEntry: false })

/** Everything on the way to a path, links and what they lead to included, as far as it exists. */
function way(path: string): FoundOwner[] {
  const names = resolve(path).split('/').filter(Boolean)
  const passed: FoundOwner[] = [lstatSync('/')]
  let at = '/'
  for (let links = 0, name = names.shift(); name !== undefined; name = names.shift()) {
    const next = name === '..' ? dirname(at) : join(at, name)
    const found = lookAt(next)
    if (!found) break
    passed.push(found)
    if (!found.isSymbolicLink()) {
      at = next
      continue
    }
    if (++links > LINKS) throw new OperatorError(`${path} leads through too many links.`)
    const target = readlinkSync(next)
    if (target.startsWith('/')) at = '/'
    names.unshift(...target.split('/').filter((each) => each !== '' && each !== '.'))
  }
  return passed
}

function mayWrite({ gid, mode, uid }: FoundOwner, user: Owner): boolean {
  if (uid === user.uid) return true
  // In a directory such as /tmp nobody can rename or remove what is another's; root's new files are safe there.
  if ((mode & 0o1000) !== 0) return false
  return (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid === user.gid)
}

/** A data directory of root must be root's on the whole way: else another user could lead root anywhere. */
function refuseForeignLinks(dataDir: string): void {
  const foreign = way(dataDir).find((each) => each.isSymbolicLink() && each.uid !== 0)
  if (foreign)
    throw new OperatorError(
      `The way to the data directory ${dataDir} has a link of user ${foreign.uid}, and root does not follow it; set data_dir to where the link leads.`,
    )
}

/**
 * Root takes no configuration from its working directory that another user has put there, unless the data are that
 * user's too. Throws an OperatorError.
 */
export function refuseAnothers(file: string, dataDir: string): void {
  const uid = isRoot() ? (statSync(file, { throwIfNoEntry: false })?.uid ?? 0) : 0
  if (uid === 0 || statSync(dataDir, { throwIfNoEntry: false })?.uid === uid) return
  throw new OperatorError(
    `${file} belongs to user ${uid}, and root does not take it by itself; name it with --config if it is meant.`,
  )
}

/** Makes a missing data directory of root's that belongs to the service's user, when there is one. */
export function makeForService(dataDir: string): void {
  const service = isRoot() ? serviceUser() : undefined
  if (!service || lookAt(dataDir)) return
  makeDirectory(dataDir)
  giveDirectory(dataDir, service)
}

/** Gives a directory of root to a user; never what somebody put in its place. */
export function giveDirectory(dir: string, { gid, uid }: Owner): void {
  const handle = openSync(dir, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    if (fstatSync(handle).uid === 0) fchownSync(handle, uid, gid)
  } finally {
    closeSync(handle)
  }
}
