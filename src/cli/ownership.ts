// The owner of files in a data directory. A command run by root would create files that the service cannot open.
import { chownSync, existsSync, lchownSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** The user that the package creates and the systemd unit names. */
export const SERVICE_USER = 'postrider'

/**
 * Gives root's files in a data directory to the directory's owner. When the directory was just created (`made`), to the
 * service's user, if there is one. Does nothing when the process is not root.
 */
export function adopt(dataDir: string, made = false): void {
  if (process.geteuid?.() !== 0 || !existsSync(dataDir)) return
  try {
    const service = made ? serviceUser() : undefined
    if (service) chownSync(dataDir, service.uid, service.gid)
    const { gid, uid } = statSync(dataDir)
    if (uid === 0) return
    for (const name of readdirSync(dataDir, { recursive: true }) as string[]) adoptOne(join(dataDir, name), uid, gid)
  } catch {
    // An error of the disk: the command itself has succeeded, and the next command tries again.
  }
}

function adoptOne(path: string, uid: number, gid: number): void {
  try {
    const found = lstatSync(path, { throwIfNoEntry: false })
    // For a link, the link itself changes its owner: its target may be outside.
    if (found && found.uid === 0) lchownSync(path, uid, gid)
  } catch {
    // The file was deleted in the meantime, or its file system has no owners.
  }
}

/** The ids of the service's user; undefined without such a user. */
export function serviceUser(users = '/etc/passwd'): { uid: number; gid: number } | undefined {
  const passwd = existsSync(users) ? readFileSync(users, 'utf8') : ''
  const line = passwd.split('\n').find((each) => each.startsWith(`${SERVICE_USER}:`))
  const [, , uid, gid] = line?.split(':') ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}
