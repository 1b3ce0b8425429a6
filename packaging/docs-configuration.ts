// docs/configuration.md, made from the comments of config/postrider.toml, the schema of the configuration and the table
// of settings that need a restart.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { schema } from '../src/base/config.ts'
import { isObject } from '../src/base/json.ts'
import { TAKES_EFFECT } from '../src/server/settings.ts'

const FILE = join(import.meta.dirname, '../config/postrider.toml')

const INTRO = `# Configuration

<!-- Made from config/postrider.toml by "npm run docs". -->

Postrider reads one TOML file: \`--config FILE\`, else \`$POSTRIDER_CONFIG\`, \`/etc/postrider/postrider.toml\` or \`./postrider.toml\` (in
the container image: \`/var/lib/postrider/postrider.toml\`). All settings are optional. \`postrider init\` writes a file with every setting and its default, the same as
[config/postrider.toml](../config/postrider.toml).

## Values

| type | examples |
|---|---|
| duration | \`"250ms"\`, \`"15s"\`, \`"5m"\`, \`"2h"\`, \`"5d"\`, \`"0"\` |
| size | \`"512"\`, \`"64KB"\`, \`"40MB"\`, \`"1GB"\` (powers of 1024) |
| address | \`"127.0.0.1:8025"\`, \`"[::]:25"\` |

If a setting is unknown or invalid, Postrider does not start. The error contains the file, the line and the reason. To check a file without
starting the server:

<!-- not run: test/cli/commands.test.ts checks files this way -->

\`\`\`sh
postrider serve --check
\`\`\`

## Environment variables

An environment variable overrides the file. Its name is \`POSTRIDER_\`, the section and the key, for example \`POSTRIDER_HTTP_LISTEN\`. Lists are
separated by commas. To read a value from a file, such as a Docker or Kubernetes secret, append \`_FILE\` to the name and set it to the path.

\`postrider dev\` has its own settings. It uses only \`[storage]\` of the file and the environment.

\`POSTRIDER_DELIVERY_ROUTES\` and \`POSTRIDER_DELIVERY_SOURCES\` contain the tables in TOML. Plans can only be set in the file.
\`POSTRIDER_INIT_DOMAIN\` and \`POSTRIDER_INIT_EMAIL\` set up a server at its first start ([install](install.md#run-the-container-image)).

## Apply changes

\`systemctl reload postrider\` (SIGHUP) reads the configuration and certificates again. Settings with "restart" below need
\`systemctl restart postrider\`. If such a setting was changed by a reload, the log, \`postrider health\` and \`postrider doctor\` name it.
`

interface Setting {
  section: string
  key: string
  /** The value as the file has it. */
  value: string
  description: string
}

interface Section {
  name: string
  about: string
  settings: Setting[]
  /** The commented tables ("[[delivery.routes]]") below its keys. */
  tables: string[]
}

const NAMED = 'plans.NAME'

/** The sections of the file, each key with the comment above it. */
function sectionsIn(text: string): Section[] {
  const sections: Section[] = [{ name: '', about: '', settings: [], tables: [] }]
  let comment: string[] = []
  let table: string[] = []
  for (const line of `${text}\n`.split('\n')) {
    const last = sections.at(-1)!
    if (line.startsWith('# [[') || (table.length > 0 && line.startsWith('#'))) {
      if (table.length === 0) table.push(...comment.map((each) => `# ${each}`))
      table.push(line)
      comment = []
      continue
    }
    const [, header] = /^\[([^\]]+)\]/.exec(line) ?? []
    const [, key, value] = /^(\w+) = (.*)$/.exec(line) ?? []
    if (line.startsWith('# ')) comment.push(line.slice(2))
    else if (header !== undefined) {
      const name = header.startsWith('plans.') ? NAMED : header
      sections.push({ name, about: comment.join(' '), settings: [], tables: [] })
      comment = []
    } else if (key !== undefined && value !== undefined) {
      last.settings.push({ section: last.name, key, value, description: comment.join(' ') })
      comment = []
    } else {
      if (table.length > 0) last.tables.push(tableText(table))
      table = []
      // A comment above an empty line is about the file.
      comment = []
    }
  }
  return sections
}

/** A commented table as a block of TOML, with the sentence above it. */
function tableText(lines: readonly string[]): string {
  const at = lines.findIndex((line) => line.startsWith('# [['))
  const about = lines.slice(0, at).map((line) => line.replace(/^# /, ''))
  return `${about.join(' ')}\n\n\`\`\`toml\n${lines
    .slice(at)
    .map((line) => line.replace(/^# /, ''))
    .join('\n')}\n\`\`\`\n`
}

const within = (tree: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), tree)

/** Whether a setting accepts a value. */
function takes(path: readonly string[], value: unknown): boolean {
  const tree = path.reduceRight<unknown>((inner, key) => (key === '0' ? [inner] : { [key]: inner }), value)
  return schema.safeParse(tree).success
}

/** The type of a setting, from its default in the file and as the server reads it. */
function typeOf(written: unknown, read: unknown, path: readonly string[]): string {
  if (typeof written === 'boolean') return 'boolean'
  if (typeof written === 'number') return takes(path, 0.5) ? 'number' : 'integer'
  if (Array.isArray(written)) {
    const inner = written.length === 0 ? 'string' : typeOf(written[0], (read as unknown[])[0], [...path, '0'])
    return `list of ${inner === 'address' ? 'addresses' : `${inner}s`}`
  }
  if (isObject(written)) return 'table'
  if (isObject(read)) return 'address'
  if (typeof read === 'number') return takes(path, '1MB') ? 'size' : 'duration'
  return 'string'
}

const variableOf = ({ key, section }: Setting): string =>
  section === NAMED ? '' : `\`POSTRIDER_${[section, key].filter(Boolean).join('_').toUpperCase()}\``

function variablesOf(setting: Setting, written: unknown): string {
  if (!isObject(written)) return variableOf(setting)
  return Object.keys(written)
    .map((inner) => variableOf({ ...setting, key: `${setting.key}_${inner}` }))
    .join(' ')
}

/** "reload" or "restart". */
function effectOf({ key, section }: Setting): string {
  const effects = TAKES_EFFECT[(section === '' ? key : section.split('.')[0]) as keyof typeof TAKES_EFFECT]
  const effect: unknown = typeof effects === 'string' ? effects : within(effects, [key])
  return effect === 'live' ? 'reload' : 'restart'
}

const cell = (text: string): string => text.replaceAll('|', '\\|')

/** The text of docs/configuration.md. */
export function configurationPage(): string {
  const text = readFileSync(FILE, 'utf8')
  const tree = parse(text)
  const defaults = schema.parse(tree)
  const pages = sectionsIn(text).map(({ about, name, settings, tables }) => {
    const rows = settings.map((setting) => {
      const path = [...(setting.section === NAMED ? ['plans', 'growth'] : [setting.section]), setting.key].filter(
        Boolean,
      )
      const written = within(tree, path)
      const type = typeOf(written, within(defaults, path), path)
      return `| \`${setting.key}\` | ${cell(setting.description)} | ${type} | \`${cell(setting.value)}\` | ${variablesOf(setting, written)} | ${effectOf(setting)} |`
    })
    return `
## ${name === '' ? 'Server' : `[${name}]`}
${about === '' ? '' : `\n${about}\n`}
| key | description | type | default | environment variable | applied by |
|---|---|---|---|---|---|
${rows.join('\n')}
${tables.map((each) => `\n${each}`).join('')}`
  })
  return INTRO + pages.join('')
}
