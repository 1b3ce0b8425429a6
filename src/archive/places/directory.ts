// A directory as a place for backups. A file has its name only when it is whole and on the disk: it is written under a
// name with a dot, synced, and renamed.
import { rmSync } from 'node:fs'
import { open, opendir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { syncPath } from '../../base/durable.ts'
import { codeOf } from '../../base/errors.ts'
import { isNoFile, openPlainHandle } from '../../base/plain-file.ts'
import { clearOnSignal } from '../../base/clear-on-signal.ts'
import { partName, type Backend, type BackupObject } from './backend.ts'
import { fileFault, PlaceFault } from './place-fault.ts'

const PIECE = 256 * 1024

export class DirectoryBackend implements Backend {
  readonly title: string
  readonly leavesParts = true
  readonly #folder: string

  constructor(folder: string) {
    this.title = folder
    this.#folder = folder
  }

  async put(name: string, octets: AsyncIterable<Uint8Array>): Promise<void> {
    const part = join(this.#folder, partName(name))
    // The signal that ends this process leaves nothing either (B4).
    const unheard = clearOnSignal(() => rmSync(part, { force: true }))
    await this.#run(async () => {
      // A part of an earlier try is not written into: something may still hold it.
      await rm(part, { force: true })
      const file = await open(part, 'wx', 0o600).catch((thrown: unknown) => this.#absent(thrown))
      try {
        try {
          for await (const piece of octets) await writeWhole(file, piece)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(part, join(this.#folder, name))
        syncPath(this.#folder)
      } catch (thrown) {
        await rm(part, { force: true })
        throw thrown
      }
    }).finally(unheard)
  }

  async *entries(): AsyncIterable<BackupObject> {
    const folder = await this.#run(() => opendir(this.#folder).catch((thrown: unknown) => this.#absent(thrown)))
    for await (const entry of folder) {
      if (!entry.isFile()) continue
      const found = await this.head(entry.name)
      if (found) yield found
    }
  }

  head(name: string): Promise<BackupObject | undefined> {
    return this.#run(async () => {
      try {
        const file = await openPlainHandle(join(this.#folder, name))
        try {
          const { mtimeMs, size } = await file.stat()
          return { name, size, at: mtimeMs }
        } finally {
          await file.close()
        }
      } catch (thrown) {
        if (!isNoFile(thrown)) throw thrown
        await this.#demandFolder()
        return undefined
      }
    })
  }

  async *get(name: string, from: number): AsyncIterable<Uint8Array> {
    const file = await this.#run(() =>
      openPlainHandle(join(this.#folder, name)).catch((thrown: unknown) => {
        throw isNoFile(thrown) ? new PlaceFault('missing', this.title, `there is no ${name}`) : thrown
      }),
    )
    try {
      for (let at = from; ;) {
        const piece = Buffer.allocUnsafe(PIECE)
        const { bytesRead } = await this.#run(() => file.read(piece, 0, PIECE, at))
        if (bytesRead === 0) return
        at += bytesRead
        yield piece.subarray(0, bytesRead)
      }
    } finally {
      await file.close()
    }
  }

  remove(name: string): Promise<void> {
    return this.#run(async () => {
      await rm(join(this.#folder, name), { force: true })
      await this.#demandFolder()
    })
  }

  async close(): Promise<void> {}

  /** Throws when the directory itself is not there: it is not made, for its disk may only not be mounted. */
  async #demandFolder(): Promise<void> {
    await stat(this.#folder).catch((thrown: unknown) => this.#absent(thrown))
  }

  #absent(thrown: unknown): never {
    if (codeOf(thrown) !== 'ENOENT') throw thrown
    throw new PlaceFault('bucket', this.title, 'there is no such directory (is its disk mounted?)')
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (thrown) {
      throw fileFault(this.title, thrown) ?? thrown
    }
  }
}

async function writeWhole(
  file: { write: (piece: Uint8Array) => Promise<{ bytesWritten: number }> },
  piece: Uint8Array,
): Promise<void> {
  for (let rest = piece; rest.length > 0;) rest = rest.subarray((await file.write(rest)).bytesWritten)
}
