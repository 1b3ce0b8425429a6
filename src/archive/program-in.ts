// The executable in a file of a release: the file itself, that of a Debian package (an ar archive with data.tar), or
// that of a tar. It is read here, because an image has neither dpkg nor tar. No name in it becomes a path, and its size
// is bounded.
import { createReadStream, createWriteStream, fstatSync, closeSync, readSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Readable, type Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import { codeOf, codeOrMessage, OperatorError } from '../base/errors.ts'
import { openPlain } from '../base/plain-file.ts'
import { Octets } from './octets.ts'

const GZIP = '1f8b'
const ELF = '7f454c46'
const AR = '!<arch>\n'
const AR_HEADER = 60
/** A package has three. */
const MOST_MEMBERS = 10
const BLOCK = 512
const PIECE = 256 * 1024
/** The largest window of zstd, as a power of two; our packages take 8 MB. */
const MOST_WINDOW = 27
/** Octets and entries of a tar up to the program: some 150 MB in ten entries. */
export const MOST_UNPACKED = 1024 ** 3
const MOST_ENTRIES = 10_000

/** The names of architectures in Debian, by the number in ELF and by Node's name. */
const MACHINES = new Map([
  [62, 'amd64'],
  [183, 'arm64'],
])
const HERE = new Map([
  ['x64', 'amd64'],
  ['arm64', 'arm64'],
])

/** What the unpackers say of a stream that has no end. */
const CUT = ['Z_BUF_ERROR', 'ZSTD_error_srcSize_wrong']

const UNPACKERS: Record<string, () => Transform> = {
  '.zst': () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: MOST_WINDOW } }),
  '.gz': () => createGunzip(),
}

/** The executable in a file: itself, or unpacked into `place`. Throws an OperatorError for what holds none for here. */
export async function programIn(file: string, place: string): Promise<string> {
  const name = basename(file)
  const begin = beginningOf(file, 20)
  const text = begin.toString('latin1')
  if (begin.length === 0) throw new OperatorError(`${name} is empty; fetch it again.`)
  const packed = begin.toString('hex').startsWith(GZIP)
  // What is none of these would be run as lines of a shell.
  if (text.startsWith('#!') || machineOf(begin) !== undefined) return forHere(file, name)
  if (!packed && !text.startsWith(AR))
    throw new OperatorError(`${name} is not an executable, a Debian package or a tar; name the file of a release.`)
  const program = join(place, 'program')
  try {
    const data = packed ? { start: 0, size: statSync(file).size, end: '.gz' } : dataOf(file, name)
    await unpack(file, name, data, program)
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw thrown
    const code = codeOf(thrown)
    const what = CUT.includes(code) ? 'it is cut off' : codeOrMessage(thrown)
    const why = code === 'ENOSPC' ? 'the disk is full; make room' : `${what}; fetch it again`
    throw new OperatorError(`${name} cannot be unpacked: ${why}.`, { cause: thrown })
  }
  return forHere(program, name)
}

/** Throws an OperatorError for a program of another architecture; of a script nothing is known. */
function forHere(program: string, name: string): string {
  const machine = machineOf(beginningOf(program, 20))
  const here = HERE.get(process.arch) ?? process.arch
  if (machine !== undefined && machine !== here)
    throw new OperatorError(`${name} is for ${machine}, and this machine is ${here}; fetch the file for ${here}.`)
  return program
}

/** The architecture of an executable; undefined for what is not ELF. */
export function machineOf(begin: Buffer): string | undefined {
  if (begin.length < 20 || begin.toString('hex', 0, 4) !== ELF) return undefined
  const number = begin[5] === 2 ? begin.readUInt16BE(18) : begin.readUInt16LE(18)
  return MACHINES.get(number) ?? `another architecture (${number})`
}

interface PackedTar {
  start: number
  size: number
  /** How it is packed, as the end of a name. */
  end: string
}

