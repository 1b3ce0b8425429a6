// Mail that is too large for the database: files in the spool of the data directory, written to the disk before the
// mail is accepted. The row of the mail holds the name of the file. A file without a row is moved into the quarantine
// at the start and removed 30 days later. When a row refers to it at a later start, the file is moved back.
import { createHash } from 'node:crypto'
import { open, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncPath } from '../base/durable.ts'
import { Damaged, isSpoolName, provenName } from '../base/spooled.ts'
import { codeOf } from '../base/errors.ts'

/** A body with more bytes than this is kept in the spool. */
export const SPOOL_ABOVE = 256 * 1024

/** The folder for files without a row. */
export const QUARANTINE = 'quarantine'

export interface Draft {
  /** Path of the file until it is kept. */
  path: string
  write(bytes: string | Uint8Array): Promise<void>
  /** Makes the file durable; returns its final name (base/spooled.ts). */
  keep(): Promise<string>
  drop(): Promise<void>
}

export class Spool {
  readonly #directory: string
  readonly #quarantine: string
  /** Files that are being removed, or whose removal failed. */
  readonly #left = new Set<string>()

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'spool')
    this.#quarantine = join(this.#directory, QUARANTINE)
  }

  /** The path of a file; '' is the spool itself. Throws Damaged for a name that would lead out of the spool. */
  path(name: string): string {
    if (name !== '' && !isSpoolName(name)) throw new Damaged('A row names a file that no spool has.')
    return join(this.#directory, name)
  }

  /** Writes a whole file durably (file and directory entry) or not at all; returns its final name. */
  async put(name: string, bytes: string | Uint8Array): Promise<string> {
    const draft = await this.draft(name)
    try {
      await draft.write(bytes)
      return await draft.keep()
    } catch (thrown) {
      await draft.drop()
      throw thrown
    }
  }

  /** A file written piece by piece; only `keep` makes it durable and gives it its name. */
  async draft(name: string): Promise<Draft> {
    // The entry of a new directory must be made durable too.
    const made = await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    if (made !== undefined) syncPath(dirname(made))
    const path = this.path(`${name}.part`)
    const file = await open(path, 'wx', 0o600)
    const hash = createHash('sha256')
    let octets = 0
    return {
      path,
      write: async (bytes) => {
        hash.update(bytes)
        octets += Buffer.byteLength(bytes)
        await file.writeFile(bytes)
      },
      keep: async () => {
        await file.datasync()
        await file.close()
        const proven = provenName(name, octets, hash.digest())
        await rename(path, this.path(proven))
        const directory = await open(this.#directory)
        try {
          await directory.sync()
        } finally {
          await directory.close()
        }
        return proven
      },
      drop: async () => {
        await file.close().catch(() => {})
        await rm(path, { force: true })
      },
    }
  }

  /** The octets of a file, unchecked. Rejects with the system's error. */
  read(name: string): Promise<Buffer> {
    return readFile(this.path(name))
  }

  /** Removes a file that no row names any more. Throws the system's error; `removeLeft` tries it again. */
  async remove(name: string): Promise<void> {
    this.#left.add(name)
    await rm(this.path(name), { force: true })
    this.#left.delete(name)
  }

  /**
   * Tries again to remove the files whose removal has failed: no row names them, so nothing else would remove them.
   * After a restart they are in quarantine. Throws the system's error.
   */
  async removeLeft(): Promise<void> {
    for (const name of this.#left) await this.remove(name)
  }

  /**
   * Moves every file for which `known` returns false into the quarantine. Most such files were left by a crash after
   * the file was written and before its row was. If the database was the wrong one, nothing is lost: files that the
   * right database knows are moved back. Returns the names of the files moved in each direction.
   */
  async sweep(known: (name: string) => boolean): Promise<{ unknown: string[]; back: string[] }> {
    const here = await filesIn(this.#directory)
    const unknown = here.filter((name) => !known(name))
    const back = (await this.quarantined()).filter((name) => known(name) && !here.includes(name))
    if (unknown.length > 0) await mkdir(this.#quarantine, { recursive: true, mode: 0o700 })
    await Promise.all([
      ...unknown.map((name) => rename(this.path(name), join(this.#quarantine, name))),
      ...back.map((name) => rename(join(this.#quarantine, name), this.path(name))),
    ])
    if (back.length > 0) for (const each of [this.#directory, this.#quarantine]) syncPath(each)
    return { unknown, back }
  }

  /** The names of the files in the quarantine. */
  quarantined(): Promise<string[]> {
    return filesIn(this.#quarantine)
  }

  /** Deletes files that were moved into the quarantine before a time (ms); returns how many. */
  async emptyQuarantine(before: number): Promise<number> {
    const names = await filesIn(this.#quarantine)
    const removed = await Promise.all(
      names.map(async (name) => {
        const file = join(this.#quarantine, name)
        // Moving a file sets its ctime.
        if ((await stat(file)).ctimeMs >= before) return 0
        await rm(file, { force: true })
        return 1
      }),
    )
    return removed.reduce<number>((sum, each) => sum + each, 0)
  }
}

/** The names of the plain files of a directory; none when it does not exist. */
async function filesIn(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory, { withFileTypes: true })).filter((each) => each.isFile()).map(({ name }) => name)
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return []
    throw thrown
  }
}
