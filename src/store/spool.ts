// Mail that is too large for the database: files in the spool of the data directory, written to the disk before the
// mail is accepted. The row of the mail holds the name of the file. A file without a row is moved into the quarantine
// at the start and removed 30 days later. When a row refers to it at a later start, the file is moved back.
import { createHash, hash as digestOf } from 'node:crypto'
import { closeSync, fdatasync, fsync, openSync, writeSync } from 'node:fs'
import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory, syncPath } from '../base/durable.ts'
import { Damaged, isSpoolName, openSpooled, provenName } from '../base/spooled.ts'
import { codeOf, codeOrMessage } from '../base/errors.ts'
import { silentLog, type Log } from '../base/log.ts'

/** A message with more bytes than this is kept in the spool. */
export const SPOOL_ABOVE = 256 * 1024
/** The same for a body that was posted: in the database it would be written twice, and hashed and copied more often. */
export const BODY_ABOVE = 64 * 1024
/** A file of up to this many bytes is written in one call. Only its sync is waited for elsewhere. */
const AT_ONCE = 1024 * 1024

const sync = (call: typeof fsync, file: number): Promise<void> =>
  new Promise((resolve, reject) => call(file, (thrown) => (thrown ? reject(thrown) : resolve())))

/** The directory for files without a row. */
export const QUARANTINE = 'quarantine'

export interface Draft {
  /** Path of the file until it is kept. */
  path: string
  write(bytes: string | Uint8Array): Promise<void>
  /** Makes the file durable. Returns its final name (base/spooled.ts). */
  keep(): Promise<string>
  drop(): Promise<void>
}

export class Spool {
  readonly #directory: string
  readonly #quarantine: string
  readonly #log: Pick<Log, 'error'>
  /** Files that are being removed, or whose removal failed. */
  readonly #left = new Set<string>()
  /** The sync of the directory that starts after the current one. It covers every file created until then. */
  #next: Promise<void> | undefined
  #syncing: Promise<void> = Promise.resolve()

  constructor(dataDir: string, log: Pick<Log, 'error'> = silentLog) {
    this.#log = log
    this.#directory = join(dataDir, 'spool')
    this.#quarantine = join(this.#directory, QUARANTINE)
  }

  /** The path of a file. '' is the spool itself. Throws Damaged for a name that would lead out of the spool. */
  path(name: string): string {
    if (name !== '' && !isSpoolName(name)) throw new Damaged('A row has an invalid spool file name.')
    return join(this.#directory, name)
  }

  /** Writes a whole file durably (file and directory entry) or not at all. Returns its final name. */
  async put(name: string, content: string | Uint8Array): Promise<string> {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content
    return (bytes.length <= AT_ONCE && (await this.#putAtOnce(name, bytes))) || this.#putSlowly(name, bytes)
  }

  /**
   * The name of a small file is known before it is written, so it needs no draft to rename. After a crash, a partial
   * file has no row. The page cache takes the bytes at once. Calls in another thread would cost more than the write.
   * Returns undefined if there is a file of this name, which is not touched.
   */
  async #putAtOnce(name: string, bytes: Uint8Array): Promise<string | undefined> {
    const proven = provenName(name, bytes.length, digestOf('sha256', bytes, 'buffer'))
    const path = this.path(proven)
    const file = this.#create(path)
    if (file === undefined) return undefined
    try {
      try {
        for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at)
        await sync(fdatasync, file)
      } finally {
        closeSync(file)
      }
      await this.#syncDirectory()
      return proven
    } catch (thrown) {
      await rm(path, { force: true })
      throw thrown
    }
  }

  #create(path: string): number | undefined {
    try {
      return openSync(path, 'wx', 0o600)
    } catch (thrown) {
      if (codeOf(thrown) === 'EEXIST') return undefined
      if (codeOf(thrown) !== 'ENOENT') throw thrown
      makeDirectory(this.#directory)
      return openSync(path, 'wx', 0o600)
    }
  }

  /** Makes the entries of all files created until now durable. Concurrent calls share a sync. */
  #syncDirectory(): Promise<void> {
    this.#next ??= this.#syncing
      .catch(() => {})
      .then(async () => {
        this.#syncing = this.#next ?? Promise.resolve()
        this.#next = undefined
        const directory = openSync(this.#directory, 'r')
        try {
          await sync(fsync, directory)
        } finally {
          closeSync(directory)
        }
      })
    return this.#next
  }

  async #putSlowly(name: string, bytes: Uint8Array): Promise<string> {
    const draft = await this.draft(name)
    try {
      await draft.write(bytes)
      return await draft.keep()
    } catch (thrown) {
      await draft.drop()
      throw thrown
    }
  }