/** Where data.tar lies in a Debian package. */
function dataOf(file: string, name: string): PackedTar {
  const handle = openPlain(file)
  try {
    const { size: whole } = fstatSync(handle)
    const header = Buffer.alloc(AR_HEADER)
    for (let at = AR.length, n = 0; at < whole && n < MOST_MEMBERS; n++) {
      const member = readSync(handle, header, 0, AR_HEADER, at) < AR_HEADER ? undefined : memberIn(header)
      const start = at + AR_HEADER
      if (member === undefined || start + member.size > whole)
        throw new OperatorError(`${name} is cut off or damaged; fetch it again.`)
      if (member.name.startsWith('data.tar'))
        return { start, size: member.size, end: member.name.slice('data.tar'.length) }
      at = start + member.size + (member.size % 2)
    }
    throw new OperatorError(`${name} is not a Debian package: it has no data; name the file of a release.`)
  } finally {
    closeSync(handle)
  }
}

/** The header of a member of an ar archive; undefined for what is none. */
export function memberIn(header: Buffer): { name: string; size: number } | undefined {
  const text = header.toString('latin1')
  const [, name] = /^([\w.+-]+)\/? *$/.exec(text.slice(0, 16)) ?? []
  const [, size] = /^(\d+) *$/.exec(text.slice(48, 58)) ?? []
  if (name === undefined || size === undefined || text.slice(58) !== '`\n') return undefined
  return { name, size: Number(size) }
}

async function unpack(file: string, name: string, { end, size, start }: PackedTar, program: string): Promise<void> {
  const unpacker = UNPACKERS[end]?.()
  if (unpacker === undefined)
    throw new OperatorError(
      `${name} is packed as "data.tar${end}", and packages of Postrider as "data.tar.zst"; name the file of a release from 0.3.0 on.`,
    )
  const piped = pipeline(createReadStream(file, { start, end: start + size - 1 }), unpacker)
  piped.catch(() => {})
  const octets = new Octets(unpacker as AsyncIterable<Uint8Array>)
  try {
    const found = await programOf(octets)
    if (found === undefined)
      throw new OperatorError(`${name} is not of Postrider: it has no usr/bin/postrider; name the file of a release.`)
    await pipeline(Readable.from(taken(octets, found)), createWriteStream(program, { mode: 0o700, flags: 'wx' }))
    // What follows is not kept, but read: the checksum of the whole stands at its end.
    for (let left = MOST_UNPACKED; !(await octets.ended()); left -= (await octets.take(PIECE)).length)
      if (left < 0) throw new Error('it is larger than any release')
  } finally {
    unpacker.destroy()
    await piped.catch(() => {})
  }
}

/** Reads a tar up to the content of the program; returns its size, undefined where there is none. */
async function programOf(octets: Octets): Promise<number | undefined> {
  let left = MOST_UNPACKED
  for (let n = 0; n < MOST_ENTRIES; n++) {
    const entry = entryIn(await octets.take(BLOCK))
    if (entry === undefined) return undefined
    left -= entry.size
    if (left < 0) throw new Error('it is larger than any release')
    if (entry.file && /(?:^|\/)usr\/bin\/postrider$/.test(entry.name)) return entry.size
    for await (const _ of taken(octets, Math.ceil(entry.size / BLOCK) * BLOCK));
  }
  return undefined
}

async function* taken(octets: Octets, size: number): AsyncIterable<Buffer> {
  for (let left = size; left > 0;) {
    const piece = await octets.take(Math.min(left, PIECE))
    if (piece.length === 0) throw new Error('it is cut off')
    left -= piece.length
    yield piece
  }
}

/** The header of an entry of a tar; undefined at the end and for what is none. */
export function entryIn(block: Buffer): { name: string; size: number; file: boolean } | undefined {
  if (block.length < BLOCK) return undefined
  const sum = block.reduce((all, octet, at) => all + (at >= 148 && at < 156 ? 32 : octet), 0)
  const octal = (from: number, to: number): number => {
    const [digits] = /^ *[0-7]+(?!\w)/.exec(block.toString('latin1', from, to)) ?? []
    return digits === undefined ? NaN : Number.parseInt(digits, 8)
  }
  const size = octal(124, 136)
  if (octal(148, 156) !== sum || Number.isNaN(size)) return undefined
  const name = block.toString('latin1', 0, 100).replace(/\0.*$/s, '')
  return { name, size, file: block[156] === 0x30 || block[156] === 0 }
}

/** The first octets of a file, at most so many. */
export function beginningOf(path: string, octets: number): Buffer {
  const handle = openPlain(path, { links: true })
  try {
    const buffer = Buffer.alloc(octets)
    return buffer.subarray(0, readSync(handle, buffer, 0, octets, 0))
  } finally {
    closeSync(handle)
  }
}
