// Odd values of options and arguments: a command accepts each or rejects it in one sentence, never with a stack trace
// or an error text of the database.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { leaves } from '../../src/cli/examples.ts'
import { createProgram } from '../../src/cli/main.ts'
import { Commands } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const ODD = ['', 'none', '-1', '1e400', '99999999999999999999', 'two\nlines', 'x'.repeat(300), '../\u00e9', "';--"]
/** Commands that do not exit, use the network, or write to a given path. */
const LEFT_OUT = /^(?:serve|standby|dev|init|doctor|backup|restore|upgrade|completion|help|openapi)$/

const folder = temporaryDirectory('odd')
const config = join(folder, 'here.toml')
const commands = new Commands(folder, ['--config', config])
/** Valid values of required arguments and options while another is odd. */
const SANE: Record<string, string> = {
  email: 'ann@owner.test',
  user: 'ann@owner.test',
  domain: 'here.test',
  from: 'a@here.test',
  to: 'b@there.test',
  scopes: 'all',
  name: 'n',
  subject: 's',
}

before(async () => {
  writeFileSync(
    config,
    `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(join(folder, 'data'))}\n[dns]\nservers = ["127.0.0.1:9"]\n`,
  )
  makeInstallation(join(folder, 'data'))
  await commands.json('user', 'add', 'ann@owner.test')
  await commands.json('domain', 'add', 'here.test', '--user', 'ann@owner.test')
  const token = ['token', 'create', '--user', 'ann@owner.test', '--name', 'n', '--scopes', 'all']
  SANE['id'] = (await commands.json<{ id: string }>(...token, '--duration', '1_month')).id
})
after(async () => {
  await commands.close()
})

for (const [path, command] of leaves(createProgram({}))) {
  if (LEFT_OUT.test(path)) continue
  test(path, async () => {
    const words = path.split(' ')
    // A command about domains calls the domain its name.
    const nameOf = (name: string): string => (name === 'name' && words[0] === 'domain' ? 'domain' : name)
    const places = command.registeredArguments.map(
      (argument) => argument.argChoices?.[0] ?? SANE[nameOf(argument.name())] ?? 'x',
    )
    const valued = command.options.filter((option) => option.required || option.optional)
    const must = valued.filter((option) => option.mandatory)
    const given = (but?: string): string[] =>
      must
        .filter(({ long }) => long !== but)
        .map((option) => `${option.long}=${option.argChoices?.[0] ?? SANE[option.name()] ?? 'x'}`)
    const lines = ODD.flatMap((odd) => [
      ...valued.map(({ long }) => [...words, ...given(long!), `${long}=${odd}`, '--', ...places]),
      ...places.map((_, at) => [...words, ...given(), '--', ...places.with(at, odd)]),
    ])
    for (const argv of lines) {
      const { code, stderr, stdout } = await commands.run(argv)
      const said = `${JSON.stringify(argv)}: ${code} ${stdout}${stderr}`
      assert.ok([0, 1, 2].includes(code), said)
      assert.doesNotMatch(stderr, /^ +at |SqliteError|SQLITE_|TypeError|RangeError/m, said)
      if (code === 1 && stderr !== '') assert.match(stderr, /^postrider: [^\n]+\n$/, said)
    }
  })
}
