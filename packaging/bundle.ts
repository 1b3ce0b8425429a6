// The bundles of the executable: one for the program and one for each kind of worker thread.
//
// They are ASCII: V8 keeps a source with one other character with two octets for each. And they hold nothing that the
// program never runs: parts of libraries are replaced (packaging/stand-ins), and a package that lies in several folders
// in one version is taken once.
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
  'apart-worker.mjs': 'src/webui/apart-worker.ts',
  'list-worker.mjs': 'src/lists/list-worker.ts',
  'report-worker.mjs': 'src/reports/reading/report-worker.ts',
  'upgrade-worker.mjs': 'src/store/upgrade-worker.ts',
  'source-worker.mjs': 'src/mail/source-worker.ts',
}

// CommonJS dependencies ask for builtins through require, which an ES module does not have. The main module of an
// executable gets its import.meta at the first look, and an empty one when that look comes late, from a part that is
// loaded by import(): so it is looked at here.
const BANNER =
  "import{createRequire as __cr}from'node:module';const require=__cr(process.execPath);" +
  'const __filename=process.execPath,__dirname=process.cwd();void import.meta.url;'

/** Files that are not bundled, and what is bundled in their place. */
const STAND_INS: Record<string, string> = {
  'node_modules/mailauth/lib/bimi/index.js': 'bimi.ts',
  'node_modules/mailauth/lib/bimi/validate-svg.js': 'bimi-svg.ts',
  'node_modules/joi/lib/index.js': 'joi.ts',
}

/** Addons that are looked for and are not there: ssh2 goes on without them. */
const ADDONS = /^cpu-features$|\/sshcrypto\.node$/

/** The package of a file in node_modules: the innermost, for one may lie in the node_modules of another. */
const PACKAGE = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//

/** A bundle: its size in octets, and the octets in it by the file that they come from, below the project. */
export interface Bundle {
  octets: number
  parts: Record<string, number>
}

/** The commit that is built, as "postrider version" says it; undefined outside a checkout. */
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

/** The folder to take a package from, by the folder of a further copy of the same version. */
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

/** Replaces files by their stand-ins, and further copies of a package by the first. */
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
        if (ADDONS.test(path)) return { path: join(ROOT, 'packaging/stand-ins/no-addon.ts') }
        const found = await builder.resolve(path, { importer, kind, resolveDir, pluginData: 'asked' })
        if (found.external || found.errors.length > 0 || found.namespace !== 'file') return found
        return { ...found, path: replaced(found.path) }
      })
    },
  }
}

/**
 * The text of a bundle in ASCII. An escape means the same as its character in texts, regular expressions and comments,
 * which is where esbuild leaves them. Throws where it does not: in a raw template.
 */
export function ascii(code: string): string {
  // oxlint-disable-next-line no-control-regex
  const others = /[^\0-\x7f]+/g
  const raw = /\braw`[^`]*[^\0-\x7f`]/.exec(code)
  if (raw) throw new Error(`A raw template holds more than ASCII: ${raw[0].slice(0, 80)}`)
  return code.replace(others, (run) =>
    Array.from({ length: run.length }, (_, at) => `\\u${run.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  )
}

/** Writes the bundle of an entry. Throws when more than ASCII is left in it. */
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
    // It makes the console's scripts where the program runs from its sources.
    external: ['esbuild'],
    // The builtin of that name is deprecated and would print a warning.
    alias: { punycode: 'punycode.js' },
    banner: { js: BANNER },
    define: {
      POSTRIDER_COMMIT: JSON.stringify(commit()) ?? 'undefined',
      POSTRIDER_CHANGELOG: JSON.stringify(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')),
    },
    plugins: [leaner()],
    logLevel: 'warning',
  })
  const code = ascii(readFileSync(outfile, 'utf8'))
  writeFileSync(outfile, code)
  const octets = readFileSync(outfile)
  if (octets.some((octet) => octet > 0x7f)) throw new Error(`${entry}: the bundle holds more than ASCII`)
  return { octets: octets.length, parts: partsOf(metafile) }
}

function partsOf({ inputs, outputs }: Metafile): Record<string, number> {
  const [output] = Object.values(outputs)
  // A file of which nothing is left counts too: its package has a licence.
  return Object.fromEntries(Object.keys(inputs).map((file) => [file, output!.inputs[file]?.bytesInOutput ?? 0]))
}

/** The octets of each npm package in bundles and assets, by its folder below the project, the heaviest first. */
export function packagesIn(bundles: readonly Pick<Bundle, 'parts'>[]): Map<string, number> {
  const sums = new Map<string, number>()
  for (const { parts } of bundles)
    for (const [file, octets] of Object.entries(parts)) {
      const folder = PACKAGE.exec(file)?.[1]
      if (folder !== undefined) sums.set(folder, (sums.get(folder) ?? 0) + octets)
    }
  return new Map([...sums].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1)))
}
