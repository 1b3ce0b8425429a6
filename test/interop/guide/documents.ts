// The documents as a user follows them: a section's fenced blocks of shell, command by command.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../../..')

/** A section of README.md or docs/*.md with its subsections. */
export function sectionOf(heading: string): string {
  const found = ['README.md', ...globSync('docs/*.md', { cwd: ROOT })].flatMap((file) => {
    const [, marks, rest] =
      new RegExp(`^(##+) ${heading}\\n([\\s\\S]*)`, 'm').exec(readFileSync(join(ROOT, file), 'utf8')) ?? []
    return marks === undefined || rest === undefined ? [] : [{ marks, rest }]
  })
  const [section, another] = found
  if (!section || another) throw new Error(`${found.length} documents have a section "${heading}"`)
  const { marks, rest } = section
  return rest.split(new RegExp(`^#{2,${marks.length}} `, 'm'), 1)[0]!
}

/**
 * The commands of a section and its subsections, in order. A line that ends with a backslash goes on in the next;
 * comments are not commands.
 */
export function commandsOf(heading: string): string[] {
  const text = sectionOf(heading)
  // A block may stand in a list, indented.
  return [...text.matchAll(/^( *)```sh\n([\s\S]*?)^\1```$/gm)].flatMap(([, , block]) =>
    block!
      .replace(/\\\n\s*/g, '')
      .split('\n')
      .map((line) => line.replace(/\s+#\s.*$/, '').trim())
      .filter((line) => line !== '' && !line.startsWith('#')),
  )
}
