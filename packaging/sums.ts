// The files of a release: those of its version in a folder, a tar beside each package, and SHA256SUMS with its
// signature.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { verifySums } from '../src/archive/signature.ts'

const SUMS = 'SHA256SUMS'
/** What a release consists of. */
const RELEASED = /\.(?:deb|tar|tar\.gz|cdx\.json|spdx\.json)$/

const sha256 = (octets: Buffer): string => createHash('sha256').update(octets).digest('hex')

/** Makes a tar of what a package installs, with one folder, for machines without dpkg; answers the program in it. */
function makeTar(folder: string, deb: string): { program: string; sum: string } {
  const name = basename(deb, '.deb')
  const place = mkdtempSync(join(folder, 'tar-'))
  try {
    execFileSync('dpkg-deb', ['--extract', join(folder, deb), join(place, name)])
    const owner = ['--owner=0', '--group=0', '--numeric-owner', '--sort=name', '--format=ustar']
    execFileSync('tar', [...owner, '-C', place, '-cf', join(place, 'tar'), name])
    writeFileSync(join(place, 'gz'), gzipSync(readFileSync(join(place, 'tar')), { level: 9 }))
    renameSync(join(place, 'gz'), join(folder, `${name}.tar.gz`))
    const program = `${name}/usr/bin/postrider`
    return { program, sum: sha256(readFileSync(join(place, program))) }
  } finally {
    rmSync(place, { recursive: true })
  }
}

/**
 * Writes the tars and SHA256SUMS of a version in the folder; answers the names in it. It names the programs in the tars
 * too, so that an unpacked one can be verified.
 */
export function writeSums(folder: string, version: string): string[] {
  const released = (): string[] =>
    readdirSync(folder).filter((name) => name.startsWith(`postrider_${version}_`) && RELEASED.test(name))
  const debs = released().filter((name) => name.endsWith('.deb'))
  const programs = debs.map((deb) => makeTar(folder, deb))
  const files = released().map((name) => [name, sha256(readFileSync(join(folder, name)))] as const)
  const all = [...files, ...programs.map(({ program, sum }) => [program, sum] as const)]
  const lines = all.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, sum]) => `${sum}  ${name}\n`)
  writeFileSync(join(folder, SUMS), lines.join(''))
  return files.map(([name]) => name).toSorted()
}

/** Signs SHA256SUMS, and verifies that as the program does. Throws when it would refuse this release. */
export function signSums(folder: string, version: string, secret: string, publicKey: string): void {
  const file = join(folder, SUMS)
  // minisign asks for the password of the key, where it has one.
  execFileSync('minisign', ['-S', '-s', secret, '-m', file, '-t', `postrider ${version}`], {
    stdio: ['inherit', 'ignore', 'inherit'],
  })
  const sums = readFileSync(file)
  const [, sum, name] = /^(\S+) {2}(.*)$/m.exec(sums.toString()) ?? []
  if (sum === undefined || name === undefined) throw new Error(`${file} names no file of version ${version}.`)
  verifySums({ sums, signature: readFileSync(`${file}.minisig`), publicKey, file: { name, sha256: sum } })
}
