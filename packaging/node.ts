// The Node that goes into an executable: this machine's pinned one, or for another architecture the package of the same
// version that the lock file names, held to its checksum.
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

/**
 * Writes the Node for an architecture to `file`, without its symbols. Throws when no strip for it is installed, unless
 * `unstripped`: the executable is 35 MB larger then, and its octets are others.
 */
export function placeNode(arch: Architecture, file: string, unstripped = false): void {
  const tool = isNative(arch) ? 'strip' : { x64: 'x86_64-linux-gnu-strip', arm64: 'aarch64-linux-gnu-strip' }[arch]
  const there = spawnSync(tool, ['--version'], { stdio: 'ignore' }).status === 0
  if (!there && !unstripped)
    throw new Error(
      `${tool} is not installed (binutils${isNative(arch) ? '' : `-${tool.slice(0, -'-strip'.length)}`}): the executable would be 35 MB larger than it need be; --unstripped makes it so.`,
    )
  if (isNative(arch)) copyFileSync(process.execPath, file)
  else fetchNode(`node-linux-${arch}`, file)
  chmodSync(file, 0o755)
  if (there) execFileSync(tool, ['-s', file], { stdio: 'ignore' })
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
 * The npm that started this script, on the Node that it runs on: an older npm may not run on the pinned one. Answers
 * what it printed.
 */
export function npm(...args: string[]): string {
  const { npm_node_execpath: node, npm_execpath: cli } = process.env
  const [program, first] = node && cli ? [node, [cli]] : ['npm', []]
  return execFileSync(program, [...first, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
}
