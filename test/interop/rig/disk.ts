// The effect of traced calls (rig/calls.ts) on the files of a directory, and the state after a power failure. A write
// or a new length survives if a sync of its file started after it and finished before the failure. A name survives if a
// sync of its directory did (POSIX guarantees no more). Everything else may survive or not, independently.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { isSync, pathsOf, written, type Call, type Span } from './calls.ts'

/** A folder's content by paths below it; null is a folder, and '' the folder itself. */
export type Disk = Map<string, Buffer | null>

/** Bytes at an offset, a new length, or a name in a directory that now refers to another node or is removed. */
export type Change = Span &
  (
    | { kind: 'write'; at: number; bytes: Buffer }
    | { kind: 'length'; length: number }
    | { kind: 'name'; name: string; node: Node | undefined }
  )

/** A file or a directory, under any name. */
export interface Node {
  /** Its content when the trace started. Null for a directory. */
  start: Buffer | null
  changes: Change[]
  syncs: Span[]
}

export interface History {
  /** By name when the trace began. */
  start: Map<string, Node>
  /** By every name that ever was; the last node of that name. */
  named: Map<string, Node>
}

const parentOf = (name: string): string => (dirname(name) === '.' ? '' : dirname(name))

/** The state of a directory that contained `start` when the trace started. */
export function historyOf(calls: readonly Call[], folder: string, start: Disk): History {
  const begun = new Map([...start].map(([name, bytes]) => [name, nodeOf(bytes)]))
  const named = new Map(begun)
  const now = new Map(begun)
  /** Where each descriptor writes next. */
  const places = new Map<number, number>()
  const within = (path: string): boolean => path === folder || path.startsWith(`${folder}/`)
  const name = ({ began, ended }: Span, path: string, node: Node | undefined): void => {
    const own = relative(folder, path)
    now.get(parentOf(own))?.changes.push({ kind: 'name', began, ended, name: own, node })
    if (node) named.set(own, node)
    if (node) now.set(own, node)
    else now.delete(own)
  }
  for (const call of calls) {
    const { began, ended, fd, on } = call
    const node = within(on) ? now.get(relative(folder, on)) : undefined
    const write = (at: number): void => {
      const bytes = written(call)
      node?.changes.push({ kind: 'write', began, ended, at, bytes })
    }
    const paths = /^(?:open|creat|truncate|rename|mkdir|rmdir|unlink|link|symlink)/.test(call.name) ? pathsOf(call) : []
    if (/^(?:write|writev)$/.test(call.name)) {
      const at = places.get(fd) ?? 0
      write(at)
      places.set(fd, at + call.result)
    } else if (call.name.startsWith('pwrite')) write(placeOf(call))
    else if (call.name === 'ftruncate')
      node?.changes.push({ kind: 'length', began, ended, length: Number(/, (\d+)/.exec(call.line)?.[1]) })
    else if (call.name === 'lseek') places.set(fd, call.result)
    else if (isSync(call)) {
      if (ended < Infinity) node?.syncs.push({ began, ended })
    } else if (!paths.some(within)) {
      // Some other folder, or a socket.
      if (node) throw new Error(`not understood: ${call.line}`)
    } else if (call.name === 'openat' || call.name === 'open') {
      const path = paths[0]!
      const old = now.get(relative(folder, path))
      if (!old && call.line.includes('O_CREAT')) name(call, path, nodeOf(Buffer.alloc(0)))
      if (old && call.line.includes('O_TRUNC')) old.changes.push({ kind: 'length', began, ended, length: 0 })
      places.set(call.result, call.line.includes('O_APPEND') && old ? contentOf(old, () => true).length : 0)
    } else if (call.name.startsWith('mkdir')) name(call, paths[0]!, nodeOf(null))
    else if (/^(?:unlink|rmdir)/.test(call.name)) name(call, paths[0]!, undefined)
    else if (call.name.startsWith('rename')) {
      const moved = now.get(relative(folder, paths[0]!))
      name(call, paths[0]!, undefined)
      name(call, paths[1]!, moved)
    } else throw new Error(`not understood: ${call.line}`)
  }
  return { start: begun, named }
}

