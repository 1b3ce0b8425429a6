// A file that is read more than once: as it lies on the disk, or what comes on standard input, spooled into the data directory. The spooled
// file has no name from the start, so that a crash leaves nothing of it behind.
import { closeSync, createReadStream, fstatSync, open, openSync, read, unlinkSync, writeSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { codeOf, OperatorError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'

export interface Source {
  /** What messages call it. */
  name: string
  /** The name of the file alone; '' for standard input. */
  file: string
  size: number
  /** From its beginning. */
  chunks(): AsyncIterable<Buffer>
  /** Throws an OperatorError when it is no longer what was read first. */
  checkUnchanged(): void
  close(): void
}

/** Opens a file, or with "-" standard input. Throws an OperatorError. */
export async function openSource(path: string, dataDir: string, now: number): Promise<Source> {
  if (path === '-') return spooled('standard input', '', process.stdin, dataDir, now)
  let fd: number
  try {
    // A pipe opens when somebody writes to it.
    fd = await openFile(path, 'r')
  } catch (thrown) {
    const why = codeOf(thrown) === 'ENOENT' ? 'there is no such file' : codeOf(thrown)
    throw new OperatorError(`${path} cannot be read: ${why}; give a CSV file, or "-" for standard input.`)
  }
  const stat = fstatSync(fd)
  if (stat.isDirectory()) {
    closeSync(fd)
    throw new OperatorError(`${path} cannot be read: it is a directory; give a CSV file, or "-" for standard input.`)
  }
  if (stat.isFile()) return sourceOf(path, basename(path), fd)
  // A pipe can be read once only.
  return spooled(path, basename(path), createReadStream('', { fd }), dataDir, now)
}

async function spooled(
  name: string,
  file: string,
  input: AsyncIterable<Buffer | string>,
  dataDir: string,
  now: number,
): Promise<Source> {
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
    throw new OperatorError(`${name} cannot be read to its end (${codeOf(thrown)}); nothing was imported.`)
  }
  return sourceOf(name, file, fd)
}

const CHUNK = 64 * 1024
const readAt = promisify(read)
const openFile = promisify(open)

/** Not a stream: that would close the file when it is left before its end. */
async function* chunksOf(fd: number): AsyncIterable<Buffer> {
  for (let at = 0; ;) {
    const { buffer, bytesRead } = await readAt(fd, Buffer.allocUnsafe(CHUNK), 0, CHUNK, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

function sourceOf(name: string, file: string, fd: number): Source {
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
          `${name} changed while it was read; nothing was imported. Try again when it is complete.`,
        )
    },
    close: () => closeSync(fd),
  }
}
