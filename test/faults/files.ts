// The fault layer of the files: every function of node:fs that the server uses for its data directory.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { Control, Kind } from './plan.ts'

type Call = (this: unknown, ...given: unknown[]) => unknown

const OPENS: readonly Kind[] = ['EIO', 'EMFILE']
const MAKES: readonly Kind[] = ['EIO', 'EMFILE', 'ENOSPC']
const WRITES: readonly Kind[] = ['EIO', 'ENOSPC']
const OTHERS: readonly Kind[] = ['EIO']

const BY_PATH: Record<string, readonly Kind[]> = {
  open: OPENS,
  readFile: OPENS,
  readdir: OPENS,
  opendir: OPENS,
  writeFile: MAKES,
  appendFile: MAKES,
  copyFile: MAKES,
  mkdtemp: WRITES,
  mkdir: WRITES,
  rename: WRITES,
  link: WRITES,
  rm: OTHERS,
  unlink: OTHERS,
  rmdir: OTHERS,
  stat: OTHERS,
  chmod: OTHERS,
}
const BY_FILE: Record<string, readonly Kind[]> = {
  read: OTHERS,
  write: WRITES,
  writev: WRITES,
  fsync: WRITES,
  fdatasync: WRITES,
  ftruncate: WRITES,
  fstat: OTHERS,
  close: OTHERS,
}
const OF_HANDLES: Record<string, readonly Kind[]> = {
  read: OTHERS,
  readFile: OTHERS,
  write: WRITES,
  writeFile: WRITES,
  appendFile: WRITES,
  sync: WRITES,
  datasync: WRITES,
  truncate: WRITES,
  stat: OTHERS,
  close: OTHERS,
}

const WORDS: Partial<Record<Kind, string>> = {
  EIO: 'i/o error',
  ENOSPC: 'no space left on device',
  EMFILE: 'too many open files',
}
const NUMBERS: Partial<Record<Kind, number>> = { EIO: -5, ENOSPC: -28, EMFILE: -24 }

const errorOf = (kind: Kind, syscall: string, path: string): Error =>
  Object.assign(new Error(`${kind}: ${WORDS[kind]!}, ${syscall} '${path}'`), {
    errno: NUMBERS[kind],
    code: kind,
    syscall,
    path,
  })

/** The operations on files, for code that tracks which data is permanently on the disk. Called after each operation. */
export interface Witness {
  (call: string, path: string, to?: string): void
}

export interface FileLayer {
  witness: Witness | undefined
}

