// Empty databases for tests. Creating the schema takes most of the start of a server, so each process creates it once
// and then copies the file.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectory } from '../../src/base/durable.ts'
import type { Store } from '../../src/store/database.ts'
import { DATABASE, openStore } from '../../src/store/open.ts'
import { temporaryDirectory } from './directory.ts'

let original: string | undefined

/** Puts an empty database of the current schema into a data directory. Returns the directory. */
export function emptyDatabase(dataDir = temporaryDirectory('store')): string {
  if (original === undefined) {
    const directory = temporaryDirectory('schema')
    openStore(directory).close()
    original = join(directory, DATABASE)
  }
  makeDirectory(dataDir)
  copyFileSync(original, join(dataDir, DATABASE))
  return dataDir
}

/** Opens an empty database in a data directory. */
export const emptyStore = (dataDir?: string): Store => openStore(emptyDatabase(dataDir))
