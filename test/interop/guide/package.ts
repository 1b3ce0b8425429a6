// The package under test, as `npm run` builds it in dist/. POSTRIDER_DEB is the path of an existing Debian package.

import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '../../..')
const DIST = join(ROOT, 'dist')
/** For a build, in ms: a busy machine needs several times as long as an idle one. */
const TIMEOUT = 600_000
const run = promisify(execFile)

/** Where the run outside the network leaves word for the one within. */
const MADE = 'POSTRIDER_GUIDE_PACKAGE'

export interface Package {
  file: string
  version: string
  /** Names of the packages it depends on; the first of each alternative. */
  depends: string[]
}

/** What goes into the package, below the project's folder. */
const SOURCES = ['bin', 'config', 'packaging', 'src', 'package.json', 'package-lock.json']

const changed = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0

/** Whether a file was made after all that goes into it was changed. */
function isFresh(path: string): boolean {
  const files = SOURCES.flatMap((name) => {
    const source = join(ROOT, name)
    if (!statSync(source).isDirectory()) return [source]
    return [source, ...readdirSync(source, { recursive: true, encoding: 'utf8' }).map((each) => join(source, each))]
  })
  return changed(path) >= Math.max(...files.map(changed))
}

/** The package in dist/ that is not older than what it is made of. */
const newestPackage = (architecture: string): string | undefined =>
  (existsSync(DIST) ? readdirSync(DIST) : [])
    .filter((name) => name.startsWith('postrider_') && name.endsWith(`_${architecture}.deb`))
    .map((name) => join(DIST, name))
    .filter(isFresh)
    .toSorted((a, b) => changed(b) - changed(a))[0]

/** A file of dist/; `npm run STEP` makes it, unless one lies there that is newer than all sources. */
export async function built(step: string, name: string): Promise<string> {
  const file = join(DIST, name)
  if (!isFresh(file)) await run('npm', ['run', step], { cwd: ROOT, timeout: TIMEOUT, maxBuffer: 1 << 26 })
  return file
}

/** Builds the package, unless one lies in dist/ that is newer than all sources. */
export async function debianPackage(): Promise<Package> {
  const given = process.env['POSTRIDER_DEB'] ?? process.env[MADE]
  if (given !== undefined) return await described(resolve(ROOT, given))
  const architecture = (await run('dpkg', ['--print-architecture'])).stdout.trim()
  if (newestPackage(architecture) === undefined) {
    const command = ['run', 'package', '--', '--arch', architecture]
    await run('npm', command, { cwd: ROOT, timeout: TIMEOUT, maxBuffer: 1 << 26 })
  }
  const newest = newestPackage(architecture)
  if (newest === undefined) throw new Error(`npm run package made no package for ${architecture} in dist/`)
  process.env[MADE] = newest
  return await described(newest)
}

async function described(file: string): Promise<Package> {
  const field = async (name: string) => (await run('dpkg-deb', ['--field', file, name])).stdout.trim()
  const depends = (await field('Depends')).split(',').map((each) => /^\s*([^\s:(|]+)/.exec(each)?.[1] ?? '')
  return { file, version: await field('Version'), depends: depends.filter(Boolean) }
}

/** The same package under a later version, made in `dir`: what a next release is to dpkg. */
export async function laterPackage({ file, version }: Package, dir: string, name = 'later'): Promise<Package> {
  const tree = mkdtempSync(join(dir, 'package-'))
  await run('dpkg-deb', ['--raw-extract', file, tree], { timeout: TIMEOUT })
  const control = join(tree, 'DEBIAN/control')
  const later = `${version}+${name}`
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${later}`))
  const made = join(dir, `postrider_${later}.deb`)
  // Little compression: the time is better spent elsewhere.
  await run('dpkg-deb', ['-Zgzip', '-z1', '--root-owner-group', '--build', tree, made], { timeout: TIMEOUT })
  return await described(made)
}
