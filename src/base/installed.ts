// Files that the package and the image install next to the executable: in /usr/lib/postrider for /usr/bin/postrider
// (D167). A file is used only if no user except root and the owner of the executable could have put it there.
import { lstatSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { singleExecutable } from './threads/worker-slot.ts'

/** The origin of an executable: the Debian package, the image, or a single file. */
export type BuiltFrom = 'package' | 'image' | 'bare'

const OTHERS_WRITE = 0o022

/**
 * Returns the path of an installed file, with the real path of the executable, or undefined if no such file is trusted.
 * A file that this user cannot stat is not trusted: root works as the owner of the data, who may not reach the
 * executable.
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

/** The origin of this executable from the installed file `built-from`, or null if it runs from its sources. */
export function builtFrom(): BuiltFrom | null {
  if (!singleExecutable()) return null
  const file = installed('built-from')
  const origin = file === undefined ? '' : readFileSync(file, 'utf8').trim()
  return origin === 'package' || origin === 'image' ? origin : 'bare'
}

/** An executable, and its arguments before those of a command. */
export interface OwnProgram {
  program: string
  first: readonly string[]
}

/** How to run this executable again. */
export const itself = (): OwnProgram => ({
  program: process.execPath,
  first: singleExecutable() ? [] : [...process.execArgv, process.argv[1] ?? ''],
})
