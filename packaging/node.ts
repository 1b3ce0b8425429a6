// The Node in an executable: the pinned one of this machine, or for another architecture the package of the same
// version in the lock file, whose checksum is verified.
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))

export const ARCHITECTURES = ['x64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]

export const isArchitecture = (text: string): text is Architecture =>
  (ARCHITECTURES as readonly string[]).includes(text)

/** Whether an executable for it runs here. */
export const isNative = (arch: Architecture): boolean => process.arch === arch

/** A program that a build runs, and its Debian package. */
export interface BuildTool {
  program: string
  debian: string
}

/** The strip for an architecture. */
export function stripFor(arch: Architecture): BuildTool {
  if (isNative(arch)) return { program: 'strip', debian: 'binutils' }
  return arch === 'arm64'
    ? { program: 'aarch64-linux-gnu-strip', debian: 'binutils-aarch64-linux-gnu' }
    : { program: 'x86_64-linux-gnu-strip', debian: 'binutils-x86-64-linux-gnu' }
}

const isInstalled = ({ program }: BuildTool): boolean =>
  spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0

/** Throws an error that names every missing program with its Debian package. */
export function demandTools(tools: readonly BuildTool[]): void {
  const missing = tools.filter((tool) => !isInstalled(tool))
  if (missing.length === 0) return
  const named = missing.map(({ debian, program }) => `${program} (${debian})`).join(' and ')
  const strips = missing.some(({ program }) => program.endsWith('strip'))
  throw new Error(
    `${named} ${missing.length === 1 ? 'is' : 'are'} not installed; on Debian run "apt-get install ${missing.map(({ debian }) => debian).join(' ')}"${strips ? ', or give --unstripped, which makes an executable that is 35 MB larger' : ''}.`,
  )
}

/**
 * Writes the Node of an architecture to `file`, without its symbols. Throws if strip is not installed, unless
 * `unstripped`: the executable is then 35 MB larger and has different bytes.
 */
export function placeNode(arch: Architecture, file: string, unstripped = false): void {
  const strip = stripFor(arch)
  if (!unstripped) demandTools([strip])
  if (isNative(arch)) copyFileSync(process.execPath, file)
  else fetchNode(`node-linux-${arch}`, file)
  chmodSync(file, 0o755)
  if (isInstalled(strip)) execFileSync(strip.program, ['-s', file], { stdio: 'ignore' })
}

function fetchNode(name: string, file: string): void {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string; integrity: string }>
  }
  const { version, integrity } = packages[`node_modules/${name}`]!
  const folder = mkdtempSync(join(tmpdir(), 'postrider-node-'))
  try {
    console.log(`fetching ${name} ${version}`)
    npm('pack', '--silent', `${name}@${version}`, '--pack-destination', folder)
    const archive = join(folder, readdirSync(folder)[0]!)
    const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`
    if (found !== integrity)
      throw new Error(`${name} ${version} has the checksum ${found}, package-lock.json ${integrity}`)
    execFileSync('tar', ['-xzf', archive, '-C', folder, 'package/bin/node'])
    copyFileSync(join(folder, 'package/bin/node'), file)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/**
 * Runs the npm that started this script, with its own Node, because an older npm may not run on the pinned one. Returns
 * its output.
 */
export function npm(...args: string[]): string {
  const { npm_node_execpath: node, npm_execpath: cli } = process.env
  const [program, first] = node && cli ? [node, [cli]] : ['npm', []]
  return execFileSync(program, [...first, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
}
