// Only init, serve, dev and restore create a data directory. Every other command reports the missing directory in a
// sentence or works without data, and leaves no files behind.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readdirSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { EXAMPLES, leaves } from '../../src/cli/examples.ts'
import { createProgram } from '../../src/cli/main.ts'
import { Commands, sentenceOf } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const top = realpathSync(temporaryDirectory('no-installation'))
// The service's user can reach the data directory.
chmodSync(top, 0o755)
const config = join(top, 'here.toml')
const elsewhere = join(top, 'elsewhere')
mkdirSync(elsewhere)
const data = join(top, 'data')
const TOML = `hostname = "mx.here.test"\nhttp.listen = "127.0.0.1:1"\nsmtp.listen = ["127.0.0.1:1"]\ndelivery.port = 1\n[dns]\nservers = ["127.0.0.1:9"]\n[backup]\nto = ["${join(top, 'to')}"]\n`
writeFileSync(config, `data_dir = "data"\n${TOML}`)
writeFileSync(join(elsewhere, 'rows.csv'), 'email\nann@there.test\n')
const commands = new Commands(elsewhere, ['--config', config])
after(async () => {
  await commands.close()
  rmSync(top, { recursive: true })
})

/** `standby` waits for the directory. */
const MAKES = /^(?:init|serve|standby|dev)$/
/** Commands that do not require an installation, or check it themselves. */
const WITHOUT =
  /^(?:health|config compare|doctor|version|openapi|completion|help|restore|backup (?:list|drill)|report read)$/

/** Without the empty mark of a restore that failed, which has no effect. */
const everything = (): string[] =>
  readdirSync(top, { recursive: true, encoding: 'utf8' })
    .filter((name) => !name.endsWith('.set-up') || statSync(join(top, name)).size > 0)
    .toSorted()

/** The words of an example, split as by a shell, with existing files. */
const wordsOf = (line: string): string[] =>
  /postrider (.*)$/
    .exec(line)![1]!
    .replace(/\s[|<>].*$|\)$/, '')
    .match(/"[^"]*"|\S+/g)!
    .map((word) => word.replaceAll('"', '').replace(/^\S+\.csv$/, 'rows.csv'))

for (const [path] of leaves(createProgram({}))) {
  if (MAKES.test(path)) continue
  test(`${path} does not create a missing data directory`, async () => {
    for (const exists of [false, true]) {
      if (exists) mkdirSync(data, { mode: 0o700 })
      const before = everything()
      const offline = path === 'doctor' ? ['--time-server', '127.0.0.1:9', '--probe', 'here.invalid'] : []
      const ran = await commands.run([...wordsOf(EXAMPLES[path]?.[0] ?? `postrider ${path}`), ...offline])
      if (!WITHOUT.test(path))
        assert.ok(sentenceOf(ran, path).includes(`There is no installation in ${data}`), ran.stderr)
      // A restore by root creates the directory for the service's user, who cannot remove it from a directory of root.
      const left = everything().filter(
        (name) => path !== 'restore' || exists || name !== 'data' || readdirSync(data).length > 0,
      )
      assert.deepEqual(left, before, path)
      rmSync(data, { recursive: true, force: true })
    }
  })
}

test('a relative data_dir is resolved against the directory of the configuration file', async () => {
  makeInstallation(data)
  await commands.json('user', 'add', 'ann@owner.test')
  assert.equal((await commands.json('version')).data_dir, data)
  assert.equal(existsSync(join(elsewhere, 'data')), false)
})

test('rejects a relative POSTRIDER_DATA_DIR and suggests an absolute one', async () => {
  const ran = await commands.run(['user', 'list'], { env: { POSTRIDER_DATA_DIR: 'data' } })
  assert.match(
    sentenceOf(ran),
    /POSTRIDER_DATA_DIR: "data_dir" must be an absolute path, such as "\/.*\/elsewhere\/data"\.$/,
  )
})
