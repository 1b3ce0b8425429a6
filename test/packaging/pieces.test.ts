import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { debianChangelog, readChangelog } from '../../packaging/changelog.ts'
import { manPages } from '../../packaging/man.ts'
import { thirdParty } from '../../packaging/third-party.ts'
import { version } from '../../src/base/version.ts'
import { createProgram } from '../../src/cli/main.ts'

// What the Debian package is made of, as far as it can be judged without building it; packaging/package-smoke.sh
// installs it.

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'postrider-pieces-'))
after(() => rmSync(folder, { recursive: true }))

describe('man pages', () => {
  const program = createProgram({})
  const pages = new Map(manPages(program, { version, date: '2026-11-22' }).map(({ file, text }) => [file, text]))

  test('there is one for the program and one for each command, and the first names them all', () => {
    const names = program.commands.map((command) => command.name()).filter((name) => name !== 'help')
    assert.deepEqual(new Set(pages.keys()), new Set(['postrider.1', ...names.map((name) => `postrider-${name}.1`)]))
    for (const name of names)
      assert.ok(pages.get('postrider.1')!.includes(`\\fBpostrider\\-${name.replaceAll('-', '\\-')}\\fR(1)`), name)
  })

  test('they hold every option of every subcommand', () => {
    for (const command of program.commands.filter((each) => each.name() !== 'help'))
      for (const each of command.commands.length > 0 ? command.commands : [command])
        for (const { long } of each.options.filter(({ hidden }) => !hidden))
          assert.ok(
            pages.get(`postrider-${command.name()}.1`)!.includes(long!.replaceAll('-', '\\-')),
            `${command.name()} ${each.name()} ${long}`,
          )
  })

  test('roff reads them without a warning', (t) => {
    if (spawnSync('groff', ['--version']).error) return t.skip('groff is not installed')
    for (const [file, text] of pages) {
      const { status, stderr } = spawnSync('groff', ['-man', '-ww', '-Tascii', '-z'], { input: text, encoding: 'utf8' })
      assert.deepEqual([status, stderr], [0, ''], file)
    }
  })

  test('a description is printed as it is written', (t) => {
    if (spawnSync('groff', ['--version']).error) return t.skip('groff is not installed')
    const odd = createProgram({})
    odd.command('odd').description('.dot first, a \\ and --dashes')
    const text = manPages(odd, { version, date: '2026-11-22' }).find(({ file }) => file === 'postrider-odd.1')!.text
    const printed = execFileSync('groff', ['-man', '-Tascii', '-P-cbou'], { input: text, encoding: 'utf8' })
    assert.ok(printed.includes('.dot first, a \\ and --dashes'), printed)
  })
})

describe('the changelog', () => {
  test('begins with this version', () => assert.equal(readChangelog(version)[0]!.version, version))

  test('is written as Debian writes changes', () => {
    const text =
      '# Changes\n\n## 1.2.3 (2026-11-22)\n\n- One `thing`\n  on two lines.\n- Two.\n\n## 1.2.2 (2026-11-01)\n\n- Old.\n'
    const debian = debianChangelog(readChangelog('1.2.3', text), 'A <a@b.c>')
    assert.ok(
      debian.startsWith(
        'postrider (1.2.3) stable; urgency=medium\n\n  * One thing on two lines.\n  * Two.\n\n -- A <a@b.c>  Sun, 22 Nov 2026 12:00:00 +0000\n\npostrider (1.2.2)',
      ),
      debian,
    )
    assert.ok(
      debianChangelog(readChangelog(version), 'A <a@b.c>')
        .split('\n')
        .every((line) => line.length <= 80),
    )
  })

  test('of another version, or with a heading of another form, stops the build', () => {
    assert.throws(() => readChangelog('9.9.9'), /begins with .*the version is 9\.9\.9/)
    assert.throws(() => readChangelog('1.0.0', '## 1.0.0\n\n- x\n'), /"## 1\.0\.0" is not/)
  })
})

test('the licences name Node and each package, with their texts; a package without one stops the build', () => {
  const text = thirdParty(['node_modules/kysely', 'node_modules/hono'])
  for (const wanted of [
    /^node-\S+ 26\.10\.0, licence MIT/m,
    /^kysely .*licence MIT/m,
    /^hono .*licence MIT/m,
    /Yusuke Wada/,
  ])
    assert.match(text, wanted)
  writeFileSync(join(folder, 'package.json'), '{"name":"x","version":"1.0.0"}')
  assert.throws(
    () => thirdParty([join('..', folder).replace(/^\.\./, '../'.repeat(ROOT.split('/').length))]),
    /nothing of its licence/,
  )
})

describe('the unit', () => {
  const unit = readFileSync(join(ROOT, 'packaging/postrider.service'), 'utf8')
  const condition = /^ExecCondition=\/bin\/sh -c '(.*)'$/m.exec(unit)![1]!.replaceAll('$$', '$')

  /** Whether it would start with this configuration. */
  const starts = (configuration: string, env: Record<string, string> = {}): boolean => {
    const file = join(folder, 'unit.toml')
    writeFileSync(file, configuration)
    const { status } = spawnSync('sh', ['-c', condition.replace('/etc/postrider/postrider.toml', file)], {
      env: { PATH: process.env['PATH'], ...env },
    })
    return status === 0
  }

  test('starts with a host name alone', () => {
    assert.equal(starts('hostname = "mx.example.org"\n'), true)
    assert.equal(starts("# x\nhostname='mx.example.org'\n"), true)
    assert.equal(starts('', { POSTRIDER_HOSTNAME: 'mx.example.org' }), true)
    for (const none of ['hostname = ""\n', '# hostname = "mx.example.org"\n', "hostname=''", ''])
      assert.equal(starts(none), false, none)
    assert.equal(starts(readFileSync(join(ROOT, 'packaging/debian/postrider.toml'), 'utf8')), false)
  })

  test('is never down for good, and leaves no core', () => {
    assert.match(unit, /^StartLimitIntervalSec=0$/m)
    assert.match(unit, /^LimitCORE=0$/m)
  })

  test('names the user that sysusers makes and the paths that the package installs', () => {
    const name = /^u (\S+) /m.exec(readFileSync(join(ROOT, 'packaging/debian/sysusers.conf'), 'utf8'))![1]
    assert.match(unit, new RegExp(`^User=${name}$`, 'm'))
    assert.match(unit, /^ExecStart=\/usr\/bin\/postrider serve$/m)
    assert.match(readFileSync(join(ROOT, 'packaging/package.ts'), 'utf8'), /'usr\/bin\/postrider'/)
  })
})

test('an architecture that there is no build for is refused', () => {
  for (const script of ['build.ts', 'package.ts']) {
    const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'packaging', script), '--arch', 'mips'], {
      encoding: 'utf8',
    })
    assert.equal(status, 2)
    assert.match(stderr, /"mips".*--arch takes/)
  }
})
