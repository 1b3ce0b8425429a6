// Makes files survive a power cut: the octets and, separately, the directory entry must be synced (fsync(2)).
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'

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
