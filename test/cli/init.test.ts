import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import Database from 'better-sqlite3'
import { loadConfig } from '../../src/base/config.ts'
import {
  configPlace,
  giveDataDir,
  prepareDataDir,
  serviceOwner,
  settingsIn,
  startLine,
} from '../../src/cli/installation.ts'
import { withSetting, writeConfig } from '../../src/base/config-edit.ts'
import { heedEnvironment } from '../../src/cli/init.ts'
import { takeLock } from '../../src/store/lock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { Commands, sentenceOf } from '../commands/command.ts'
import type { Ran } from '../commands/runner.ts'

const folder = temporaryDirectory('init')
const root = process.geteuid?.() === 0

describe('init', () => {
  const place = join(folder, 'etc', 'postrider', 'postrider.toml')
  const data = join(folder, 'var', 'data')
  const all = ['--domain', 'init.test', '--hostname', 'mx.init.test', '--email', 'me@init.test', '--data', data]
  const commands = new Commands(folder)
  let dns: TestDns
  before(async () => {
    dns = await startTestDns()
    dns.set('mx.init.test', 'A', ['192.0.2.1'])
  })
  after(async () => {
    await commands.close()
    await dns.close()
  })

  const run = (config: string, argv: readonly string[], env: Record<string, string> = {}): Promise<Ran> =>
    commands.run(['--config', config, ...argv], { env: { POSTRIDER_DNS_SERVERS: `127.0.0.1:${dns.port}`, ...env } })
  // oxlint-disable-next-line typescript/no-explicit-any
  const init = async (...argv: string[]): Promise<any> => {
    const { code, stdout, stderr } = await run(place, ['--json', 'init', ...argv])
    assert.deepEqual([code, stderr], [0, ''])
    return JSON.parse(stdout)
  }
  /** A configuration of its own, which init has written, and its data directory. */
  const written = async (name: string) => {
    const file = join(folder, name, 'postrider.toml')
    const dir = join(folder, name, 'data')
    assert.equal((await run(file, ['init', ...all.slice(0, -1), dir])).code, 0)
    return { file, dir }
  }
  /** The same, with a domain that was verified. */
  const verified = async (name: string) => {
    const { file, dir } = await written(name)
    const db = new Database(join(dir, 'postrider.db'))
    db.exec(
      "UPDATE records SET verified = 1, observed = value, checked_at = 1; UPDATE domains SET status = 'active', checked_at = 1",
    )
    db.close()
    return file
  }
  const fails = async (config: string, argv: readonly string[], env?: Record<string, string>): Promise<string> =>
    sentenceOf(await run(config, ['--json', 'init', ...argv], env))

  test('init --accept-terms enables HTTPS, submission and certificates, even in a later run', async () => {
    const own = join(folder, 'open', 'postrider.toml')
    const argv = [...all.slice(0, -1), join(folder, 'open', 'data'), '--accept-terms']
    assert.equal((await run(own, ['--json', 'init', ...argv])).code, 0)
    const { acme, http, submission } = loadConfig(own)
    assert.deepEqual([acme.enabled, acme.accept_terms, acme.email], [true, true, 'me@init.test'])
    assert.equal(http.public_url, 'https://mx.init.test')
    assert.deepEqual(
      [http.tls_listen, submission.listen, submission.tls_listen].map(([first]) => first?.port),
      [443, 587, 465],
    )
    for (const addresses of [http.tls_listen, submission.listen, submission.tls_listen, acme.listen])
      assert.deepEqual(
        addresses.map(({ host }) => host),
        ['::', '0.0.0.0'],
      )
    const first = readFileSync(own, 'utf8')
    assert.equal((await run(own, ['--json', 'init', ...argv])).code, 0)
    assert.equal(readFileSync(own, 'utf8'), first, 'again changes nothing')

    const { dir, file } = await written('open-later')
    const later = ['init', ...all.slice(0, -1), dir, '--accept-terms']
    assert.match((await run(file, later)).stdout, /^Enabled HTTPS, SMTP submission and automatic certificates in /)
    assert.deepEqual({ ...loadConfig(file), data_dir: '' }, { ...loadConfig(own), data_dir: '' })
    assert.match((await run(file, later)).stdout, /^Kept /)
  })

  test('init --accept-terms keeps the settings of an existing configuration and adds the missing ones', async () => {
    const { dir, file } = await written('open-own')
    writeFileSync(
      file,
      `hostname = "mx.init.test"\ndata_dir = ${JSON.stringify(dir)}\n[http] # ours\ntls_listen = [\n  "127.0.0.1:8443",\n]\n[submission]\n  listen = [] # later\n`,
    )
    assert.equal((await run(file, ['--json', 'init', '--accept-terms'])).code, 0)
    const { acme, http, submission } = loadConfig(file)
    assert.deepEqual(http.tls_listen, [{ host: '127.0.0.1', port: 8443 }])
    assert.equal(http.public_url, 'https://mx.init.test')
    assert.deepEqual(
      [...submission.listen, ...submission.tls_listen].map(({ port }) => port),
      [587, 587, 465, 465],
    )
    assert.deepEqual([acme.enabled, acme.accept_terms, acme.email], [true, true, 'me@init.test'])
  })

  test('init creates the configuration, user, domain and data, and a second run does not change them', async () => {
    const first = await init(...all)
    assert.partialDeepStrictEqual(first, {
      config: place,
      data_dir: data,
      hostname: 'mx.init.test',
      user: 'me@init.test',
      domain: 'init.test',
      status: 'pending',
      warnings: [],
    })
    assert.ok(first.zone.match(/\b(TXT|MX)\b/g).length >= 4, first.zone)
    const written = readFileSync(place, 'utf8')
    assert.match(written, /^# .*every setting with its default/m)
    assert.match(written, /^hostname = "mx\.init\.test"$/m)
    assert.equal(statSync(place).mode & 0o777, 0o640)
    assert.equal(statSync(data).mode & 0o777, 0o700)

    writeFileSync(place, `${written}\n# The operator's own line.\n`)
    assert.deepEqual(await init(...all), first)
    assert.deepEqual(await init(), first, 'what is known need not be said again')
    assert.equal(readFileSync(place, 'utf8'), `${written}\n# The operator's own line.\n`)
    for (const [command, names] of [
      ['user', ['me@init.test']],
      ['domain', ['init.test']],
    ] as const) {
      const { stdout } = await run(place, ['--json', command, 'list'])
      assert.deepEqual(
        JSON.parse(stdout).map(({ email, name }: { email: string; name?: string }) =>
          command === 'user' ? email : name,
        ),
        names,
      )
    }

    const person = await run(place, ['init', ...all])
    assert.equal(person.code, 0)
    for (const step of [
      'Kept',
      'serve',
      'domain check init.test',
      'token create',
      'send --from',
      ...first.zone.split('\n'),
    ])
      assert.ok(person.stdout.includes(step), step)
  })

  test('init changes the hostname in the configuration and keeps the other lines', async () => {
    const { file } = await written('moved')
    const before = `${readFileSync(file, 'utf8')}\n# The operator's own line.\n`
    writeFileSync(file, before)
    const { stdout } = await run(file, ['init', '--hostname', 'mail.init.test'])
    assert.match(stdout, /^Changed hostname from mx\.init\.test to mail\.init\.test in .*postrider\.toml\.\n/)
    const changed = readFileSync(file, 'utf8')
    assert.equal(changed, before.replace('hostname = "mx.init.test"', 'hostname = "mail.init.test"'))
    assert.match(changed, /The operator's own line/)
  })

  test('init prints the records of a new hostname even if the domain was verified under the old one', async () => {
    const file = await verified('renamed')
    const { code, stdout } = await run(file, ['init', '--hostname', 'new.init.test'])
    assert.equal(code, 0)
    const { zone } = JSON.parse((await run(file, ['--json', 'init'])).stdout)
    for (const text of [stdout.slice(stdout.indexOf('\n1. ')), zone as string]) {
      assert.match(text, /^bounce\.init\.test\. \d+ IN MX 10 new\.init\.test\.$/m)
      assert.match(text, /^bounce\.init\.test\. \d+ IN TXT ".*\bnew\.init\.test\b.*"$/m)
      assert.doesNotMatch(text, /mx\.init\.test/)
    }
    for (const record of ['SPF', 'MAIL_FROM_MX']) assert.match(stdout, new RegExp(`^not checked +${record} `, 'm'))
    assert.match(stdout, /^ok +DKIM /m)
  })

  test('init --json includes the records of the new hostname', async () => {
    const file = await verified('renamed-json')
    const { stdout } = await run(file, ['--json', 'init', '--hostname', 'third.init.test'])
    const { zone } = JSON.parse(stdout)
    assert.match(zone, / MX 10 third\.init\.test\.$/m)
    assert.doesNotMatch(zone, /mx\.init\.test/)
  })

  test('init warns about a hostname without an address in DNS', async () => {
    const { file } = await written('without-address')
    assert.equal((await run(file, ['init', '--hostname', 'mail.init.test'])).code, 0)
    const { warnings } = JSON.parse((await run(file, ['--json', 'init'])).stdout)
    assert.equal(warnings.length, 1)
    assert.match(warnings[0], /^mail\.init\.test has no address in DNS yet/)
    const { stdout } = await run(file, ['init'])
    assert.match(stdout, /^Warning: mail\.init\.test has no address/m)
  })

  test('init replaces the configuration file of the package, which has no settings', async () => {
    const shipped = readFileSync(new URL('../../packaging/debian/postrider.toml', import.meta.url), 'utf8')
    const file = join(folder, 'shipped.toml')
    writeFileSync(file, shipped)
    assert.equal(settingsIn(file), undefined)
    const { code, stdout } = await run(file, ['init', ...all.slice(0, -1), join(folder, 'shipped-data')])
    assert.equal(code, 0)
    assert.match(stdout, /^Wrote /)
    assert.match(readFileSync(file, 'utf8'), /^hostname = "mx\.init\.test"$/m)
  })

  test('init --new moves existing data and the key aside and starts over', async () => {
    const file = join(folder, 'again.toml')
    const dir = join(folder, 'again')
    const again = [...all.slice(0, -1), dir]
    assert.equal((await run(file, ['init', ...again])).code, 0)
    const key = readFileSync(join(dir, 'instance.key'), 'utf8')
    rmSync(join(dir, 'postrider.db'))
    assert.match(await fails(file, again), /no database.*init --new/)
    const { stdout } = await run(file, ['--json', 'init', '--new', ...again])
    const { set_aside: aside } = JSON.parse(stdout)
    assert.equal(readFileSync(join(aside, 'instance.key'), 'utf8'), key)
    assert.notEqual(readFileSync(join(dir, 'instance.key'), 'utf8'), key)
    assert.match(await fails(file, ['--new', '--domain', 'x.test', '--email', 'x']), /"x"/)
  })

  test('init --new is rejected while the server runs', async () => {
    const release = takeLock(data)!
    try {
      assert.match(await fails(place, ['--new', ...all]), /uses .*data.*systemctl stop postrider/)
    } finally {
      release()
    }
  })

  test('init rejects another data directory with the commands to move it, and names a variable that overrides the file', async () => {
    const { dir, file } = await written('stays')
    const said = await fails(file, ['--data', join(folder, 'elsewhere')])
    assert.ok(said.includes(`mv ${dir} ${join(folder, 'elsewhere')}`), said)
    assert.match(
      await fails(file, ['--hostname', 'mx2.init.test'], { POSTRIDER_HOSTNAME: 'other.test' }),
      /POSTRIDER_HOSTNAME.*unset/,
    )
    assert.match(readFileSync(file, 'utf8'), /^hostname = "mx\.init\.test"$/m)
  })

  test('in a container, init asks to recreate it if a variable overrides the file', () => {
    const given = { hostname: 'mx2.init.test', data }
    const heed = (environment: Record<string, string>) => () => heedEnvironment({ environment }, given, true)
    assert.throws(heed({ POSTRIDER_HOSTNAME: 'mx.init.test' }), /POSTRIDER_HOSTNAME.*recreate the container/)
    assert.doesNotThrow(heed({ POSTRIDER_HOSTNAME: 'MX2.init.test.', POSTRIDER_DATA_DIR: data }))
  })

  test('init compares names of options and variables in their stored form', async () => {
    const dir = join(folder, 'spelled', 'data')
    const file = join(folder, 'spelled', 'postrider.toml')
    const given = ['--domain', 'Init.TEST.', '--hostname', 'MX.Init.test.', '--email', 'Me@Init.TEST', '--data', dir]
    const { code, stdout, stderr } = await run(file, ['--json', 'init', ...given], {
      POSTRIDER_HOSTNAME: 'mx.INIT.test.',
    })
    assert.equal(code, 0, stderr)
    const { domain, hostname, user } = JSON.parse(stdout) as Record<string, unknown>
    assert.deepEqual([domain, hostname, user], ['init.test', 'mx.init.test', 'Me@init.test'])
  })

  test('a failed init leaves no files behind, and the next run can use other values', async () => {
    const file = join(folder, 'failing', 'postrider.toml')
    const at = (dir: string): string[] => [...all.slice(0, -1), dir]
    const open = join(folder, 'open-to-all')
    mkdirSync(open)
    chmodSync(open, 0o755)
    assert.match(await fails(file, at(open)), /Other users can read .*chmod 700/)
    const foreign = join(folder, 'foreign')
    mkdirSync(foreign, { mode: 0o700 })
    writeFileSync(join(foreign, 'letter.txt'), 'mine')
    assert.match(await fails(file, at(foreign)), /files that do not belong to Postrider/)
    // It fails only when the configuration has been written.
    const made = join(folder, 'made-for-nothing', 'data')
    assert.match(await fails(file, at(made), { POSTRIDER_LOG_LEVEL: 'loud' }), /POSTRIDER_LOG_LEVEL/)
    const empty = join(folder, 'empty-before')
    mkdirSync(empty, { mode: 0o700 })
    assert.match(await fails(file, at(empty), { POSTRIDER_REGIONS: 'UPPER' }), /POSTRIDER_REGIONS/)
    assert.ok(!existsSync(file) && !existsSync(join(folder, 'made-for-nothing')))
    assert.deepEqual([readdirSync(open), readdirSync(foreign), readdirSync(empty)], [[], ['letter.txt'], []])
    // A configuration file with only comments, as in the package, is restored.
    mkdirSync(join(folder, 'failing'), { recursive: true })
    writeFileSync(file, '# nothing yet\n')
    assert.match(await fails(file, at(made), { POSTRIDER_LOG_LEVEL: 'loud' }), /POSTRIDER_LOG_LEVEL/)
    assert.equal(readFileSync(file, 'utf8'), '# nothing yet\n')
    assert.equal((await run(file, ['init', ...at(empty)])).code, 0)
  })

  test('init names missing options and writes no files', async () => {
    const path = join(folder, 'never.toml')
    const said = await fails(path, ['--hostname', 'mx.a.test'])
    assert.ok(said.includes('--domain') && said.includes('--email'), said)
    assert.ok(!existsSync(path))
  })

  test('init reports invalid options and writes no files', async () => {
    const path = join(folder, 'never.toml')
    const wrong = (key: string, value: string): Promise<string> => fails(path, [...all, key, value])
    assert.match(await wrong('--domain', 'com'), /^--domain "com"/)
    assert.match(await wrong('--hostname', 'mx'), /^--hostname "mx"/)
    assert.match(await wrong('--email', 'me'), /^--email "me"/)
    assert.ok(!existsSync(path))
    // A file has the path of the configuration's directory.
    const { file } = await written('in-the-way')
    assert.match(await fails(join(file, 'x', 'y.toml'), all), /y\.toml/)
    writeFileSync(join(folder, 'wrong.toml'), 'no_such_key = 1\n')
    assert.match(await fails(join(folder, 'wrong.toml'), all), /wrong\.toml.*no_such_key/)
  })
})

describe('the path of the configuration', () => {
  const place = (root: boolean, installed: boolean, configFile?: string, environment = {}): string =>
    configPlace({ configFile, environment }, { root, installed })

  test('the configuration is written to the named path, else to that of the service, else to the working directory', () => {
    assert.equal(place(false, true, '/x/a.toml'), '/x/a.toml')
    assert.equal(place(true, true, undefined, { POSTRIDER_CONFIG: '/x/b.toml' }), '/x/b.toml')
    assert.equal(place(true, false), '/etc/postrider/postrider.toml')
    assert.equal(place(false, false), join(process.cwd(), 'postrider.toml'))
  })

  test('init without root names "sudo" if the service is installed', () => {
    assert.throws(() => place(false, true), /"sudo postrider init".*--config/)
  })
})

test('init prints "systemctl enable --now" until the service is enabled', () => {
  const line = (...files: string[]): string => startLine((file) => files.includes(file))
  assert.equal(line(), 'systemctl enable --now postrider')
  assert.equal(line('/usr/lib/systemd/system/postrider.service'), 'systemctl enable --now postrider')
  const wanted = '/etc/systemd/system/multi-user.target.wants/postrider.service'
  assert.equal(line(wanted), 'systemctl restart postrider')
})

describe('a setting', () => {
  test('changes a setting at the top level and keeps the rest of its line', () => {
    const text = '# hostname = "no"\nhostname = "a" # ours\nx = 1\n[http]\nhostname = "b"\n'
    assert.equal(withSetting(text, 'hostname', 'c$1'), text.replace('"a"', '"c$1"'))
    assert.equal(withSetting("hostname='a'\n", 'hostname', 'c'), 'hostname = "c"\n')
  })

  test('adds a missing setting at the top', () => {
    const text = '# a comment\n[http]\nhostname = "b"\n'
    assert.equal(withSetting(text, 'hostname', 'c'), `hostname = "c"\n${text}`)
  })
})

describe('the file', () => {
  test('a replaced configuration file keeps its mode and its symbolic link', () => {
    const file = join(folder, 'real.toml')
    writeFileSync(file, 'x')
    chmodSync(file, 0o644)
    symlinkSync(file, join(folder, 'link.toml'))
    writeConfig(join(folder, 'link.toml'), 'y', undefined)
    assert.equal(readFileSync(file, 'utf8'), 'y')
    assert.equal(statSync(file).mode & 0o777, 0o644)
  })
})

describe('the data directory', { skip: root ? false : 'only root can give files away' }, () => {
  // Numbers without a name on any machine that runs this.
  const owner = { uid: 61_231, gid: 61_232 }
  const fresh = (name: string): string => {
    const dir = join(folder, name)
    mkdirSync(dir, { mode: 0o700 })
    return dir
  }

  test("the service's user becomes the owner of the data directory and of files that root created in it", () => {
    const dir = fresh('given')
    const outside = join(folder, 'outside')
    writeFileSync(outside, '')
    mkdirSync(join(dir, 'spool'))
    for (const name of ['postrider.db', 'spool/one']) writeFileSync(join(dir, name), '')
    symlinkSync(outside, join(dir, 'link'))
    giveDataDir(dir, owner)
    for (const name of ['', 'postrider.db', 'spool', 'spool/one'])
      assert.deepEqual([statSync(join(dir, name)).uid, statSync(join(dir, name)).gid], [owner.uid, owner.gid], name)
    assert.equal(statSync(outside).uid, 0)
  })

  test("rejects a data directory of another user with the chown to run, and one with files that are not Postrider's", () => {
    const theirs = fresh('theirs')
    giveDataDir(theirs, { uid: 61_233, gid: 61_233 })
    assert.throws(
      () => prepareDataDir(theirs, owner),
      /belongs to user 61233; run "chown -R postrider:postrider .*theirs"/,
    )
    const full = fresh('full')
    writeFileSync(join(full, 'letter.txt'), '')
    assert.throws(() => prepareDataDir(full, owner), /files that do not belong to Postrider/)
    writeFileSync(join(full, 'postrider.db'), '')
    prepareDataDir(full, owner)
    prepareDataDir(fresh('empty'), owner)
  })

  test('creates the data directory with mode 700 below readable parents', (t) => {
    const dir = join(folder, 'made', 'deep', 'data')
    // As every command has it.
    const mask = process.umask(0o077)
    t.after(() => process.umask(mask))
    prepareDataDir(dir, owner)
    assert.equal(statSync(dir).mode & 0o777, 0o700)
    assert.equal(statSync(join(folder, 'made', 'deep')).mode & 0o005, 0o005)
  })

  test("finds the service's user in the user database", () => {
    const passwd = join(folder, 'passwd')
    writeFileSync(passwd, 'root:x:0:0:root:/root:/bin/sh\npostrider:!:998:997::/:/usr/sbin/nologin\n')
    assert.deepEqual(serviceOwner(passwd), { uid: 998, gid: 997 })
    writeFileSync(passwd, 'notpostrider:x:1:1::/:/bin/sh\n')
    assert.equal(serviceOwner(passwd), undefined)
    assert.equal(serviceOwner(join(folder, 'absent')), undefined)
  })
})
