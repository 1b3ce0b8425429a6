// Makes files survive a power cut: the bytes and, separately, the directory entry must be synced (fsync(2)).
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
 * Creates a directory that only its owner can access, and its missing parents, durably. An existing directory is not
 * changed. Throws the system's error. Node's recursive mkdir never returns if a file system reports ENOENT below an
 * existing directory, as /proc does.
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
