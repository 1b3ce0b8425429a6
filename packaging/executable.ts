// Builds one executable that contains Node, the program, its workers, the SQLite addon and the assets.
//
//   bundle (esbuild) -> the Node of the architecture, stripped -> node --build-sea
//
// The order matters: a binary that is stripped after the injection no longer runs. The Node of the architecture
// injects the program with V8's code cache. If it cannot run here, this machine's Node injects it without a cache. If
// V8 rejects the cache, the build fails. The same commit results in the same bytes in every directory.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { ASSETS, makeAsset, type MadeAsset } from '../src/console/assets.ts'
import { messageOf } from '../src/base/errors.ts'
import { packSources, SOURCES } from '../src/base/threads/packed-sources.ts'
import { bundle, ENTRIES, packagesIn, type Bundle } from './bundle.ts'
import { unpackBase } from './image/base.ts'
import { isNative, placeNode, ROOT, type Architecture } from './node.ts'

export const DIST = join(ROOT, 'dist')

const MAIN = 'main.mjs'

/** Writes the scripts, styles and fonts of the console as files. Returns them by asset name, and their sources. */
async function consoleAssets(folder: string): Promise<{ files: Record<string, string>; made: MadeAsset[] }> {
  const files: Record<string, string> = {}
  const made: MadeAsset[] = []
  for (const name of Object.keys(ASSETS)) {
    const file = join(folder, name)
    const asset = await makeAsset(name)
    writeFileSync(file, asset.octets)
    files[`console/${name}`] = file
    made.push(asset)
  }
  return { files, made }
}

/** dist/postrider for this machine, dist/postrider-linux-ARCH for another. */
export const executableFor = (arch: Architecture): string =>
  join(DIST, isNative(arch) ? 'postrider' : `postrider-linux-${arch}`)

/** The SQLite addon. The executable contains it, and the package and the image also install it as a file. */
export const addonFor = (arch: Architecture): string =>
  join(ROOT, `node_modules/better-sqlite3/prebuilds/${isNative(arch) ? process.platform : 'linux'}-${arch}.node`)

export interface Built {
  bundles: Record<string, Bundle>
  /** The bytes of each npm package inside, by its directory below the project, largest first. */
  packages: Map<string, number>
}

/**
 * Builds the executable. Throws if strip is not installed, unless `unstripped`: Node then keeps its symbols.
 */
export async function buildExecutable(arch: Architecture, unstripped = false): Promise<Built> {
  const output = executableFor(arch)
  mkdirSync(DIST, { recursive: true })
  const folder = mkdtempSync(join(DIST, 'build-'))
  try {
    placeNode(arch, join(folder, 'node'), unstripped)
    const bundles: Record<string, Bundle> = {}
    for (const [name, entry] of Object.entries(ENTRIES)) bundles[name] = await bundle(entry, join(folder, name))
    const runner = runnerFor(arch, folder)
    if (!runner)
      console.log(
        `${arch}: its Node does not run here, so the executable has no code cache and starts more slowly (install qemu-user-static)`,
      )
    const assets = await consoleAssets(folder)
    const workers = Object.keys(ENTRIES).filter((name) => name !== MAIN)
    const sources = workers.map((name) => [name, readFileSync(join(folder, name), 'utf8')] as const)
    writeFileSync(join(folder, SOURCES), packSources(Object.fromEntries(sources)))
    const sea = {
      // A relative path, because the executable contains it and must not depend on the directory.
      main: MAIN,
      mainFormat: 'module',
      executable: 'node',
      output,
      disableExperimentalSEAWarning: true,
      useCodeCache: runner !== undefined,
      useSnapshot: false,
      // The warning is about algorithms of passkeys.
      execArgv: ['--disable-warning=ExperimentalWarning'],
      execArgvExtension: 'none',
      assets: {
        'better_sqlite3.node': addonFor(arch),
        [SOURCES]: SOURCES,
        ...assets.files,
        'webhooks.md': join(ROOT, 'docs/webhooks.md'),
        ...Object.fromEntries(configFiles().map((name) => [name, join(ROOT, 'config', name)])),
      },
    }
    writeFileSync(join(folder, 'sea.json'), JSON.stringify(sea, null, 2))
    rmSync(output, { force: true })
    const [program, ...args] = runner ? [...runner, join(folder, 'node')] : [process.execPath]
    // With a fixed seed the code cache has the same bytes in every build.
    execFileSync(program!, [...args, '--random-seed=1', '--build-sea', 'sea.json'], { cwd: folder, stdio: 'ignore' })
    chmodSync(output, 0o755)
    if (runner) requireCodeCache(runner, output)
    return { bundles, packages: packagesIn([...Object.values(bundles), ...assets.made]) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The files of config/ by their names below it. */
const configFiles = (): string[] =>
  readdirSync(join(ROOT, 'config'), { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [relative(join(ROOT, 'config'), join(entry.parentPath, entry.name))] : [],
  )

/**
 * Returns the command that runs a program of the architecture here, or undefined if that is not possible. A program of
 * another architecture uses the libraries of the image.
 */
function runnerFor(arch: Architecture, folder: string): string[] | undefined {
  if (isNative(arch)) return []
  const emulator = `qemu-${arch === 'arm64' ? 'aarch64' : 'x86_64'}-static`
  if (spawnSync(emulator, ['--version']).status !== 0) return undefined
  const libraries = join(folder, 'libraries')
  try {
    unpackBase(arch === 'arm64' ? 'arm64' : 'amd64', libraries)
  } catch (thrown) {
    console.log(`${arch}: the libraries of the image are not available: ${messageOf(thrown)}`)
    return undefined
  }
  const runner = [emulator, '-L', libraries]
  return spawnSync(emulator, [...runner.slice(1), join(folder, 'node'), '--version']).status === 0 ? runner : undefined
}

/** V8 accepts a code cache only from its own architecture, and otherwise logs at each start that it rejects it. */
function requireCodeCache(runner: readonly string[], file: string): void {
  const [program, ...args] = [...runner, file, '--version']
  const { stderr } = spawnSync(program!, args, { encoding: 'utf8', env: { ...process.env, NODE_DEBUG_NATIVE: 'SEA' } })
  if (stderr.includes('code cache accepted')) return
  rmSync(file)
  throw new Error(`V8 does not accept the code cache of ${file}, which was removed: ${stderr.trim()}`)
}
