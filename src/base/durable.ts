// What makes files last through a power cut: their octets and, apart from them, the entry in their directory have to be synced (fsync(2)).
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'

/** Syncs a file or a directory. Throws as the system does. */
export function syncPath(path: string): void {
  const handle = openSync(path, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

/** Syncs a file and its entry. */
export function syncFile(file: string): void {
  syncPath(file)
  syncPath(dirname(file))
}
