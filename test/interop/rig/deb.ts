// Small packages named postrider, for tests of package installation.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The path of the file in a small package that contains its version and architecture. */
export const SMALL_PROGRAM = 'usr/bin/postrider'

/** Creates a package of this version in the directory. Returns its path. The same version has the same bytes. */
export function smallDeb(folder: string, release: string, architecture: string): string {
  const tree = mkdtempSync(join(tmpdir(), 'postrider-deb-'))
  try {
    mkdirSync(join(tree, 'DEBIAN'))
    mkdirSync(join(tree, 'usr/bin'), { recursive: true })
    const control = {
      Package: 'postrider',
      Version: release,
      Architecture: architecture,
      Maintainer: 'A <a@localhost>',
    }
    const fields = Object.entries({ ...control, Description: 'test\n more' }).map(
      ([name, text]) => `${name}: ${text}\n`,
    )
    writeFileSync(join(tree, 'DEBIAN/control'), fields.join(''))
    writeFileSync(join(tree, SMALL_PROGRAM), `${release} ${architecture}`)
    for (const path of [SMALL_PROGRAM, 'usr/bin', 'usr', '']) utimesSync(join(tree, path), 1e9, 1e9)
    const file = join(folder, `postrider_${release}_${architecture}.deb`)
    const env = { ...process.env, SOURCE_DATE_EPOCH: '1000000000' }
    execFileSync('dpkg-deb', ['--root-owner-group', '-b', tree, file], { env, stdio: 'ignore' })
    return file
  } finally {
    rmSync(tree, { recursive: true })
  }
}
