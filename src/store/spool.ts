// Letters too large for the database: files in the data directory's spool, on the disk before anybody is told yes. A file
// is named by the row that refers to it; one that no row refers to is swept at start.
import { open, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Above this many bytes a body lies in the spool. */
export const SPOOL_ABOVE = 256 * 1024

export class Spool {
  readonly #directory: string

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'spool')
  }

  path(name: string): string {
    return join(this.#directory, name)
  }

  /** Writes a file whole and durable (file and directory entry), or not at all. */
  async put(name: string, bytes: string | Uint8Array): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    const draft = this.path(`${name}.part`)
    try {
      const file = await open(draft, 'wx', 0o600)
      try {
        await file.writeFile(bytes)
        await file.datasync()
      } finally {
        await file.close()
      }
      await rename(draft, this.path(name))
      const directory = await open(this.#directory)
      try {
        await directory.sync()
      } finally {
        await directory.close()
      }
    } catch (thrown) {
      await rm(draft, { force: true })
      throw thrown
    }
  }

  read(name: string): Promise<Buffer> {
    return readFile(this.path(name))
  }

  async remove(name: string): Promise<void> {
    await rm(this.path(name), { force: true })
  }

  /** Removes every file of which `known` says no: what a crash left between the file and its row. */
  async sweep(known: (name: string) => boolean): Promise<void> {
    const names = await readdir(this.#directory).catch(() => [] as string[])
    await Promise.all(names.filter((name) => !known(name)).map((name) => this.remove(name)))
  }
}
