// Scripts and styles of the console. The single executable contains them as assets; from the sources, they are bundled
// at the first request. Nothing is loaded from another host.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import type { Context } from 'hono'
import { must } from '../base/errors.ts'
import { singleExecutable } from '../base/threads/pool.ts'

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
/** Fonts are compressed already. */
const isPacked = (name: string): boolean => name.endsWith('.woff2')

interface Asset {
  type: string
  octets: Uint8Array<ArrayBuffer>
  /** Absent when the asset is compressed itself. */
  brotli: Uint8Array<ArrayBuffer> | undefined
  tag: string
}

const known = new Map<string, Promise<Asset>>()

/** The folder of the project. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface MadeAsset {
  octets: Uint8Array
  /** How many octets of it come from each file, by the path of the file below the project. */
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

async function load(name: string): Promise<Asset> {
  const inside = singleExecutable()
  const octets = inside ? new Uint8Array(inside.getRawAsset(`console/${name}`)) : (await makeAsset(name)).octets
  const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }
  return {
    type: must(TYPES[name.slice(name.lastIndexOf('.') + 1)], `The type of ${name}`),
    octets: new Uint8Array(octets),
    brotli: isPacked(name) ? undefined : new Uint8Array(brotliCompressSync(octets, quick)),
    tag: `"${createHash('sha256').update(octets).digest('base64url').slice(0, 22)}"`,
  }
}

/** Answers with an asset, compressed when the browser accepts it; 404 for an unknown name. */
export async function serveAsset(context: Context, name: string): Promise<Response> {
  if (!Object.hasOwn(ASSETS, name)) return context.text('There is nothing here.\n', 404)
  const loading = known.get(name) ?? load(name)
  known.set(name, loading)
  const { brotli, octets, tag, type } = await loading
  const headers = {
    'Content-Type': type,
    ETag: tag,
    'Cache-Control': 'no-cache',
    'X-Content-Type-Options': 'nosniff',
    Vary: 'Accept-Encoding',
  }
  if (context.req.header('if-none-match') === tag) return context.body(null, 304, headers)
  return brotli !== undefined && /\bbr\b/.test(context.req.header('accept-encoding') ?? '')
    ? context.body(brotli, 200, { ...headers, 'Content-Encoding': 'br' })
    : context.body(octets, 200, headers)
}
