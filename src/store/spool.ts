// Letters too large for the database: files in the data directory's spool, on the disk before anybody is told yes. A file
// is named by the row that refers to it; one that no row refers to is swept at start.
import { open, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Above this many bytes a body lies in the spool. */
export const SPOOL_ABOVE = 256 * 1024

export interface Draft {
  /** Where it lies until it is kept. */
  path: string
  write(bytes: string | Uint8Array): Promise<void>
  keep(): Promise<void>
  drop(): Promise<void>
}

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
    const draft = await this.draft(name)
    try {
      await draft.write(bytes)
      await draft.keep()
    } catch (thrown) {
      await draft.drop()
      throw thrown
    }
  }

  /** A file that grows piece by piece; it is nothing until `keep`, after which it is durable under its name. */
  async draft(name: string): Promise<Draft> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    const path = this.path(`${name}.part`)
    const file = await open(path, 'wx', 0o600)
    return {
      path,
      write: (bytes) => file.writeFile(bytes),
      keep: async () => {
        await file.datasync()
        await file.close()
        await rename(path, this.path(name))
        const directory = await open(this.#directory)
        try {
          await directory.sync()
        } finally {
          await directory.close()
        }
      },
      drop: async () => {
        await file.close().catch(() => {})
        await rm(path, { force: true })
      },
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
