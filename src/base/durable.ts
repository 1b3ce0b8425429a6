// Makes files survive a power cut: the octets and, separately, the directory entry must be synced (fsync(2)).
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { codeOf } from './errors.ts'

/** Syncs a file or a directory. Throws the system's error. */
export function syncPath(path: string): void {
  const handle = openSync(path, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

/** Syncs a file and its directory entry. Throws the system's error. */
export function syncFile(file: string): void {
  syncPath(file)
  syncPath(dirname(file))
}

/**
 * Makes a directory for its owner alone, and its missing parents, durably; one that is there stays. Throws the system's
 * error. The recursive mkdir of Node tries for ever where a file system says ENOENT below a directory that is there, as
 * /proc does.
 */
export function makeDirectory(dir: string): void {
  const missing: string[] = []
  for (let at = resolve(dir); !existsSync(at); at = dirname(at)) missing.unshift(at)
  if (missing.length === 0 && !statSync(dir).isDirectory()) mkdirSync(dir)
  for (const each of missing) {
    try {
      mkdirSync(each, { mode: 0o700 })
    } catch (thrown) {
      // Another process was faster.
      if (codeOf(thrown) !== 'EEXIST' || statSync(each, { throwIfNoEntry: false })?.isDirectory() !== true) throw thrown
    }
    syncPath(dirname(each))
  }
}
