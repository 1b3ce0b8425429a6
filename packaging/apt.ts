// The texts of an apt repository: its indexes, and the files that a machine needs to use it.
import { createHash } from 'node:crypto'

export const ORIGIN = 'Postrider'
export const SUITE = 'stable'
export const COMPONENT = 'main'
export const DEBIAN_ARCHITECTURES = ['amd64', 'arm64'] as const

export const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex')

export interface PooledPackage {
  /** The control file of the package, as printed by dpkg-deb. */
  control: string
  /** Its path below the root of the repository. */
  path: string
  size: number
  sha256: string
}

/** Returns a field of a control file, or '' if it is absent. */
export const fieldOf = (control: string, name: string): string =>
  new RegExp(`^${name}: *(.*)$`, 'm').exec(control)?.[1] ?? ''

/** Returns the Packages file of an architecture, oldest version first. */
export function packagesIndex(packages: readonly PooledPackage[], architecture: string): string {
  return packages
    .filter(({ control }) => fieldOf(control, 'Architecture') === architecture)
    .toSorted((a, b) => a.path.localeCompare(b.path, 'en', { numeric: true }))
    .map(
      ({ control, path, sha256: hash, size }) =>
        `${control.trimEnd()}\nFilename: ${path}\nSize: ${size}\nSHA256: ${hash}\n`,
    )
    .join('\n')
}

/** A date in the format of RFC 5322, which apt requires. */
const written = (date: Date): string => date.toUTCString().replace('GMT', 'UTC')

/** Returns the Release file. `indexes` are the contents of the other files, by relative path. */
export function releaseIndex(indexes: ReadonlyMap<string, Buffer>, date: Date, validUntil: Date): string {
  const sums = [...indexes].map(([path, bytes]) => ` ${sha256(bytes)} ${bytes.length} ${path}\n`)
  return [
    `Origin: ${ORIGIN}\n`,
    `Label: ${ORIGIN}\n`,
    `Suite: ${SUITE}\n`,
    `Codename: ${SUITE}\n`,
    `Date: ${written(date)}\n`,
    `Valid-Until: ${written(validUntil)}\n`,
    'Acquire-By-Hash: yes\n',
    `Architectures: ${DEBIAN_ARCHITECTURES.join(' ')}\n`,
    `Components: ${COMPONENT}\n`,
    'SHA256:\n',
    ...sums,
  ].join('')
}

/** Returns postrider.sources: the URL of the repository and its signing key. */
export const sourcesFile = (url: string, key: string): string =>
  `Types: deb
URIs: ${url}
Suites: ${SUITE}
Components: ${COMPONENT}
Signed-By:
${key
  .trimEnd()
  .split('\n')
  .map((line) => ` ${line === '' ? '.' : line}\n`)
  .join('')}`

/** Returns install.sh, which writes that file and updates the indexes. A shell runs its block only if complete. */
export const installScript = (sources: string): string => `#!/bin/sh
# Adds the apt repository of Postrider to this machine. It installs nothing: apt-get install postrider does that.
{
  set -eu
  [ "$(id -u)" = 0 ] || { echo 'install.sh: run it as root' >&2; exit 1; }
  cat >/etc/apt/sources.list.d/postrider.sources <<'END'
${sources}END
  chmod 644 /etc/apt/sources.list.d/postrider.sources
  apt-get update
}
`
