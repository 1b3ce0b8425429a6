// Scripts and styles of the console. The single executable contains them as assets; from the sources, they are bundled
// at the first request. Nothing is loaded from another host.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import type { Context } from 'hono'
import { must } from '../base/errors.ts'
import { singleExecutable } from '../base/threads/pool.ts'

/** Each asset and the source that it is made from: a file, or a package by its name. */
export const ASSETS: Readonly<Record<string, string>> = {
  'console.js': 'browser/console.ts',
  'chart.js': 'browser/chart.ts',
  'editor.js': 'browser/editor.ts',
  'passkey.js': 'browser/passkey.ts',
  'console.css': 'browser/console.css',
  'frame.css': 'browser/frame.css',
  'docs.js': 'redoc/bundles/redoc.standalone.js',
  'docs-start.js': 'browser/docs.ts',
  'docs.css': 'browser/docs.css',
}

const TYPES = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8' } as const

interface Asset {
  type: string
  octets: Uint8Array<ArrayBuffer>
  brotli: Uint8Array<ArrayBuffer>
  tag: string
}

const known = new Map<string, Promise<Asset>>()

/** The octets of an asset, made from its source. */
export async function makeAsset(name: string): Promise<Uint8Array> {
  const source = must(ASSETS[name], `The asset ${name}`)
  if (!source.startsWith('browser/')) {
    const script = readFileSync(createRequire(import.meta.url).resolve(source), 'utf8')
    // Redoc loads its logo from another host; without it the image is not shown.
    return Buffer.from(script.replaceAll('https://cdn.redoc.ly/redoc/logo-mini.svg', 'data:,'))
  }
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(source, import.meta.url))],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    logLevel: 'silent',
  })
  return must(outputFiles[0], `The bundle of ${name}`).contents
}

async function load(name: string): Promise<Asset> {
  const inside = singleExecutable()
  const octets = inside ? new Uint8Array(inside.getRawAsset(`console/${name}`)) : await makeAsset(name)
  const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }
  return {
    type: TYPES[name.endsWith('.css') ? 'css' : 'js'],
    octets: new Uint8Array(octets),
    brotli: new Uint8Array(brotliCompressSync(octets, quick)),
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
  const packed = /\bbr\b/.test(context.req.header('accept-encoding') ?? '')
  return context.body(packed ? brotli : octets, 200, packed ? { ...headers, 'Content-Encoding': 'br' } : headers)
}
