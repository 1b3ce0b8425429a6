// The pages of a database copy: their digests, and those that differ from an earlier copy, as a write-ahead log. SQLite
// applies the log when it opens the earlier copy next to it (https://sqlite.org/fileformat2.html, 4).
import { createHash, hash } from 'node:crypto'
import { fstatSync, readSync } from 'node:fs'
import { bufferCollector } from '../base/native.ts'
import { openPlainHandle } from '../base/plain-file.ts'

/** Bytes of a digest: half of a SHA-256. The digest of a complete database is made of all of them. */
const DIGEST = 16
const PAGES_AT_ONCE = 256
const FRAME_HEADER = 24
/** Little-endian checksums, as all supported processors calculate them. */
const MAGIC = 0x37_7f_06_82
const FORMAT = 3_007_000

const pageSizeOf = (head: Buffer): number => (head.readUInt16BE(16) === 1 ? 65_536 : head.readUInt16BE(16))

/** The digests of all pages of a database that no process writes to, one after the other. */
export async function digestsOf(file: string): Promise<Buffer> {
  await using handle = await openPlainHandle(file)
  const head = Buffer.alloc(100)
  await handle.read(head, 0, head.length, 0)
  const page = pageSizeOf(head)
  const { size } = fstatSync(handle.fd)
  const digests = Buffer.alloc(Math.ceil(size / page) * DIGEST)
  const piece = Buffer.allocUnsafe(page * PAGES_AT_ONCE)
  for (let at = 0, to = 0; at < size;) {
    const { bytesRead } = await handle.read(piece, 0, piece.length, at)
    for (let begin = 0; begin < bytesRead; begin += page, to += DIGEST)
      hash('sha256', piece.subarray(begin, Math.min(begin + page, bytesRead)), 'buffer').copy(digests, to, 0, DIGEST)
    if (bytesRead === 0) break
    at += bytesRead
  }
  return digests
}

export const pagesIn = (digests: Buffer): number => digests.length / DIGEST

/** The digest of a database, from those of its pages. */
export const rootOf = (digests: Buffer): string => createHash('sha256').update(digests).digest('hex')

/** The numbers, from 1, of the pages that differ from those of an earlier copy. */
export function changedPages(digests: Buffer, earlier: Buffer): number[] {
  const changed: number[] = []
  for (let at = 0; at < digests.length; at += DIGEST)
    if (!digests.subarray(at, at + DIGEST).equals(earlier.subarray(at, at + DIGEST))) changed.push(at / DIGEST + 1)
  return changed
}

/** A write-ahead log of one transaction, which turns the earlier copy into this one. */
export async function* logOf(file: string, changed: readonly number[]): AsyncIterable<Buffer> {
  await using handle = await openPlainHandle(file)
  const header = Buffer.alloc(32)
  await handle.read(header, 0, header.length, 0)
  const page = pageSizeOf(header)
  const pages = fstatSync(handle.fd).size / page
  header.fill(0)
  for (const [at, value] of [MAGIC, FORMAT, page, 0, 1, 1].entries()) header.writeUInt32BE(value, 4 * at)
  const sum = checksum([0, 0], header.subarray(0, 24))
  for (const [at, value] of sum.entries()) header.writeUInt32BE(value, 24 + 4 * at)
  yield header
  const collect = bufferCollector()
  let running = sum
  for (const [at, number] of changed.entries()) {
    const frame = Buffer.alloc(FRAME_HEADER + page)
    frame.writeUInt32BE(number, 0)
    // The last frame commits, with the size of the database.
    frame.writeUInt32BE(at === changed.length - 1 ? pages : 0, 4)
    header.copy(frame, 8, 16, 24)
    readSync(handle.fd, frame, FRAME_HEADER, page, (number - 1) * page)
    running = checksum(checksum(running, frame.subarray(0, 8)), frame.subarray(FRAME_HEADER))
    for (const [word, value] of running.entries()) frame.writeUInt32BE(value, 16 + 4 * word)
    collect(frame.length)
    yield frame
  }
}

type Checksum = [number, number]

/** The checksum of a log, continued over more bytes. */
function checksum([one, other]: Checksum, bytes: Buffer): Checksum {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = 0; at < bytes.length; at += 8) {
    one = (one + view.getUint32(at, true) + other) >>> 0
    other = (other + view.getUint32(at + 4, true) + one) >>> 0
  }
  return [one, other]
}
