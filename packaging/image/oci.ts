// An image in OCI's layout, as one archive: layers, configuration and manifest of each architecture, one index over
// them, and the names of that index. Everything is named by the SHA-256 of its octets.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { constants, zstdCompressSync } from 'node:zlib'
import { tar, type Tree } from './tar.ts'

/** How layers are packed: gzip, which every engine reads, or zstd at a level. */
export type Packing = 'gzip' | { zstd: number }

/** What of an image differs between architectures, and what an engine is told to do with it. */
export interface Platform {
  architecture: string
  /** From the lowest up. */
  layers: Tree[]
}

export interface ImageOptions {
  /** How the image is started: the object `config` of its configuration. */
  config: Record<string, unknown>
  /** The time of everything in it, in seconds. */
  time: number
  /** Names for the index, such as "1.2.3" and "latest". */
  names: readonly string[]
  packing: Packing
}

interface Descriptor {
  mediaType: string
  digest: string
  size: number
}

const OCI = 'application/vnd.oci.image'

const digestOf = (octets: Buffer): string => `sha256:${createHash('sha256').update(octets).digest('hex')}`

/** The archive of an image for all its platforms. */
export function ociArchive(platforms: readonly Platform[], { config, names, packing, time }: ImageOptions): Buffer {
  const files: Tree = new Map([['oci-layout', { kind: 'file', content: json({ imageLayoutVersion: '1.0.0' }) }]])
  const add = (mediaType: string, content: Buffer): Descriptor => {
    const digest = digestOf(content)
    files.set(`blobs/${digest.replace(':', '/')}`, { kind: 'file', content })
    return { mediaType: `${OCI}.${mediaType}`, digest, size: content.length }
  }
  const created = new Date(time * 1000).toISOString().replace('.000', '')
  const manifests = platforms.map(({ architecture, layers }) => {
    const plain = layers.map((layer) => tar(layer, time))
    const platform = { architecture, os: 'linux' }
    const rootfs = { type: 'layers', diff_ids: plain.map(digestOf) }
    const own = add('config.v1+json', json({ created, ...platform, config, rootfs }))
    const packed = plain.map((layer) =>
      add(`layer.v1.tar+${packing === 'gzip' ? 'gzip' : 'zstd'}`, pack(layer, packing)),
    )
    const mediaType = `${OCI}.manifest.v1+json`
    return { ...add('manifest.v1+json', json({ schemaVersion: 2, mediaType, config: own, layers: packed })), platform }
  })
  const index = { schemaVersion: 2, mediaType: `${OCI}.index.v1+json` }
  const inner = add('index.v1+json', json({ ...index, manifests }))
  const named = names.map((name) => ({ ...inner, annotations: { 'org.opencontainers.image.ref.name': name } }))
  files.set('index.json', { kind: 'file', content: json({ ...index, manifests: named }) })
  return tar(files, time)
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

// gzip(1) packs 3 % tighter than the zlib that Node has.
const pack = (octets: Buffer, packing: Packing): Buffer =>
  packing === 'gzip'
    ? execFileSync('gzip', ['-9n'], { input: octets, maxBuffer: Infinity })
    : zstdCompressSync(octets, { params: { [constants.ZSTD_c_compressionLevel]: packing.zstd } })