/** Lays it under the files below a folder, in this thread. */
export function layFiles(control: Control, root: string): FileLayer {
  const layer: FileLayer = { witness: undefined }
  const names = new Map<number, string>()
  /** Opened only for reading: closing them does not fail. */
  const readOnly = new Set<number>()
  const handles = new WeakMap<object, string>()
  const opened = (file: number, path: string, flags: unknown): void => {
    names.set(file, path)
    if (typeof flags === 'string' && /[wa+]/.test(flags)) readOnly.delete(file)
    else readOnly.add(file)
  }
  const ours = (path: unknown): path is string => typeof path === 'string' && path.startsWith(root)
  const pathOf = (given: readonly unknown[]): string | undefined =>
    ours(given[0]) ? given[0] : ours(given[1]) ? given[1] : undefined
  const kindsOf = (name: string, kinds: readonly Kind[], given: readonly unknown[]): readonly Kind[] =>
    name === 'open' && typeof given[1] === 'string' && /[wa+]/.test(given[1]) ? MAKES : kinds
  const shown = (name: string, path: string): string =>
    `${name} ${path
      .slice(root.length)
      .replace(/^\/[^/]*/, '')
      .replace(/[0-9a-f]{8}-[0-9a-f-]{20,}/, 'ID')
      .replace(/\.restore-\w+|-\w{6}(?=\/|$)/, '-X')}`
  const seen = (name: string, given: readonly unknown[], path: string): void =>
    layer.witness?.(name, path, typeof given[1] === 'string' ? given[1] : undefined)

  const module = fs as unknown as Record<string, Call>
  const promises = fs.promises as unknown as Record<string, Call>
  for (const [name, kinds] of Object.entries(BY_PATH)) {
    const sync = module[`${name}Sync`]!
    module[`${name}Sync`] = function (...given) {
      const path = pathOf(given)
      const kind = path !== undefined && control.fails('fs', shown(`${name}Sync`, path), kindsOf(name, kinds, given))
      if (kind) throw errorOf(kind, name, path as string)
      const result = sync.apply(this, given)
      if (path !== undefined) {
        if (name === 'open') opened(result as number, path, given[1])
        seen(name, given, path)
      }
      return result
    }
    const withCallback = module[name]!
    module[name] = function (...given) {
      const path = pathOf(given)
      const done = given.at(-1) as (error: Error | null, ...more: unknown[]) => void
      if (path === undefined || typeof done !== 'function') return withCallback.apply(this, given)
      const kind = control.fails('fs', shown(name, path), kindsOf(name, kinds, given))
      if (kind) {
        process.nextTick(done, errorOf(kind, name, path))
        return undefined
      }
      given[given.length - 1] = (error: Error | null, ...more: unknown[]) => {
        if (!error && name === 'open') opened(more[0] as number, path, given[1])
        if (!error) seen(name, given, path)
        done(error, ...more)
      }
      return withCallback.apply(this, given)
    }
    const promised = promises[name]!
    promises[name] = async function (...given) {
      const path = pathOf(given)
      const kind = path !== undefined && control.fails('fs', shown(name, path), kindsOf(name, kinds, given))
      if (kind) throw errorOf(kind, name, path as string)
      const result = await promised.apply(this, given)
      if (path !== undefined) {
        if (name === 'open') {
          handles.set(result as object, path)
          layHandles(Object.getPrototypeOf(result) as Record<string, Call>)
        }
        seen(name, given, path)
      }
      return result
    }
  }
  for (const [name, kinds] of Object.entries(BY_FILE)) {
    const sync = module[`${name}Sync`]!
    module[`${name}Sync`] = function (...given) {
      const path = names.get(given[0] as number)
      const able = name === 'close' && readOnly.has(given[0] as number) ? [] : kinds
      const kind = path !== undefined && control.fails('fs', shown(`${name}Sync`, path), able)
      // A file whose close fails is closed nevertheless (Linux).
      if (kind && name !== 'close') throw errorOf(kind, name, path as string)
      const result = sync.apply(this, given)
      if (name === 'close') names.delete(given[0] as number)
      if (kind) throw errorOf(kind, name, path as string)
      if (path !== undefined) seen(name, [], path)
      return result
    }
    const withCallback = module[name]!
    module[name] = function (...given) {
      const path = names.get(given[0] as number)
      const done = given.at(-1) as (error: Error | null, ...more: unknown[]) => void
      if (path === undefined || typeof done !== 'function') return withCallback.apply(this, given)
      const able = name === 'close' && readOnly.has(given[0] as number) ? [] : kinds
      const kind = control.fails('fs', shown(name, path), able)
      if (kind && name !== 'close') {
        process.nextTick(done, errorOf(kind, name, path))
        return undefined
      }
      if (name === 'close') names.delete(given[0] as number)
      given[given.length - 1] = (error: Error | null, ...more: unknown[]) => {
        if (!error) seen(name, [], path)
        done(error ?? (kind ? errorOf(kind, name, path) : null), ...more)
      }
      return withCallback.apply(this, given)
    }
  }
  const laid = new WeakSet<object>()
  function layHandles(prototype: Record<string, Call>): void {
    if (laid.has(prototype)) return
    laid.add(prototype)
    for (const [name, kinds] of Object.entries(OF_HANDLES)) {
      const method = prototype[name]!
      prototype[name] = async function (...given) {
        const path = handles.get(this as object)
        const kind = path !== undefined && control.fails('fs', shown(`handle.${name}`, path), kinds)
        if (kind && name !== 'close') throw errorOf(kind, name, path as string)
        const result = await method.apply(this, given)
        if (kind) throw errorOf(kind, name, path as string)
        if (path !== undefined) seen(name === 'sync' || name === 'datasync' ? 'fsync' : name, [], path)
        return result
      }
    }
  }
  syncBuiltinESMExports()
  return layer
}