/** The offset is the last argument; only that of pwritev2 has flags behind it. */
function placeOf({ line, name }: Call): number {
  const all = line.replace(/\) += .*$/, '').split(', ')
  const place = Number(all.at(name === 'pwritev2' ? -2 : -1))
  if (Number.isNaN(place)) throw new Error(`not understood: ${line}`)
  return place
}

const nodeOf = (start: Buffer | null): Node => ({ start, changes: [], syncs: [] })

/** Whether a sync of the node happened between the end of one call and the start of another. */
export const syncedBetween = ({ syncs }: Node, ended: number, moment: number): boolean =>
  syncs.some((sync) => sync.began > ended && sync.ended < moment)

/**
 * Whether a file or directory of this name certainly has all its bytes and its name after a failure at a given line.
 */
export function durableAt(history: History, name: string, moment: number): boolean {
  const node = history.named.get(name)
  if (!node) return false
  const safe = (at: Node, change: Change): boolean => syncedBetween(at, change.ended, moment)
  const whole = node.start === null || node.changes.every((change) => safe(node, change))
  if (!whole || history.start.get(name) === node) return whole
  const parent = history.named.get(parentOf(name))
  const naming = parent?.changes.findLast((change) => change.kind === 'name' && change.node === node)
  return (
    parent !== undefined && naming !== undefined && safe(parent, naming) && durableAt(history, parentOf(name), moment)
  )
}

/** The state after a failure before the line `moment`. `lucky` decides whether an unsynced change survives. */
export function diskAfter(history: History, moment: number, lucky: (change: Change) => boolean = () => false): Disk {
  const survives = (node: Node) => (change: Change) =>
    change.began < moment && (syncedBetween(node, change.ended, moment) || lucky(change))
  const names = new Map(history.start)
  const folders = new Set([...history.named.values()].filter(({ start }) => start === null))
  const renamed = [...folders].flatMap((folder) => folder.changes.filter(survives(folder)))
  for (const change of renamed.sort((one, two) => one.began - two.began)) {
    if (change.kind !== 'name') continue
    if (change.node) names.set(change.name, change.node)
    else names.delete(change.name)
  }
  const disk: Disk = new Map()
  for (const [name, node] of [...names].sort(([one], [two]) => one.length - two.length))
    if (name === '' || disk.has(parentOf(name)))
      disk.set(name, node.start === null ? null : contentOf(node, survives(node)))
  return disk
}

/** The bytes of a file if only some of its changes are applied. */
function contentOf({ changes, start }: Node, made: (change: Change) => boolean): Buffer {
  let length = start?.length ?? 0
  const bytes = Buffer.alloc(Math.max(length, ...changes.map(endOf)))
  start?.copy(bytes)
  for (const change of changes.filter(made)) {
    if (change.kind === 'write') change.bytes.copy(bytes, change.at)
    if (change.kind === 'write') length = Math.max(length, endOf(change))
    if (change.kind !== 'length') continue
    bytes.fill(0, Math.min(change.length, length))
    length = change.length
  }
  return bytes.subarray(0, length)
}

const endOf = (change: Change): number =>
  change.kind === 'write' ? change.at + change.bytes.length : change.kind === 'length' ? change.length : 0

/** Reads a folder with all that is below it. */
export function readDisk(folder: string): Disk {
  const below = readdirSync(folder, { recursive: true, withFileTypes: true }).map((entry): [string, Buffer | null] => {
    const path = join(entry.parentPath, entry.name)
    return [relative(folder, path), entry.isDirectory() ? null : readFileSync(path)]
  })
  return new Map([['', null], ...below])
}

/** Makes the folder, which must not be there yet. */
export function writeDisk(disk: Disk, folder: string): void {
  for (const [name, bytes] of disk)
    if (bytes) writeFileSync(join(folder, name), bytes, { mode: 0o600 })
    else mkdirSync(join(folder, name), { mode: 0o700 })
}
