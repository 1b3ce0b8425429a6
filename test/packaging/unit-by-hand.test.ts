// What packaging/postrider.service says of an installation by hand, done in a root that has what every system has.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const root = mkdtempSync(join(tmpdir(), 'postrider-unit-'))
after(() => rmSync(root, { recursive: true }))

test('the commands of the unit install it where only the folders of every system are', () => {
  const unit = readFileSync(join(ROOT, 'packaging/postrider.service'), 'utf8')
  const commands = [...unit.matchAll(/^# {3}(install .+)$/gm)].map(([, command]) => command!)
  for (const folder of ['usr/bin', 'etc/systemd/system']) mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, 'built'), '')
  const targets = commands.map((command) => {
    const [program = '', ...words] = command.replace('dist/postrider', join(root, 'built')).split(' ')
    const target = join(root, words.pop()!)
    execFileSync(program, [...words, target], { cwd: ROOT })
    return target
  })
  assert.equal(targets.length, 3)
  for (const target of targets) assert.ok(existsSync(target), target)
})
