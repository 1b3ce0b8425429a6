// The Debian base of every test machine: the minimal system of the installer, created by mmdebstrap from Debian's
// packages, and cached in the temporary directory for the next run.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Where roots and old versions stay between runs. */
export const KEPT = join(tmpdir(), 'postrider-guide')

// Change it when the recipe below changes.
const RECIPE = 3
const DOWNLOAD = 'apt-get -q -y -o APT::Install-Recommends=true --download-only install'
const TIMEOUT = 400_000

/** This machine's own release where it is Debian, because its package sources know that one. */
function release(): { suite: string; sources: string[] } {
  const facts = readFileSync('/etc/os-release', 'utf8')
  const fact = (name: string) => new RegExp(`^${name}="?([^"\n]*)`, 'm').exec(facts)?.[1]
  const codename = fact('VERSION_CODENAME')
  if (fact('ID') !== 'debian' || codename === undefined) return { suite: 'bookworm', sources: [] }
  const file = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list'].find((path) => existsSync(path))
  return { suite: codename, sources: file === undefined ? [] : [file] }
}

/**
 * The folder of the root. A machine has no way to Debian's mirrors, so the packages in `offered` lie in its apt cache,
 * where apt finds them as if it had just fetched them; they are not installed. Those in `installed` are.
 */
export async function debianRoot(offered: readonly string[], installed: readonly string[] = []): Promise<string> {
  const { suite, sources } = release()
  const key = createHash('sha256')
    .update(JSON.stringify([RECIPE, suite, offered, installed]))
    .digest('hex')
    .slice(0, 12)
  const root = join(KEPT, `debian-${suite}-${key}`)
  if (existsSync(root)) return root
  mkdirSync(KEPT, { recursive: true })
  const made = `${root}.${process.pid}`
  const hooks = [
    'rm -f "$1"/var/cache/apt/archives/*.deb',
    // With what they recommend, as a machine's own apt-get takes them.
    ...(offered.length === 0 ? [] : [`chroot "$1" ${DOWNLOAD} ${offered.join(' ')}`]),
    // Each machine is a new one.
    ': >"$1"/etc/machine-id',
    `echo 'root:*' | chroot "$1" chpasswd -e`,
  ]
  const options = [
    '--mode=root',
    '--variant=important',
    '--format=directory',
    `--include=${['dbus', 'ca-certificates', ...installed].join(',')}`,
    '--skip=cleanup/apt/lists,cleanup/apt/cache',
    ...hooks.map((hook) => `--customize-hook=${hook}`),
  ]
  try {
    await run('mmdebstrap', [...options, suite, made, ...sources], { timeout: TIMEOUT, maxBuffer: 1 << 26 })
    renameSync(made, root)
  } catch (thrown) {
    rmSync(made, { recursive: true, force: true })
    // Another run was quicker.
    if (!existsSync(root)) throw thrown
  }
  return root
}
