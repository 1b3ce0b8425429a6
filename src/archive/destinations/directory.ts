// A directory as a backup destination. A file is written under a name that starts with a dot, synced and renamed, so
// that a file with its own name is complete and durable.
import { rmSync } from 'node:fs'
import { open, opendir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { BACKUP_PREFIX } from '../../base/backup-target.ts'
import { syncPath } from '../../base/durable.ts'
import { DAY, type Clock } from '../../base/clock.ts'
import { codeOf } from '../../base/errors.ts'
import { isNoFile, openPlainHandle } from '../../base/plain-file.ts'
import { clearOnSignal } from '../../base/clear-on-signal.ts'
import type { Backend, StoredObject } from './backend.ts'
import { DestinationFault, fileFault } from './fault.ts'

const PIECE = 256 * 1024

const draftName = (name: string): string => `.${name}.part`
const isDraft = (name: string): boolean => name.startsWith(`.${BACKUP_PREFIX}`) && name.endsWith('.part')

export class DirectoryBackend implements Backend {
  readonly title: string
  readonly #clock: Clock

  constructor(path: string, { clock }: { clock: Clock }) {
    this.title = path
    this.#clock = clock
  }

  async put(name: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const draft = this.#path(draftName(name))
    const unregister = clearOnSignal(() => rmSync(draft, { force: true }))
    await this.#run(async () => {
      await this.#removeStale()
      // A new file, because another process may still write to a draft of an earlier attempt.
      await rm(draft, { force: true })
      const file = await open(draft, 'wx', 0o600).catch((thrown: unknown) => this.#absent(thrown))
      try {
        try {
          for await (const piece of bytes) await writeWhole(file, piece)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(draft, this.#path(name))
        syncPath(this.title)
      } catch (thrown) {
        await rm(draft, { force: true })
        throw thrown
      }
    }).finally(unregister)
  }

  async *list(): AsyncIterable<StoredObject> {
    for await (const name of this.#files()) {
      const size = await this.sizeOf(name)
      if (size !== undefined) yield { name, size }
    }
  }

  sizeOf(name: string): Promise<number | undefined> {
    return this.#run(async () => {
      try {
        await using file = await openPlainHandle(this.#path(name))
        return (await file.stat()).size
      } catch (thrown) {
        if (!isNoFile(thrown)) throw thrown
        await this.#demandDirectory()
        return undefined
      }
    })
  }

  async *get(name: string): AsyncIterable<Uint8Array> {
    await using file = await this.#run(() =>
      openPlainHandle(this.#path(name)).catch((thrown: unknown) => {
        throw isNoFile(thrown) ? new DestinationFault('missing', this.title, `${name} does not exist`) : thrown
      }),
    )
    for (;;) {
      const piece = Buffer.allocUnsafe(PIECE)
      const { bytesRead } = await this.#run(() => file.read(piece, 0, PIECE))
      if (bytesRead === 0) return
      yield piece.subarray(0, bytesRead)
    }
  }

  remove(name: string): Promise<void> {
    return this.#run(async () => {
      await rm(this.#path(name), { force: true })
      await this.#demandDirectory()
    })
  }

  async close(): Promise<void> {}

  #path(name: string): string {
    return join(this.title, name)
  }

  async *#files(): AsyncIterable<string> {
    const entries = await this.#run(() => opendir(this.title).catch((thrown: unknown) => this.#absent(thrown)))
    for await (const entry of entries) if (entry.isFile()) yield entry.name
  }

  /** Removes drafts of uploads that were killed more than a day ago. */
  async #removeStale(): Promise<void> {
    for await (const name of this.#files()) {
      const found = isDraft(name) ? await stat(this.#path(name)).catch(() => undefined) : undefined
      if (found && found.mtimeMs < this.#clock.now() - DAY) await rm(this.#path(name), { force: true })
    }
  }

  /** Throws if the directory does not exist. It is never created, because its disk may just not be mounted. */
  async #demandDirectory(): Promise<void> {
    await stat(this.title).catch((thrown: unknown) => this.#absent(thrown))
  }

  #absent(thrown: unknown): never {
    if (codeOf(thrown) !== 'ENOENT') throw thrown
    throw new DestinationFault('bucket', this.title, 'the directory does not exist (is its disk mounted?)')
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
