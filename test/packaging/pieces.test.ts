import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { debianChangelog, readChangelog } from '../../packaging/changelog.ts'
import { instanceUnit } from '../../packaging/instance-unit.ts'
import { manPages } from '../../packaging/man.ts'
import { stripFor } from '../../packaging/node.ts'
import { thirdParty } from '../../packaging/third-party.ts'
import { isObject } from '../../src/base/json.ts'
import { version } from '../../src/base/version.ts'
import { createProgram } from '../../src/cli/main.ts'
import { temporaryDirectory } from '../kit/directory.ts'

// The parts of the Debian package, as far as they can be tested without building it. packaging/package-smoke.sh
// installs it.

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const folder = temporaryDirectory('pieces')

describe('man pages', () => {
  const program = createProgram({})
  const pages = new Map(manPages(program, { version, date: '2026-11-22' }).map(({ file, text }) => [file, text]))

  test('the program and each command have a man page, and postrider(1) names them all', () => {
    const names = program.commands.map((command) => command.name()).filter((name) => name !== 'help')
    assert.deepEqual(new Set(pages.keys()), new Set(['postrider.1', ...names.map((name) => `postrider-${name}.1`)]))
    for (const name of names)
      assert.ok(pages.get('postrider.1')!.includes(`\\fBpostrider\\-${name.replaceAll('-', '\\-')}\\fR(1)`), name)
  })

  test('man pages contain every option of every subcommand', () => {
    for (const command of program.commands.filter((each) => each.name() !== 'help'))
      for (const each of command.commands.length > 0 ? command.commands : [command])
        for (const { long } of each.options.filter(({ hidden }) => !hidden))
          assert.ok(
            pages.get(`postrider-${command.name()}.1`)!.includes(long!.replaceAll('-', '\\-')),
            `${command.name()} ${each.name()} ${long}`,
          )
  })

  test('groff formats the man pages without a warning', (t) => {
    if (spawnSync('groff', ['--version']).error) return t.skip('groff is not installed')
    for (const [file, text] of pages) {
      const { status, stderr } = spawnSync('groff', ['-man', '-ww', '-Tascii', '-z'], { input: text, encoding: 'utf8' })
      assert.deepEqual([status, stderr], [0, ''], file)
    }
  })

  test('man pages print special characters of a description unchanged', (t) => {
    if (spawnSync('groff', ['--version']).error) return t.skip('groff is not installed')
    const odd = createProgram({})
    odd.command('odd').description('.dot first, a \\ and --dashes')
    const text = manPages(odd, { version, date: '2026-11-22' }).find(({ file }) => file === 'postrider-odd.1')!.text
    const printed = execFileSync('groff', ['-man', '-Tascii', '-P-cbou'], { input: text, encoding: 'utf8' })
    assert.ok(printed.includes('.dot first, a \\ and --dashes'), printed)
  })
})

describe('the changelog', () => {
  test('the changelog starts with this version', () => assert.equal(readChangelog(version)[0]!.version, version))

  test('the changelog is converted to the Debian format', () => {
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

  test('a changelog of another version or with an invalid heading stops the build', () => {
    assert.throws(() => readChangelog('9.9.9'), /begins with .*the version is 9\.9\.9/)
    assert.throws(() => readChangelog('1.0.0', '## 1.0.0\n\n- x\n'), /"## 1\.0\.0" is not/)
  })
})

test('the licence file names Node and each package with its text, and a package without one stops the build', () => {
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
    /has no licence/,
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

  test('the unit starts only with a hostname', () => {
    assert.equal(starts('hostname = "mx.example.org"\n'), true)
    assert.equal(starts("# x\nhostname='mx.example.org'\n"), true)
    assert.equal(starts('', { POSTRIDER_HOSTNAME: 'mx.example.org' }), true)
    for (const none of ['hostname = ""\n', '# hostname = "mx.example.org"\n', "hostname=''", ''])
      assert.equal(starts(none), false, none)
    assert.equal(starts(readFileSync(join(ROOT, 'packaging/debian/postrider.toml'), 'utf8')), false)
  })

  test('the unit always restarts and writes no core dump', () => {
    assert.match(unit, /^StartLimitIntervalSec=0$/m)
    assert.match(unit, /^LimitCORE=0$/m)
  })

  test('the unit reloads with the shell only, because a minimal Debian has no kill program', async () => {
    const command = /^ExecReload=\/bin\/sh -c '(.*)'$/m.exec(unit)![1]!.replaceAll('$$', '$')
    const script = "process.on('SIGHUP', () => process.exit(7)); console.log('ready'); process.stdin.resume()"
    const child = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = once(child, 'exit')
    await once(child.stdout, 'data')
    const env = { MAINPID: String(child.pid), PATH: folder }
    assert.equal(spawnSync('/bin/sh', ['-c', command], { env }).status, 0)
    assert.deepEqual((await ended)[0], 7)
    for (const [, program] of unit.matchAll(/^Exec\w+=(\S+)/gm))
      assert.match(program!, /^\/(?:bin\/sh|usr\/bin\/postrider)$/)
  })

  test('the template of instances differs from the unit only in names, and in its share of CPU time and disk', () => {
    const settings = (text: string): string[] => text.split('\n').filter((line) => /^\w+=/.test(line))
    const template = settings(instanceUnit(unit))
    assert.deepEqual(
      template.filter((line) => !settings(unit).includes(line) && !line.startsWith('ExecCondition=')),
      [
        'Description=Postrider email server, instance %i',
        'ExecStart=/usr/bin/postrider serve --instance %i',
        'User=postrider-%i',
        'Group=postrider-%i',
        'StateDirectory=postrider-%i',
        'WorkingDirectory=%S/postrider-%i',
        'CPUWeight=100',
        'IOWeight=100',
      ],
    )
    assert.equal(template.length, settings(unit).length + 2)
    assert.match(
      template.join('\n'),
      /^ExecCondition=.*\/etc\/postrider\/%i\.toml \|\|.*run postrider init --instance %i"/m,
    )
    assert.throws(() => instanceUnit(unit.replace('User=postrider', 'User=other')), /does not contain "User=postrider/)
  })

  test('the unit names the user of sysusers.conf and the paths of the package', () => {
    const name = /^u (\S+) /m.exec(readFileSync(join(ROOT, 'packaging/debian/sysusers.conf'), 'utf8'))![1]
    assert.match(unit, new RegExp(`^User=${name}$`, 'm'))
    assert.match(unit, /^ExecStart=\/usr\/bin\/postrider serve$/m)
    assert.match(readFileSync(join(ROOT, 'packaging/package.ts'), 'utf8'), /'usr\/bin\/postrider'/)
  })
})

test('builds reject an unsupported architecture', () => {
  for (const script of ['build.ts', 'package.ts']) {
    const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'packaging', script), '--arch', 'mips'], {
      encoding: 'utf8',
    })
    assert.equal(status, 2)
    assert.match(stderr, /"mips".*--arch takes/)
  }
})

