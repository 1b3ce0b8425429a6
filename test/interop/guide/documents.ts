// Runs the documents as a user does: fenced shell blocks, command by command. A block is in a section that one of these
// tests runs (WALKED), or a comment in front of it contains its runner, or why it is not run:
//
//   <!-- run by packaging/reproduce.sh -->
//   <!-- not run: needs a registry -->

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../../..')

/** The documents for users. */
export const DOCUMENTS = [
  'README.md',
  ...[
    'install',
    'uninstall',
    'upgrade',
    'operate',
    'backup',
    'monitoring',
    'verify-release',
    'migrate',
    'compatibility',
    'using',
    'smtp',
    'examples',
    'webhooks',
    'receivers',
    'compare',
    'logs',
    'performance',
    'tutorial',
    'troubleshooting',
    'dns',
    'api',
    'concepts',
    'deliverability',
    'commands',
    'configuration',
    'security',
    'sizing',
    'high-availability',
  ].map((name) => `docs/${name}.md`),
]

/** The sections whose commands these tests type, by the file that does. */
export const WALKED = {
  'guide.interop.ts': [
    'Production in ten minutes',
    'Use a certificate from certbot',
    'Install the new version',
    'Change the host name',
    'Read the logs',
    'Remove the package and keep the data',
    'Delete everything',
    'Back up to a file',
    'Restore from a file',
  ],
  'image.interop.ts': ['Run the container image', 'Podman', 'The volume', 'In a container', 'Remove the container'],
  'install.interop.ts': [
    'Install with apt',
    'Automatic upgrades',
    'Host your own apt repository',
    'Install from the tar archive',
  ],
  'operate.interop.ts': [
    'Install the Debian package',
    'Set up backups',
    'The signature',
    'What is inside',
    'Check an upgrade first',
    'Roll back an upgrade',
    'Move to another server',
    'Encrypt backups',
    'Test a restore',
    'Restore a backup',
    'Steps',
  ],
  'pair.interop.ts': [
    'On both machines',
    'On the first machine',
    'Start both machines',
    'Publish the DNS records',
    'Test the takeover',
  ],
  'upgrade.interop.ts': ['0.1 to 0.2 or 0.3'],
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
