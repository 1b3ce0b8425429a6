// The content of a gzip or zip archive (RFC 1952, APPNOTE of PKWARE). Of the metadata only the position of the data is
// used: inflating ends at a limit of bytes, and the checksum must match. File names are compared, and never used as
// paths.
import { crc32, inflateRawSync } from 'node:zlib'
import { codeOf } from '../../base/errors.ts'
import { LIMITS, UnreadableReport } from './report.ts'

const broken = (): UnreadableReport => new UnreadableReport('archive', false)

interface Inflated {
  content: Buffer
  /** Bytes of the archive that were used. */
  used: number
}

/** The smallest buffer for inflated bytes. */
const CHUNK = 64 * 1024

/**
 * Inflates the stream at the start of some bytes, to at most `most` bytes. `hint` is the size in the archive's
 * metadata: with a buffer of this size, the content is in memory once, not in pieces and as their sum.
 */
function inflate(bytes: Buffer, most: number, hint: number): Inflated {
  try {
    const chunkSize = Math.max(CHUNK, Math.min(hint, most) + 1)
    // A limit of 0 would mean no limit. The declared types omit that `info` changes the result.
    const options = { maxOutputLength: Math.max(1, most), chunkSize, info: true }
    const { buffer, engine } = inflateRawSync(bytes, options) as unknown as {
      buffer: Buffer
      engine: { bytesWritten: number }
    }
    if (buffer.length > most) throw new UnreadableReport('too_large')
    return { content: buffer, used: engine.bytesWritten }
  } catch (thrown) {
    if (thrown instanceof UnreadableReport) throw thrown
    throw codeOf(thrown) === 'ERR_BUFFER_TOO_LARGE' ? new UnreadableReport('too_large') : broken()
  }
}

const isMember = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b && bytes[2] === 8

const [HEADER_CRC, EXTRA, NAME, COMMENT, RESERVED] = [2, 4, 8, 16, 0xe0]

/** The offset of a member's data. */
function dataOf(bytes: Buffer): number {
  if (bytes.length < 18) throw broken()
  const flags = bytes.readUInt8(3)
  if ((flags & RESERVED) !== 0) throw broken()
  let at = 10
  if ((flags & EXTRA) !== 0) at += 2 + bytes.readUInt16LE(at)
  for (const text of [NAME, COMMENT])
    if ((flags & text) !== 0) {
      const end = bytes.indexOf(0, at)
      if (end < 0) throw broken()
      at = end + 1
    }
  if ((flags & HEADER_CRC) !== 0) at += 2
  return at
}

/** All members of a gzip archive. Bytes after the last one are ignored. */
export function gunzip(archive: Buffer): Buffer {
  const members: Buffer[] = []
  let size = 0
  // The size of the last member. The sizes of others are not in the archive.
  const lastSize = archive.length < 18 ? 0 : archive.readUInt32LE(archive.length - 4)
  for (let rest = archive; members.length === 0 || isMember(rest);) {
    if (members.length === LIMITS.members) throw new UnreadableReport('too_large')
    const start = dataOf(rest)
    const { content, used } = inflate(rest.subarray(start), LIMITS.unpacked - size, members.length === 0 ? lastSize : 0)
    const end = start + used
    if (end + 8 > rest.length) throw broken()
    if (rest.readUInt32LE(end) !== crc32(content)) throw broken()
    members.push(content)
    size += content.length
    rest = rest.subarray(end + 8)
  }
  const [only, second] = members
  return only && !second ? only : Buffer.concat(members)
}

const [LOCAL, CENTRAL, END] = [0x04034b50, 0x02014b50, 0x06054b50]
const [LOCAL_SIZE, CENTRAL_SIZE, END_SIZE] = [30, 46, 22]
const MOST_COMMENT = 0xffff
const ENCRYPTED = 0x2041
const [STORED, DEFLATED] = [0, 8]

/** The offset of the record at the end of a zip archive: the last one with a complete comment. */
function endRecord(archive: Buffer): number {
  for (let at = archive.length - END_SIZE; at >= Math.max(0, archive.length - END_SIZE - MOST_COMMENT); at--)
    if (archive.readUInt32LE(at) === END && at + END_SIZE + archive.readUInt16LE(at + 20) <= archive.length) return at
  throw broken()
}

interface ZipEntry {
  flags: number
  method: number
  sum: number
  size: number
  at: number
}

/** The only file in the directory of a zip archive, besides folders and the files that macOS adds. */
function onlyFile(archive: Buffer, start: number, end: number): ZipEntry {
  let found: ZipEntry | undefined
  let entries = 0
  for (let at = start; at < end;) {
    if (at + CENTRAL_SIZE > end || archive.readUInt32LE(at) !== CENTRAL) throw broken()
    if (++entries > LIMITS.members) throw broken()
    const length = archive.readUInt16LE(at + 28)
    const name = archive.toString('latin1', at + CENTRAL_SIZE, Math.min(end, at + CENTRAL_SIZE + length))
    if (!name.endsWith('/') && !name.startsWith('__MACOSX/')) {
      if (found) throw broken()
      found = {
        flags: archive.readUInt16LE(at + 8),
        method: archive.readUInt16LE(at + 10),
        sum: archive.readUInt32LE(at + 16),
        size: archive.readUInt32LE(at + 20),
        at: archive.readUInt32LE(at + 42),
      }
    }
    at += CENTRAL_SIZE + length + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32)
  }
  if (!found) throw broken()
  return found
}

/** The only file of a zip archive. */
export function unzip(archive: Buffer): Buffer {
  const end = endRecord(archive)
  const start = archive.readUInt32LE(end + 16)
  const { at, flags, method, size, sum } = onlyFile(archive, start, end)
  if ((flags & ENCRYPTED) !== 0 || at + LOCAL_SIZE > start || archive.readUInt32LE(at) !== LOCAL) throw broken()
  const data = at + LOCAL_SIZE + archive.readUInt16LE(at + 26) + archive.readUInt16LE(at + 28)
  if (data > start) throw broken()
  const bytes = archive.subarray(data, start)
  // The checksum detects a wrong size of a stored file. A deflated one has its own end.
  const content =
    method === DEFLATED
      ? inflate(bytes, LIMITS.unpacked, size).content
      : method === STORED && size <= bytes.length
        ? bytes.subarray(0, size)
        : undefined
  if (!content || crc32(content) !== sum) throw broken()
  return content
}
