// The sources of the worker threads in the executable, packed as one stream: they share most of their libraries, so the
// stream needs a tenth of the space. A stream has name, text, name, text and so on, each followed by a NUL.
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

/** The asset of the executable that holds them. */
export const SOURCES = 'workers.zst'

const { ZSTD_c_compressionLevel, ZSTD_c_enableLongDistanceMatching, ZSTD_c_windowLog, ZSTD_d_windowLogMax } = constants
/** 32 MB, more than all of them: a library is found again however far away it is. */
const WINDOW = 25
const LEVEL = 19

/** Packs sources in ASCII by their names. */
export function packSources(sources: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(sources).flat()
  const all = Buffer.from(parts.map((part) => `${part}\0`).join(''))
  if (all.some((byte) => byte > 0x7f) || parts.some((part) => part.includes('\0')))
    throw new Error('The source of a worker thread must be ASCII without NUL.')
  return zstdCompressSync(all, {
    params: { [ZSTD_c_compressionLevel]: LEVEL, [ZSTD_c_enableLongDistanceMatching]: 1, [ZSTD_c_windowLog]: WINDOW },
  })
}

/** Returns the source of one name, in some milliseconds. Throws if it does not exist. */
export function unpackSource(packed: Uint8Array, name: string): string {
  const all = zstdDecompressSync(packed, { params: { [ZSTD_d_windowLogMax]: WINDOW } })
  for (let at = 0; at < all.length;) {
    const named = all.indexOf(0, at)
    const end = all.indexOf(0, named + 1)
    if (all.toString('latin1', at, named) === name) return all.toString('latin1', named + 1, end)
    at = end + 1
  }
  throw new Error(`The executable does not contain the worker thread ${name}.`)
}
