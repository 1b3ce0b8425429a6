// A file that can be read more than once: a file on disk, or a copy of standard input in the data directory. The copy
// is unlinked when it is created, so that a crash leaves no data.
import { closeSync, createReadStream, fstatSync, open, openSync, read, unlinkSync, writeSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { execLine } from '../base/container.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'

export interface ListSource {
  /** Its name in messages. */
  name: string
  /** The file name without its path. '' for standard input. */
  file: string
  size: number
  /** The contents from the start. Can be called again. */
  chunks(): AsyncIterable<Buffer>
  /** Throws an OperatorError when the file has changed since it was opened. */
  checkUnchanged(): void
  close(): void
}

/**
 * Opens a file before the process switches from root to the owner of the data directory. Returns undefined for "-".
 * Throws an OperatorError.
 */
export async function openNamed(path: string): Promise<number | undefined> {
  if (path === '-') return undefined
  try {
    // Asynchronous, because opening a pipe waits for its writer.
    return await openFile(path, 'r')
  } catch (thrown) {
    const why = codeOf(thrown) === 'ENOENT' ? 'the file does not exist' : codeOf(thrown)
    throw new OperatorError(`${path} cannot be read (${why}); use a CSV file, or "-" for standard input.`)
  }
}

/** Opens a file, unless it is opened, or standard input for "-". Throws an OperatorError. */
export async function openSource(path: string, dataDir: string, now: number, opened?: number): Promise<ListSource> {
  const fd = opened ?? (await openNamed(path))
  if (fd === undefined) {
    const source = await spooled('standard input', '', process.stdin, dataDir, now)
    if (source.size > 0) return source
    source.close()
    throw new OperatorError(
      `Standard input is empty; pipe the file into it, as in "${execLine('… -', 'reads')} <FILE".`,
    )
  }
  const stat = fstatSync(fd)
  if (!stat.isFile() && !stat.isFIFO()) {
    // A device can be endless.
    closeSync(fd)
    const what = stat.isDirectory() ? 'a directory' : 'not a regular file'
    throw new OperatorError(`${path} is ${what}; use a CSV file, or "-" for standard input.`)
  }
  if (stat.isFile()) return sourceOf(path, basename(path), fd)
  // A pipe can be read only once, so it is copied.
  return spooled(path, basename(path), createReadStream('', { fd }), dataDir, now)
}

async function spooled(
  name: string,
  file: string,
  input: AsyncIterable<Buffer | string>,
  dataDir: string,
  now: number,
): Promise<ListSource> {
  const path = join(dataDir, `import-${newId(now)}.tmp`)
  const fd = openSync(path, 'wx+', 0o600)
  unlinkSync(path)
  try {
    for await (const chunk of input) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
      for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
    }
  } catch (thrown) {
    closeSync(fd)
    throw new OperatorError(
      `${name} cannot be read completely (${codeOf(thrown)}); check its disk. Nothing was imported.`,
    )
  }
  return sourceOf(name, file, fd)
}

const CHUNK = 64 * 1024
const readAt = promisify(read)
const openFile = promisify(open)

/** Not a stream: a stream that is not read to its end closes the file. */
async function* chunksOf(fd: number): AsyncIterable<Buffer> {
  for (let at = 0; ;) {
    const { buffer, bytesRead } = await readAt(fd, Buffer.allocUnsafe(CHUNK), 0, CHUNK, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

function sourceOf(name: string, file: string, fd: number): ListSource {
  const { mtimeMs, size } = fstatSync(fd)
  return {
    name,
    file,
    size,
    chunks: () => chunksOf(fd),
    checkUnchanged() {
      const now = fstatSync(fd)
      if (now.mtimeMs !== mtimeMs || now.size !== size)
        throw new OperatorError(
          `${name} changed while it was read; try again when it is complete. Nothing was imported.`,
        )
    },
    close: () => closeSync(fd),
  }
}

/** A file that is in memory. */
export const heldSource = (name: string, file: string, bytes: Uint8Array): ListSource => ({
  name,
  file,
  size: bytes.length,
  async *chunks() {
    for (let at = 0; at < bytes.length; at += CHUNK) yield Buffer.from(bytes.subarray(at, at + CHUNK))
  },
  checkUnchanged() {},
  close() {},
})
