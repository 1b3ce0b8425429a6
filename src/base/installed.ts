// Files that the package and the image install beside the executable: in /usr/lib/postrider for /usr/bin/postrider
// (D167). One is taken only where nobody but root and the owner of the executable could have put it there.
import { lstatSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { singleExecutable } from './threads/worker-slot.ts'

/** What installed an executable: the Debian package, the image, or nobody, for it is one file alone. */
export type BuiltFrom = 'package' | 'image' | 'bare'

const OTHERS_WRITE = 0o022

/**
 * The path of an installed file, with the real path of the executable; undefined where there is none to trust. What
 * this user may not look at is not trusted: root works as the owner of the data, who may not reach the executable.
 */
export function installed(name: string, executable = process.execPath): string | undefined {
  const lib = join(dirname(dirname(executable)), 'lib')
  const folder = join(lib, 'postrider')
  const file = join(folder, name)
  try {
    const owners = [0, lstatSync(executable).uid]
    const trusted = [lib, folder, file].every((path) => {
      const found = lstatSync(path)
      if (!(path === file ? found.isFile() : found.isDirectory())) return false
      return owners.includes(found.uid) && (found.mode & OTHERS_WRITE) === 0
    })
    return trusted ? file : undefined
  } catch {
    return undefined
  }
}

/** Where this executable comes from, as the installed file `built-from` says; null when it runs from its sources. */
export function builtFrom(): BuiltFrom | null {
  if (!singleExecutable()) return null
  const file = installed('built-from')
  const said = file === undefined ? '' : readFileSync(file, 'utf8').trim()
  return said === 'package' || said === 'image' ? said : 'bare'
}

/** A program, and its words before those of a command. */
export interface OwnProgram {
  program: string
  first: readonly string[]
}

/** How this program is run once more. */
export const itself = (): OwnProgram => ({
  program: process.execPath,
  first: singleExecutable() ? [] : [...process.execArgv, process.argv[1] ?? ''],
})
