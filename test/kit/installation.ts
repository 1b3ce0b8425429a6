// An installation without a server, for tests of commands: as the first start of a server leaves it.
import { openInstance } from '../../src/store/instance.ts'

/** Makes a data directory with an empty database and a key. Returns the directory. */
export function makeInstallation(dataDir: string): string {
  openInstance(dataDir).store.close()
  return dataDir
}
