// Simulates a power failure in a data directory. strace(1) records all writes and syncs. Data written since the last
// sync of a file is zeroed, and names that no sync of their directory made durable are removed, which is the worst case
// of POSIX.
import { closeSync, existsSync, openSync, readdirSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Options of strace for `unsynced`. */
export const TRACE = [
  '-f',
  '-y',
  '-s',
  '0',
  '-e',
  'trace=pwrite64,pwritev,write,writev,fsync,fdatasync,openat,rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat',
]

interface Written {
  when: number
  /** Null: somewhere in the file. */
  at: { offset: number; length: number } | null
}

export interface Unsynced {
  writes: Map<string, Written[]>
  names: Map<string, number>
}

/** Reads a trace. `before` are the names that the folder held when it began. */
export function unsynced(trace: string, folder: string, before: ReadonlySet<string>): Unsynced {
  const writes = new Map<string, Written[]>()
  const names = new Map<string, number>()
  const known = new Set(before)
  /** Syncs that have begun, by thread. */
  const syncing = new Map<string, { path: string; when: number }>()
  const note = (path: string, written: Written): void => void writes.set(path, [...(writes.get(path) ?? []), written])
  const synced = ({ path, when }: { path: string; when: number }): void => {
    const left = (writes.get(path) ?? []).filter((each) => each.when > when)
    if (left.length > 0) writes.set(path, left)
    else writes.delete(path)
    for (const [name, made] of names) if (dirname(name) === path && made < when) names.delete(name)
  }
  const make = (path: string, when: number): void => {
    if (!known.has(path)) names.set(path, when)
    known.add(path)
  }
  for (const [when, line] of trace.split('\n').entries()) {
    const [, thread, call = ''] = /^(\d+) +(.*)$/.exec(line) ?? []
    if (thread === undefined) continue
    const failed = / = -1 /.test(call)
    const resumed = /^<\.\.\. f(?:data)?sync resumed/.test(call)
    if (resumed && syncing.has(thread)) {
      if (!failed) synced(syncing.get(thread)!)
      syncing.delete(thread)
      continue
    }
    const [, name = '', rest = ''] = /^(\w+)\((.*)$/.exec(call) ?? []
    if (failed || !rest.includes(folder)) continue
    const [, open] = /^\d+<([^>]*)>/.exec(rest) ?? []
    const paths = [...rest.matchAll(/"([^"]*)"/g)].map(([, path]) => path!)
    if (/^f(?:data)?sync$/.test(name) && open !== undefined) {
      const sync = { path: open, when }
      if (rest.includes('<unfinished')) syncing.set(thread, sync)
      else synced(sync)
    } else if (name === 'pwrite64' && open !== undefined) {
      const [, length, offset] = /, (\d+), (\d+)(?:\)| <)/.exec(rest) ?? []
      note(open, { when, at: { offset: Number(offset), length: Number(length) } })
    } else if (/^p?writev?$/.test(name) && open !== undefined) note(open, { when, at: null })
    else if (name === 'openat' && rest.includes('O_CREAT')) make(paths[0]!, when)
    else if (name.startsWith('mkdir')) make(paths[0]!, when)
    else if (name.startsWith('rename')) {
      const [from, to] = paths as [string, string]
      writes.set(to, writes.get(from) ?? [])
      writes.delete(from)
      names.delete(from)
      known.delete(from)
      make(to, when)
    } else if (name.startsWith('unlink')) {
      names.delete(paths[0]!)
      known.delete(paths[0]!)
      writes.delete(paths[0]!)
    }
  }
  return { writes, names }
}

/** Every name in a folder and below. */
export const namesIn = (folder: string): Set<string> =>
  new Set((readdirSync(folder, { recursive: true }) as string[]).map((name) => join(folder, name)))

/** Removes unsynced data. Returns how many writes and names were removed. */
export function cutPower(folder: string, { names, writes }: Unsynced): { writes: number; names: number } {
  const gone = { writes: 0, names: 0 }
  for (const path of names.keys()) {
    if (!path.startsWith(folder) || !existsSync(path) || /-shm$|-journal$/.test(path)) continue
    rmSync(path, { recursive: true })
    gone.names++
  }
  for (const [path, list] of writes) {
    if (!path.startsWith(folder) || !existsSync(path) || /-shm$|serve\.lock/.test(path)) continue
    gone.writes += list.length
    const size = statSync(path).size
    if (list.some(({ at }) => at === null)) truncateSync(path, 0)
    const file = openSync(path, 'r+')
    for (const { at } of list)
      if (at && at.offset < size)
        writeSync(file, Buffer.alloc(Math.min(at.length, size - at.offset)), 0, undefined, at.offset)
    closeSync(file)
  }
  // Memory that was shared is gone.
  rmSync(join(folder, 'postrider.db-shm'), { force: true })
  return gone
}