test('npm run package names every missing tool with its Debian package before it builds', () => {
  const packaged = (...args: string[]): { said: string; status: number | null } => {
    const { status, stderr, stdout } = spawnSync(process.execPath, [join(ROOT, 'packaging/package.ts'), ...args], {
      encoding: 'utf8',
      env: { ...process.env, PATH: folder },
    })
    return { said: stdout + stderr, status }
  }
  const strips = (['x64', 'arm64'] as const).map((arch) => stripFor(arch))
  const [own] = strips.filter(({ program }) => program === 'strip')
  const [other] = strips.filter(({ program }) => program !== 'strip')
  const all = packaged('--all')
  assert.equal(all.status, 1)
  for (const { debian, program } of [{ program: 'dpkg-deb', debian: 'dpkg' }, ...strips])
    assert.ok(all.said.includes(`${program} (${debian})`), all.said)
  assert.match(all.said, /^package: [^\n]*apt-get install dpkg [^\n]*\.\n$/)
  // Only the tools for this machine's architecture, and no strip with --unstripped.
  const single = packaged()
  assert.ok(single.said.includes(own!.program) && !single.said.includes(other!.program), single.said)
  assert.match(packaged('--unstripped').said, /^package: dpkg-deb \(dpkg\) is not installed; on Debian run [^\n]*\.\n$/)
})

describe('npm run audit', () => {
  /** Its exit code and output, with an npm that prints this. */
  const audited = (report: unknown): [status: number | null, said: string] => {
    const npm = join(folder, 'npm.cjs')
    const ends = isObject(report) && 'vulnerabilities' in report ? 0 : 1
    writeFileSync(npm, `console.log(${JSON.stringify(JSON.stringify(report))}); process.exitCode = ${ends}`)
    const { status, stderr, stdout } = spawnSync(process.execPath, [join(ROOT, 'packaging/audit.ts')], {
      encoding: 'utf8',
      env: { ...process.env, npm_execpath: npm, npm_node_execpath: process.execPath },
    })
    return [status, stdout + stderr]
  }

  for (const [what, report, status, said] of [
    ['passes if no package has a vulnerability', { vulnerabilities: {} }, 0, /no package has a known vulnerability/],
    [
      'fails if a package has a vulnerability',
      { vulnerabilities: { left: { range: '<2', severity: 'high', via: [{ title: 'It leaks', url: 'https://a' }] } } },
      1,
      /^audit: left <2, high: It leaks/m,
    ],
    ['reports SKIPPED if the registry has no audit service', { message: '405 No', statusCode: 405 }, 0, /SKIPPED.*405/],
    ['fails if the registry returns an error', { message: '503 No', statusCode: 503 }, 1, /did not respond: 503 No/],
    [
      'fails if the registry does not respond',
      { message: 'connect ECONNREFUSED' },
      1,
      /did not respond: connect ECONNREFUSED/,
    ],
  ] as const)
    test(what, () => {
      const [ended, printed] = audited(report)
      assert.equal(ended, status, printed)
      assert.match(printed, said)
    })
})
