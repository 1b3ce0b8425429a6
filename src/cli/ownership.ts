// Whose the files of a data directory are. A command that root runs beside the service would leave files that the service cannot open.
import { chownSync, existsSync, lchownSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** The user that the package makes and the unit names. */
export const SERVICE_USER = 'postrider'

/** Gives what root has made in a data directory to the owner of the directory; of one that was `made` just now, to the service's user where
 *  there is one. Changes nothing for other users. */
export function adopt(dataDir: string, made = false): void {
  if (process.geteuid?.() !== 0 || !existsSync(dataDir)) return
  const service = made ? serviceUser() : undefined
  if (service) chownSync(dataDir, service.uid, service.gid)
  const { gid, uid } = statSync(dataDir)
  if (uid === 0) return
  for (const name of readdirSync(dataDir, { recursive: true }) as string[]) {
    const path = join(dataDir, name)
    try {
      const found = lstatSync(path, { throwIfNoEntry: false })
      // A link is its own file: what it leads to is not ours.
      if (found && found.uid === 0) lchownSync(path, uid, gid)
    } catch {
      // Gone meanwhile, or on a disk that takes no owners: the command itself was done.
    }
  }
}

/** The numbers of the service's user; undefined where there is none. */
export function serviceUser(users = '/etc/passwd'): { uid: number; gid: number } | undefined {
  const passwd = existsSync(users) ? readFileSync(users, 'utf8') : ''
  const line = passwd.split('\n').find((each) => each.startsWith(`${SERVICE_USER}:`))
  const [, , uid, gid] = line?.split(':') ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}