  /** A file that is written piece by piece. `keep` makes it durable and names it. */
  async draft(name: string): Promise<Draft> {
    makeDirectory(this.#directory)
    const path = this.path(`${name}.part`)
    const file = await open(path, 'wx', 0o600)
    const hash = createHash('sha256')
    let size = 0
    return {
      path,
      write: async (bytes) => {
        hash.update(bytes)
        size += Buffer.byteLength(bytes)
        await file.writeFile(bytes)
      },
      keep: async () => {
        await file.datasync()
        await file.close()
        const proven = provenName(name, size, hash.digest())
        await rename(path, this.path(proven))
        await this.#syncDirectory()
        return proven
      },
      drop: async () => {
        await file.close().catch(() => {})
        await rm(path, { force: true })
      },
    }
  }

  /** The bytes of a file, whose size is checked, but not its digest. Rejects with Damaged or the system's error. */
  async read(name: string): Promise<Buffer> {
    await using file = await openSpooled(this.path(name))
    return await file.readFile()
  }

  /**
   * Removes a file without a row. Never rejects: the row is deleted, so the caller is finished. A failure is logged,
   * and `removeLeft` tries again.
   */
  async remove(name: string): Promise<void> {
    await this.#remove(name).catch((thrown: unknown) => this.#tellLeft(name, thrown))
  }

  async #remove(name: string): Promise<void> {
    if (!isSpoolName(name)) return this.#tellLeft(name, 'It is not a spool file name.')
    this.#left.add(name)
    try {
      await rm(this.path(name), { force: true })
    } catch (thrown) {
      if (!codeOf(thrown).endsWith('EISDIR')) throw thrown
      // This object is not from this server, so it is kept. The original file is lost.
      this.#tellLeft(name, thrown)
    }
    this.#left.delete(name)
  }

  #tellLeft(file: string, thrown: unknown): void {
    this.#log.error('spool_delete_failed', { file, error: codeOrMessage(thrown) })
  }

  /**
   * Tries again to remove the files whose removal has failed: without a row they would stay forever. After a restart
   * they are in quarantine. Throws the system's error.
   */
  async removeLeft(): Promise<void> {
    for (const name of this.#left) await this.#remove(name)
  }

  /**
   * Moves every file for which `known` returns false into the quarantine. Most such files are from a crash after the
   * file was written and before its row was. If the database was the wrong one, the files are not lost: those that the
   * right database knows are moved back. Returns the names of the files moved in each direction.
   */
  async sweep(known: (name: string) => boolean): Promise<{ unknown: string[]; back: string[] }> {
    const here = await filesIn(this.#directory)
    const unknown = here.filter((name) => !known(name))
    const back = (await this.quarantined()).filter((name) => known(name) && !here.includes(name))
    if (unknown.length > 0) makeDirectory(this.#quarantine)
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

  /** Deletes files that were moved into the quarantine before a time (ms). Returns how many. */
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

/** The names of the plain files of a directory. Empty if it does not exist. */
async function filesIn(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory, { withFileTypes: true })).filter((each) => each.isFile()).map(({ name }) => name)
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return []
    throw thrown
  }
}
