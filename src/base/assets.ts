// Files that ship with the program: beside the sources, or inside the single executable.
import { readFileSync } from 'node:fs'
import { singleExecutable } from './threads/pool.ts'

/** The text of a file of config/, by its file name. Throws when there is no such file. */
export function configAsset(name: string): string {
  const sea = singleExecutable()
  return sea ? sea.getAsset(name, 'utf8') : readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8')
}
