// The documents as a user follows them: fenced blocks of shell, command by command. A block stands in a section that
// one of these tests types (WALKED), or a comment before it says who else runs it, or why nobody does:
//
//   <!-- run by packaging/reproduce.sh -->
//   <!-- not run: needs a registry -->

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../../..')

/** What an administrator follows. */
export const DOCUMENTS = [
  'README.md',
  ...[
    'install',
    'operate',
    'backup',
    'monitoring',
    'verify-release',
    'migrate',
    'using',
    'commands',
    'security',
    'sizing',
  ].map((name) => `docs/${name}.md`),
]

/** The sections whose commands these tests type, by the file that does. */
export const WALKED = {
  'guide.interop.ts': [
    'Production in ten minutes',
    'Certificates',
    'Upgrading',
    'Another host name',
    'Back up',
    'Restore a file',
  ],
  'image.interop.ts': ['By the image', 'Podman', 'The volume', 'In a container'],
  'install.interop.ts': ['By apt', 'Upgrades by themselves', 'Offering the repository', 'By the tar'],
  'operate.interop.ts': [
    'By the package',
    'Backups',
    'The signature',
    'What is inside',
    'Before an upgrade',
    'The way back',
    'Moving house',
    'Restarts',
    'Keys',
    'Schedule, speed, drills',
    'Restore',
    'The order',
  ],
  'upgrade.interop.ts': ['Upgrading from 0.1.0'],
} as const

export type Section = (typeof WALKED)[keyof typeof WALKED][number]

export interface Block {
  file: string
  /** The section that it stands in, without those around that. */
  heading: string
  /** What the fence calls it. */
  language: string
  commands: string[]
  /** What the comment before it says. */
  mark: string | undefined
}

/**
 * The lines of a shell as commands. A line that ends with a backslash goes on in the next, a here-document belongs to
 * its command; comments are not commands.
 */
function commandsIn(text: string): string[] {
  const commands: string[] = []
  let until: string | undefined
  for (const line of text.replace(/\\\n\s*/g, '').split('\n')) {
    if (until !== undefined) {
      commands.push(`${commands.pop()}\n${line}`)
      if (line === until) until = undefined
      continue
    }
    const command = line.replace(/(?:^|\s+)#\s.*$/, '').trim()
    if (command === '') continue
    commands.push(command)
    until = /<<-?\s*'?(\w+)'?/.exec(command)?.[1]
  }
  return commands
}

/** The fenced blocks of a document, in order. One may stand in a list, indented. */
export function blocksOf(file: string): Block[] {
  const text = readFileSync(join(ROOT, file), 'utf8')
  const parts = /^#+ (.+)$|^( *)(?:<!-- (.+) -->\n\s*)?```(\w*)\n([\s\S]*?)^ *```$/gm
  let heading = ''
  return [...text.matchAll(parts)].flatMap(([, title, , mark, language, block]) => {
    if (title !== undefined) heading = title
    if (block === undefined) return []
    return [{ file, heading, language: language!, commands: commandsIn(block), mark }]
  })
}

/** The commands of a section that are to be typed, in order. */
export function commandsOf(section: Section): string[] {
  const blocks = DOCUMENTS.flatMap(blocksOf).filter(({ heading, language }) => heading === section && language === 'sh')
  const files = new Set(blocks.map(({ file }) => file))
  if (files.size !== 1) throw new Error(`${files.size} documents have commands in a section "${section}"`)
  return blocks.filter(({ mark }) => mark === undefined).flatMap(({ commands }) => commands)
}
