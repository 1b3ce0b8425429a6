// The bundles of the executable: one for the program and one for each kind of worker thread.
//
// They are ASCII, because V8 stores a source with any other character in two bytes per character. They contain only
// code that the program uses: parts of libraries are replaced (packaging/stand-ins), and a package that is installed
// several times in the same version is included once.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { build, type Metafile, type Plugin } from 'esbuild'
import { ROOT } from './node.ts'

/** The modules that start a thread of the process, by the file of their bundle. */
export const ENTRIES: Record<string, string> = {
  'main.mjs': 'bin/postrider.ts',
  'worker.mjs': 'src/delivery/wire/worker.ts',
  'reader.mjs': 'src/inbound/reader.ts',
  'apart-worker.mjs': 'src/views/html/apart-worker.ts',
  'list-worker.mjs': 'src/lists/list-worker.ts',
  'report-worker.mjs': 'src/reports/reading/report-worker.ts',
  'upgrade-worker.mjs': 'src/store/upgrade-worker.ts',
  'source-worker.mjs': 'src/mail/source-worker.ts',
  'content-worker.mjs': 'src/campaigns/content-worker.ts',
}

// CommonJS dependencies use require for builtins, which an ES module does not have. The main module of an executable
// gets its import.meta at the first access, and an empty one if that access is late, in a part that is loaded by
// import(). Therefore it is accessed here.
const BANNER =
  "import{createRequire as __cr}from'node:module';const require=__cr(process.execPath);" +
  'const __filename=process.execPath,__dirname=process.cwd();void import.meta.url;'

/** Files that are replaced in bundles, and their replacements. */
const STAND_INS: Record<string, string> = {
  'node_modules/mailauth/lib/bimi/index.js': 'bimi.ts',
  'node_modules/mailauth/lib/bimi/validate-svg.js': 'bimi-svg.ts',
  'node_modules/joi/lib/index.js': 'joi.ts',
}

/** The package of a file in node_modules: the innermost one, because packages can be nested. */
const PACKAGE = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//

/** A bundle: its size in bytes, and the bytes from each source file. */
export interface Bundle {
  bytes: number
  parts: Record<string, number>
}

/** The commit that is built, for "postrider version", or undefined outside a checkout. */
function commit(): string | undefined {
  try {
    return execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], {
      cwd: ROOT,
      stdio: 'pipe',
      encoding: 'utf8',
    }).trim()
  } catch {
    return undefined
  }
}

/** The directory of the first copy of a package, by the directory of another copy of the same version. */
function copies(): Map<string, string> {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version?: string }>
  }
  const first = new Map<string, string>()
  const others = new Map<string, string>()
  for (const folder of Object.keys(packages).sort()) {
    const key = `${folder.split('node_modules/').at(-1)} ${packages[folder]!.version}`
    if (first.has(key)) others.set(folder, first.get(key)!)
    else first.set(key, folder)
  }
  return others
}

/** Replaces files by their stand-ins, and further copies of a package by the first one. */
function leaner(): Plugin {
  const once = copies()
  const replaced = (path: string): string => {
    const file = relative(ROOT, path)
    const standIn = STAND_INS[file]
    if (standIn !== undefined) return join(ROOT, 'packaging/stand-ins', standIn)
    const folder = PACKAGE.exec(file)?.[1]
    const instead = folder === undefined ? undefined : once.get(folder)
    return instead === undefined ? path : join(ROOT, instead, file.slice(folder!.length))
  }
  return {
    name: 'leaner',
    setup(builder) {
      builder.onResolve({ filter: /./ }, async ({ importer, kind, path, pluginData, resolveDir }) => {
        if (pluginData === 'asked' || kind === 'entry-point') return undefined
        const found = await builder.resolve(path, { importer, kind, resolveDir, pluginData: 'asked' })
        if (found.external || found.errors.length > 0 || found.namespace !== 'file') return found
        return { ...found, path: replaced(found.path) }
      })
    },
  }
}

/**
 * Returns the text of a bundle in ASCII. An escape means the same as its character in strings, regular expressions and
 * comments, where esbuild leaves them. Throws for a raw template, where it does not.
 */
export function ascii(code: string): string {
  // oxlint-disable-next-line no-control-regex
  const others = /[^\0-\x7f]+/g
  const raw = /\braw`[^`]*[^\0-\x7f`]/.exec(code)
  if (raw) throw new Error(`A raw template contains characters outside ASCII: ${raw[0].slice(0, 80)}`)
  return code.replace(others, (run) =>
    Array.from({ length: run.length }, (_, at) => `\\u${run.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  )
}

/** Writes the bundle of an entry. Throws if it is not ASCII. */
export async function bundle(entry: string, outfile: string): Promise<Bundle> {
  const { metafile } = await build({
    entryPoints: [join(ROOT, entry)],
    absWorkingDir: ROOT,
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node26',
    format: 'esm',
    charset: 'ascii',
    minify: true,
    keepNames: true,
    metafile: true,
    // Builds the scripts of the console if the program runs from its sources.
    external: ['esbuild'],
    // The builtin with this name is deprecated and would print a warning.
    alias: { punycode: 'punycode.js' },
    banner: { js: BANNER },
    define: {
      POSTRIDER_COMMIT: JSON.stringify(commit()) ?? 'undefined',
    },
    plugins: [leaner()],
    logLevel: 'warning',
  })
  const code = ascii(readFileSync(outfile, 'utf8'))
  writeFileSync(outfile, code)
  const bytes = readFileSync(outfile)
  if (bytes.some((byte) => byte > 0x7f)) throw new Error(`${entry}: the bundle contains characters outside ASCII`)
  return { bytes: bytes.length, parts: partsOf(metafile) }
}

function partsOf({ inputs, outputs }: Metafile): Record<string, number> {
  const [output] = Object.values(outputs)
  // Files without remaining code count too, because their packages have a licence.
  return Object.fromEntries(Object.keys(inputs).map((file) => [file, output!.inputs[file]?.bytesInOutput ?? 0]))
}

/** Returns the bytes of each npm package in bundles and assets, by its directory, largest first. */
export function packagesIn(bundles: readonly Pick<Bundle, 'parts'>[]): Map<string, number> {
  const sums = new Map<string, number>()
  for (const { parts } of bundles)
    for (const [file, bytes] of Object.entries(parts)) {
      const folder = PACKAGE.exec(file)?.[1]
      if (folder !== undefined) sums.set(folder, (sums.get(folder) ?? 0) + bytes)
    }
  return new Map([...sums].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1)))
}
