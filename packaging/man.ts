// Man pages from the command table: postrider(1), and one page for each command with its subcommands.
import type { Command, Help } from 'commander'

export interface Page {
  /** "postrider-user.1" */
  file: string
  text: string
}

/**
 * Escapes text for roff. A line that starts with "." or "'" would be a request, "-" a hyphen that cannot be pasted, and
 * characters outside ASCII would be read as Latin-1.
 */
const plain = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/[^\0-\x7f]/gu, (letter) => `\\[u${letter.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`)
    .replace(/^(?=[.'])/gm, '\\&')

const bold = (text: string): string => `\\fB${plain(text)}\\fR`

/** "--config <file>" with the words to type in bold and those to replace in italics. */
const term = (text: string): string =>
  text
    .split(/(<[^>]+>|\[[^\]]+\])/)
    .filter((part) => part !== '')
    .map((part) =>
      /^[<[]/.test(part)
        ? `${part[0] === '[' ? '[' : ''}\\fI${plain(part.slice(1, -1))}\\fR${part[0] === '[' ? ']' : ''}`
        : bold(part.trimEnd()) + (part.endsWith(' ') ? ' ' : ''),
    )
    .join('')

const sentence = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`

/** "user add" for the subcommand add of user. */
function pathOf(command: Command): string {
  const parent = command.parent
  return parent?.parent ? `${pathOf(parent)} ${command.name()}` : command.name()
}

const list = (entries: readonly (readonly [string, string])[]): string[] =>
  entries.flatMap(([word, meaning]) => ['.TP', term(word), plain(sentence(meaning || '-'))])

function synopsis(command: Command, help: Help): string[] {
  const own = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`
    return argument.required ? `\\fI${plain(name)}\\fR` : `[\\fI${plain(name)}\\fR]`
  })
  const options = help.visibleOptions(command).some(({ long }) => long !== '--help') ? ['[\\fIOPTION\\fR...]'] : []
  return [
    '.TP',
    [bold('postrider'), bold(pathOf(command)), ...own, ...options].join(' '),
    plain(sentence(command.description())),
  ]
}

function details(command: Command, help: Help): string[] {
  return list([
    ...command.registeredArguments
      .filter(({ description }) => description)
      .map((each) => [`<${each.name()}>`, help.argumentDescription(each)] as const),
    ...help
      .visibleOptions(command)
      .filter(({ long }) => long !== '--help')
      .map((each) => [each.flags, help.optionDescription(each)] as const),
  ])
}

/** The commands below one that do something themselves. */
const leaves = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leaves)

const FILES: readonly (readonly [string, string])[] = [
  [
    '/etc/postrider/postrider.toml',
    'configuration; /usr/share/doc/postrider/examples/postrider.toml describes all settings',
  ],
  ['/var/lib/postrider', 'default data directory: database, spool and instance.key'],
  ['/etc/postrider/NAME.toml', 'configuration of the instance NAME, with its data in /var/lib/postrider-NAME'],
]
const EXIT = [
  '.SH EXIT STATUS',
  ...list([
    ['0', 'success'],
    ['1', 'an error; stderr has the reason and a fix'],
    ['2', 'wrong usage'],
    ['75', 'a temporary error; try again'],
  ]),
]

/** All pages. `version` and `date` ("2026-11-22") are in their margins. */
export function manPages(program: Command, { version, date }: { version: string; date: string }): Page[] {
  const help = program.createHelp()
  const page = (name: string, lines: readonly string[]): Page => ({
    file: `${name}.1`,
    text: [
      '.\\" Made from the command table by packaging/man.ts.',
      `.TH ${name.toUpperCase()} 1 "${date}" "Postrider ${version}" "Postrider"`,
      '.ad l',
      '.nh',
      ...lines,
      '',
    ].join('\n'),
  })
  const commands = program.commands.filter((command) => command.name() !== 'help')
  const main = page('postrider', [
    '.SH NAME',
    `postrider \\- ${plain(program.description().replace(/^A /, '').replace(/\.$/, ''))}`,
    '.SH SYNOPSIS',
    `${bold('postrider')} [${term('--config <file>')}|${term('--instance <name>')}] [${bold('--json')}] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]`,
    '.SH DESCRIPTION',
    plain(
      'Sends transactional email and campaigns over a JSON:API, signs them with DKIM, delivers them directly to the MX hosts of the',
    ),
    plain('recipients, and receives email in inboxes.'),
    '.PP',
    plain(
      'Commands work directly on the data directory, most of them even while the server runs. The server applies the changes within a second.',
    ),
    '.SH OPTIONS',
    ...list(
      help
        .visibleOptions(program)
        .map(
          (each) =>
            [each.flags, help.optionDescription(each).replace('display help for command', 'show the help')] as const,
        ),
    ),
    '.SH COMMANDS',
    ...commands.flatMap((command) => [
      '.TP',
      `\\fBpostrider\\-${plain(command.name())}\\fR(1)`,
      plain(sentence(command.description())),
    ]),
    ...EXIT,
    '.SH FILES',
    ...list(FILES),
    '.SH ENVIRONMENT',
    ...list([
      ['POSTRIDER_CONFIG', 'configuration file, if --config is not given'],
      ['POSTRIDER_SECTION_KEY', 'a setting, such as POSTRIDER_HTTP_LISTEN; overrides the file'],
    ]),
    '.SH SEE ALSO',
    commands.map((command) => `\\fBpostrider\\-${plain(command.name())}\\fR(1)`).join(',\n'),
  ])
  const each = commands.map((command) =>
    page(`postrider-${command.name()}`, [
      '.SH NAME',
      `postrider\\-${plain(command.name())} \\- ${plain(command.description().replace(/\.$/, ''))}`,
      '.SH SYNOPSIS',
      ...leaves(command).flatMap((leaf) => synopsis(leaf, help)),
      ...(leaves(command).some((leaf) => details(leaf, help).length > 0) ? ['.SH OPTIONS'] : []),
      ...leaves(command).flatMap((leaf) => {
        const lines = details(leaf, help)
        return lines.length > 0 && leaf !== command ? [`.SS ${plain(pathOf(leaf))}`, ...lines] : lines
      }),
      ...EXIT,
      '.SH SEE ALSO',
      '\\fBpostrider\\fR(1)',
    ]),
  )
  return [main, ...each]
}
