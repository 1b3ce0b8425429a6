// The README as a user follows it: a section's fenced blocks of shell, command by command.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const README = join(import.meta.dirname, '../../../README.md')

/**
 * The commands of a section and its subsections, in order. A line that ends with a backslash goes on in the next;
 * comments are not commands.
 */
export function commandsOf(heading: string): string[] {
  const text = readFileSync(README, 'utf8')
  const [, marks, rest] = new RegExp(`^(##+) ${heading}\\n([\\s\\S]*)`, 'm').exec(text) ?? []
  if (marks === undefined || rest === undefined) throw new Error(`README.md has no section "${heading}"`)
  const section = rest.split(new RegExp(`^#{2,${marks.length}} `, 'm'), 1)[0]!
  // A block may stand in a list, indented.
  return [...section.matchAll(/^( *)```sh\n([\s\S]*?)^\1```$/gm)].flatMap(([, , block]) =>
    block!
      .replace(/\\\n\s*/g, '')
      .split('\n')
      .map((line) => line.replace(/\s+#\s.*$/, '').trim())
      .filter((line) => line !== '' && !line.startsWith('#')),
  )
}
