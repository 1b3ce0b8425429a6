// New files that are made durable together: the disk takes many small files at once in far less time than one after the
// other.
//
// Guarantees: each file is synced by the descriptor that wrote it, which hears of every octet that the disk did not
// take; when `sync` has returned, all of them are on the disk.
import { closeSync, fsync, openSync } from 'node:fs'
import { promisify } from 'node:util'

/** The most files that are open: far below what a process may open. */
const MOST = 256

export class SyncedLot implements Disposable {
  #files: number[] = []

  /** A new file, to be written before the next one is made. Throws the system's error, also for those before it. */
  async create(path: string): Promise<number> {
    if (this.#files.length >= MOST) await this.sync()
    const file = openSync(path, 'wx', 0o600)
    this.#files.push(file)
    return file
  }

  /** Throws the system's error when a file is not on the disk. */
  async sync(): Promise<void> {
    const synced = promisify(fsync)
    // None is closed while another is on its way.
    for (const end of await Promise.allSettled(this.#files.map((file) => synced(file))))
      if (end.status === 'rejected') throw end.reason
    for (const file of this.#files.splice(0)) closeSync(file)
  }

  [Symbol.dispose](): void {
    for (const file of this.#files.splice(0)) {
      try {
        closeSync(file)
      } catch {
        // Its folder is removed: what led here was another failure.
      }
    }
  }
}
