// Files that ship with Postrider: next to the sources, or inside the single executable.
import { readFileSync } from 'node:fs'
import { singleExecutable } from './threads/pool.ts'

/** Returns the text of a file of config/ or docs/, by its name below it. Throws if it does not exist. */
export function shippedText(folder: 'config' | 'docs', name: string): string {
  const sea = singleExecutable()
  return sea ? sea.getAsset(name, 'utf8') : readFileSync(new URL(`../../${folder}/${name}`, import.meta.url), 'utf8')
}

/** Returns the text of a file of config/, by its name below it. Throws if it does not exist. */
export const configAsset = (name: string): string => shippedText('config', name)
