// Makes one executable with Node, the program, its workers, the SQLite addon and the assets inside.
//
//   bundle (esbuild) -> the Node of the architecture, stripped -> node --build-sea
//
// The order matters: a binary that is stripped after the injection no longer runs. It is this machine's Node that
// injects, whatever the architecture of the other.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { ASSETS, makeAsset } from '../src/console/assets.ts'
import { isNative, placeNode, ROOT, type Architecture } from './node.ts'

export const DIST = join(ROOT, 'dist')

// CommonJS dependencies ask for builtins through require, which an ES module does not have. The main module of an
// executable gets its import.meta at the first look, and an empty one when that look comes late, from a part that is
// loaded by import(): so it is looked at here.
const BANNER =
  "import{createRequire as __cr}from'node:module';const require=__cr(process.execPath);" +
  'const __filename=process.execPath,__dirname=process.cwd();void import.meta.url;'

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

/** The bundle of one entry; answers the files that are in it, as paths below the project. */
async function bundle(entry: string, outfile: string): Promise<string[]> {
  const { metafile } = await build({
    entryPoints: [join(ROOT, entry)],
    absWorkingDir: ROOT,
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node26',
    format: 'esm',
    minify: true,
    keepNames: true,
    metafile: true,
    // It makes the console's scripts where the program runs from its sources.
    external: ['esbuild'],
    // The builtin of that name is deprecated and would print a warning.
    alias: { punycode: 'punycode.js' },
    banner: { js: BANNER },
    define: { POSTRIDER_COMMIT: JSON.stringify(commit()) ?? 'undefined' },
    logLevel: 'warning',
  })
  return Object.keys(metafile.inputs)
}

/** Scripts and styles of the console, as files by the name of their asset. */
async function consoleAssets(folder: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {}
  for (const name of Object.keys(ASSETS)) {
    const file = join(folder, name)
    writeFileSync(file, await makeAsset(name))
    files[`console/${name}`] = file
  }
  return files
}

/** dist/postrider for this machine, dist/postrider-linux-ARCH for another. */
export const executableFor = (arch: Architecture): string =>
  join(DIST, isNative(arch) ? 'postrider' : `postrider-linux-${arch}`)

/** Builds it; answers the folders of the npm packages that are inside, below the project. */
export async function buildExecutable(arch: Architecture): Promise<string[]> {
  const platform = isNative(arch) ? process.platform : 'linux'
  const output = executableFor(arch)
  mkdirSync(DIST, { recursive: true })
  const folder = mkdtempSync(join(DIST, 'build-'))
  try {
    const inputs = [
      ...(await bundle('bin/postrider.ts', join(folder, 'main.mjs'))),
      ...(await bundle('src/delivery/wire/worker.ts', join(folder, 'worker.mjs'))),
      ...(await bundle('src/inbound/reader.ts', join(folder, 'reader.mjs'))),
      ...(await bundle('src/webui/apart-worker.ts', join(folder, 'apart-worker.mjs'))),
      ...(await bundle('src/lists/list-worker.ts', join(folder, 'list-worker.mjs'))),
    ]
    const node = join(folder, 'node')
    placeNode(arch, node)
    const sea = {
      main: join(folder, 'main.mjs'),
      mainFormat: 'module',
      executable: node,
      output,
      disableExperimentalSEAWarning: true,
      // A code cache is of one architecture, and differs with each build.
      useCodeCache: false,
      useSnapshot: false,
      // Of the algorithms that passkeys may be of.
      execArgv: ['--disable-warning=ExperimentalWarning'],
      execArgvExtension: 'none',
      assets: {
        'better_sqlite3.node': join(ROOT, `node_modules/better-sqlite3/prebuilds/${platform}-${arch}.node`),
        'worker.mjs': join(folder, 'worker.mjs'),
        'reader.mjs': join(folder, 'reader.mjs'),
        'apart-worker.mjs': join(folder, 'apart-worker.mjs'),
        'list-worker.mjs': join(folder, 'list-worker.mjs'),
        ...(await consoleAssets(folder)),
        ...Object.fromEntries(readdirSync(join(ROOT, 'config')).map((name) => [name, join(ROOT, 'config', name)])),
      },
    }
    writeFileSync(join(folder, 'sea.json'), JSON.stringify(sea, null, 2))
    rmSync(output, { force: true })
    execFileSync(process.execPath, ['--build-sea', join(folder, 'sea.json')], { stdio: 'inherit' })
    chmodSync(output, 0o755)
    // The innermost package: one may lie in the node_modules of another.
    const packages = inputs.flatMap((file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? [])
    return [...new Set(packages)].sort()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
