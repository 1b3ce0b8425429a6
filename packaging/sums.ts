// The files of a release in a directory: those of its version, a tar archive for each package, and SHA256SUMS with its
// signature.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { verifySums } from '../src/archive/signature.ts'
import { sha256 } from './apt.ts'

const SUMS = 'SHA256SUMS'
/** The files of a release. */
const RELEASED = /\.(?:deb|tar|tar\.gz|cdx\.json)$/

/** Creates a tar archive of the files of a package, for machines without dpkg. Returns the executable in it. */
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
 * Writes the tar archives and SHA256SUMS of a version. Returns the names of the files. SHA256SUMS also contains the
 * executables in the archives, so that an unpacked one can be verified.
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

/** Signs SHA256SUMS, and verifies the signature as the program does. Throws if the program would reject it. */
export function signSums(folder: string, version: string, secret: string, publicKey: string): void {
  const file = join(folder, SUMS)
  // minisign prompts for the password of the key, if it has one.
  execFileSync('minisign', ['-S', '-s', secret, '-m', file, '-t', `postrider ${version}`], {
    stdio: ['inherit', 'ignore', 'inherit'],
  })
  const sums = readFileSync(file)
  const [, sum, name] = /^(\S+) {2}(.*)$/m.exec(sums.toString()) ?? []
  if (sum === undefined || name === undefined) throw new Error(`${file} contains no file of version ${version}.`)
  verifySums({ sums, signature: readFileSync(`${file}.minisig`), publicKey, file: { name, sha256: sum } })
}
