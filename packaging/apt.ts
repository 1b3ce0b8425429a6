// The texts of an apt repository: its indexes, and what a machine needs to use it. Nothing here reads or runs anything.
import { createHash } from 'node:crypto'

export const ORIGIN = 'Postrider'
export const SUITE = 'stable'
export const COMPONENT = 'main'
export const DEBIAN_ARCHITECTURES = ['amd64', 'arm64'] as const

export const sha256 = (octets: string | Buffer): string => createHash('sha256').update(octets).digest('hex')

export interface PooledPackage {
  /** The control file of the package, as dpkg-deb prints it. */
  control: string
  /** Its path below the root of the repository. */
  path: string
  size: number
  sha256: string
}

/** A field of a control file; '' when it is not there. */
export const fieldOf = (control: string, name: string): string =>
  new RegExp(`^${name}: *(.*)$`, 'm').exec(control)?.[1] ?? ''

/** The Packages file of an architecture, the oldest version first. */
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

/** As RFC 5322 writes it, which apt asks for. */
const written = (date: Date): string => date.toUTCString().replace('GMT', 'UTC')

/** The Release file. `indexes` are the octets of the other files, by their path beside it. */
export function releaseIndex(indexes: ReadonlyMap<string, Buffer>, date: Date, validUntil: Date): string {
  const sums = [...indexes].map(([path, octets]) => ` ${sha256(octets)} ${octets.length} ${path}\n`)
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

/** postrider.sources: where the repository is, and the only key that may have signed it. */
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

/** install.sh: writes that file and reads the indexes. It is one block, which a shell runs only when all of it came. */
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
