// Scripts and styles of the console. The single executable contains them as assets. If the console runs from the
// sources, they are bundled at the first request. All of them come from this server.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import type { Context } from 'hono'
import { must } from '../base/errors.ts'
import { singleExecutable } from '../base/threads/pool.ts'
import { assetPath, nameAsset } from '../views/html/assets.ts'

/** Each asset and the source that it is made from: a file, or a package by its name. */
export const ASSETS: Readonly<Record<string, string>> = {
  'console.js': 'browser/console.ts',
  'editor.js': 'browser/editor.ts',
  'passkey.js': 'browser/passkey.ts',
  'console.css': 'browser/console.css',
  'frame.css': 'browser/frame.css',
  'inter-latin.woff2': '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2',
  'inter-latin-ext.woff2': '@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2',
  'docs.js': 'browser/docs.ts',
  'docs.css': 'browser/docs.css',
}

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  woff2: 'font/woff2',
}
/** Fonts are already compressed. */
const isPacked = (name: string): boolean => name.endsWith('.woff2')

interface Asset {
  type: string
  octets: Uint8Array<ArrayBuffer>
  /** Absent if the asset itself is compressed. */
  brotli: () => Uint8Array<ArrayBuffer> | undefined
  tag: string
}

const known = new Map<string, Promise<Asset>>()

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface MadeAsset {
  octets: Uint8Array
  /** Bytes from each file, by the path of the file below the project. */
  parts: Record<string, number>
}

/** An asset, made from its source. */
export async function makeAsset(name: string): Promise<MadeAsset> {
  const source = must(ASSETS[name], `The asset ${name}`)
  if (!source.startsWith('browser/')) {
    const file = createRequire(import.meta.url).resolve(source)
    const octets = readFileSync(file)
    const parts = { [relative(ROOT, file)]: octets.length }
    return { octets, parts }
  }
  const { build } = await import('esbuild')
  const { metafile, outputFiles } = await build({
    absWorkingDir: ROOT,
    metafile: true,
    outdir: 'out',
    entryPoints: [fileURLToPath(new URL(source, import.meta.url))],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    external: ['*.woff2'],
    target: 'es2022',
    logLevel: 'silent',
  })
  const [output] = Object.values(metafile.outputs)
  const files = Object.entries(must(output, `What is in ${name}`).inputs)
  return {
    octets: must(outputFiles[0], `The bundle of ${name}`).contents,
    parts: Object.fromEntries(files.map(([file, { bytesInOutput }]) => [file, bytesInOutput])),
  }
}

/** An asset of these bytes. Styles get the paths of their fonts, which must be named first. */
function assetOf(name: string, bytes: Uint8Array): Asset {
  const withFonts = (css: string): string =>
    css.replaceAll(/\/assets\/([\w-]+\.woff2)/g, (_, font: string) => assetPath(font))
  const octets = name.endsWith('.css')
    ? new TextEncoder().encode(withFonts(String(Buffer.from(bytes))))
    : new Uint8Array(bytes)
  const hash = createHash('sha256').update(octets).digest('base64url').slice(0, 22)
  nameAsset(name, hash)
  const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }
  let packed: Uint8Array<ArrayBuffer> | undefined
  return {
    type: must(TYPES[name.slice(name.lastIndexOf('.') + 1)], `The type of ${name}`),
    octets,
    brotli: () => (isPacked(name) ? undefined : (packed ??= new Uint8Array(brotliCompressSync(octets, quick)))),
    tag: `"${hash}"`,
  }
}

async function load(name: string): Promise<Asset> {
  if (!isPacked(name)) await Promise.all(FONTS.map((font) => assetNamed(font)))
  return assetOf(name, (await makeAsset(name)).octets)
}

const FONTS = Object.keys(ASSETS).filter(isPacked)

function assetNamed(name: string): Promise<Asset> {
  const loading = known.get(name) ?? load(name)
  known.set(name, loading)
  return loading
}

/** Names the assets that the single executable contains, so that its first page has their paths. */
export function nameAssets(): void {
  const inside = singleExecutable()
  for (const name of inside ? [...FONTS, ...Object.keys(ASSETS)] : [])
    if (inside && !known.has(name))
      known.set(name, Promise.resolve(assetOf(name, new Uint8Array(inside.getRawAsset(`console/${name}`)))))
}

/**
 * Responds with an asset, compressed if the browser accepts it, or with 404 for an unknown name. Under the path of its
 * content, it never changes.
 */
export async function serveAsset(context: Context, asked: string): Promise<Response> {
  const name = asked.replace(/\.[\w-]{22}(?=\.\w+$)/, '')
  if (!Object.hasOwn(ASSETS, name)) return context.text('Not found.\n', 404)
  const { brotli, octets, tag, type } = await assetNamed(name)
  const headers = {
    'Content-Type': type,
    ETag: tag,
    // A page of an earlier version may ask for content that is no longer there.
    'Cache-Control': assetPath(name) === `/assets/${asked}` ? 'public, max-age=31536000, immutable' : 'no-cache',
    'X-Content-Type-Options': 'nosniff',
    Vary: 'Accept-Encoding',
  }
  if (context.req.header('if-none-match') === tag) return context.body(null, 304, headers)
  const packed = /\bbr\b/.test(context.req.header('accept-encoding') ?? '') ? brotli() : undefined
  return packed
    ? context.body(packed, 200, { ...headers, 'Content-Encoding': 'br' })
    : context.body(octets, 200, headers)
}
