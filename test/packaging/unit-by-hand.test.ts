// The commands for a manual installation in packaging/postrider.service, run in a root with
// the directories of any system.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../kit/directory.ts'

const ROOT = join(import.meta.dirname, '../..')
const root = temporaryDirectory('unit')

test('the commands in the unit install it on a system that has only the standard directories', () => {
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
