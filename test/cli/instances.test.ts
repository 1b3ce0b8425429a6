// Several instances on one machine: their names, paths, users and units, the commands in messages, and listeners that
// do not collide. test/interop/instances.interop.ts creates and runs them.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, describe, test } from 'node:test'
import { instanceConfig, instanceOf, instances, placeOfServer } from '../../src/base/config-file.ts'
import { configFrom, loadConfig } from '../../src/base/config.ts'
import { execLine } from '../../src/base/container.ts'
import { OperatorError, refuse } from '../../src/base/errors.ts'
import { belongTo, forInstance, unitName, userOf } from '../../src/base/named-instance.ts'
import { serviceUser } from '../../src/base/ownership.ts'
import { configPlace, startLine } from '../../src/cli/installation.ts'
import { collisions, httpPort, neighbours } from '../../src/cli/neighbours.ts'
import { newConfig } from '../../src/cli/set-up.ts'
import { warn } from '../../src/parts/findings/finding.ts'
import { Commands, sentenceOf } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('instances')
const OWN = '/etc/postrider/own.toml'
const commands = new Commands(folder)
after(() => commands.close())
afterEach(() => belongTo(undefined))

describe('the name of an instance', () => {
  test('selects its configuration, data directory, user and unit', () => {
    assert.equal(instanceConfig('shop'), '/etc/postrider/shop.toml')
    assert.equal(configFrom('', '/etc/postrider/shop.toml', {}).data_dir, '/var/lib/postrider-shop')
    assert.equal(configFrom('data_dir = "/x"', '/etc/postrider/shop.toml', {}).data_dir, '/x')
    assert.equal(configFrom('', '/etc/postrider/postrider.toml', {}).data_dir, '/var/lib/postrider')
    assert.equal(
      placeOfServer({ configFile: instanceConfig('shop'), environment: {} }).data_dir,
      '/var/lib/postrider-shop',
    )
    belongTo('shop')
    assert.deepEqual(
      [userOf(), unitName(), startLine(() => true)],
      ['postrider-shop', 'postrider@shop', 'systemctl restart postrider@shop'],
    )
    assert.equal(
      startLine((file) => file.endsWith('/postrider.service')),
      'systemctl enable --now postrider@shop',
    )
    const passwd = join(folder, 'passwd')
    writeFileSync(passwd, 'postrider:x:7:8::/:/bin/false\npostrider-shop:x:9:10::/:/bin/false\n')
    assert.deepEqual(serviceUser(passwd), { uid: 9, gid: 10 })
  })

  test('follows from the path of a configuration, however it was given', () => {
    for (const [file, name] of [
      ['/etc/postrider/shop.toml', 'shop'],
      ['/etc/postrider/../postrider/shop.toml', 'shop'],
      ['/etc/postrider/postrider.toml', undefined],
      ['/etc/postrider/old/shop.toml', undefined],
      ['/etc/postrider/Shop.toml', undefined],
      ['shop.toml', undefined],
      [undefined, undefined],
    ] as const)
      assert.equal(instanceOf(file), name, String(file))
  })

  test('has at most 20 lower-case letters, digits and inner hyphens', () => {
    for (const name of ['a', '7', 'my-shop', 'a'.repeat(20)]) assert.equal(instanceOf(instanceConfig(name)), name)
    // With the longest name, the user has no more characters than useradd(8) accepts.
    assert.ok(userOf('a'.repeat(20)).length <= 31)
    for (const name of [
      '',
      '.',
      '..',
      '../x',
      'a/b',
      'a.b',
      'A',
      'a_b',
      '-a',
      'a-',
      'a b',
      'ä',
      'a'.repeat(21),
      'a\n',
      '%i',
    ])
      assert.throws(
        () => instanceConfig(name),
        { name: 'OperatorError', message: /^--instance ".*" is not a valid name/s },
        name,
      )
    assert.throws(() => instanceConfig('postrider'), /remove --instance/)
    assert.throws(() => instanceConfig('shop', true), /one container for each instance/)
  })

  test('is found for each configuration of the directory', () => {
    const etc = join(folder, 'etc')
    mkdirSync(etc)
    for (const name of ['shop.toml', 'blog.toml', 'postrider.toml', 'shop.toml.set-up', 'Notes.toml'])
      writeFileSync(join(etc, name), '')
    assert.deepEqual(instances(etc), ['blog', 'shop'])
    assert.deepEqual(instances(join(folder, 'missing')), [])
  })

  test('is needed together with root', () => {
    const asked = { configFile: instanceConfig('shop'), environment: {} }
    assert.equal(configPlace(asked, { root: true }), '/etc/postrider/shop.toml')
    belongTo('shop')
    assert.throws(() => configPlace(asked, { root: false }), /"sudo postrider --instance shop init"/)
  })
})

describe('the option --instance', () => {
  const fails = async (...argv: string[]): Promise<string> => sentenceOf(await commands.run(argv))

  test('works before and after the command, and names a missing instance', async () => {
    const missing =
      'There is no instance "no-such" (/etc/postrider/no-such.toml is missing); run "postrider --instance no-such init" to create it.'
    assert.equal(await fails('--instance', 'no-such', 'domain', 'list'), missing)
    assert.equal(await fails('domain', 'list', '--instance', 'no-such'), missing)
    assert.equal(await fails('serve', '--check', '--instance=no-such'), missing)
  })

  test('rejects --address for an existing configuration, and a name that is not an address', async () => {
    const names = [
      '--domain',
      'a.test',
      '--hostname',
      'mx.a.test',
      '--email',
      'me@a.test',
      '--data',
      join(folder, 'data'),
    ]
    const init = ['--config', join(folder, 'own.toml'), 'init', ...names]
    assert.match(await fails(...init, '--address', 'mx.a.test'), /^--address "mx\.a\.test" is not an IP address/)
    assert.match(
      await fails(...init, '--address', '192.0.2.1'),
      /^--address 192\.0\.2\.1 is not an address of this machine/,
    )
    assert.equal((await commands.run([...init, '--address', '127.0.0.1, ::1'])).code, 0)
    assert.deepEqual(
      loadConfig(join(folder, 'own.toml')).smtp.listen.map(({ host }) => host),
      ['127.0.0.1', '::1'],
    )
    assert.match(await fails(...init, '--address', '127.0.0.1'), /^--address is only for a new configuration/)
    // Later settings use the same addresses.
    assert.equal((await commands.run([...init, '--accept-terms'])).code, 0)
    assert.deepEqual(
      loadConfig(join(folder, 'own.toml')).http.tls_listen.map(({ host }) => host),
      ['127.0.0.1', '::1'],
    )
  })

  test('rejects invalid names, and a second configuration', async () => {
    assert.match(await fails('--instance', '../x', 'domain', 'list'), /^--instance "..\/x" is not a valid name/)
    assert.match(await fails('--config', '/x', '--instance', 'shop', 'domain', 'list'), /^--config and --instance both/)
  })
})

describe('messages of an instance', () => {
  test('name its commands and its unit', () => {
    const texts = [
      [
        'run "postrider restore FILE", or "sudo postrider init"',
        'run "postrider --instance shop restore FILE", or "sudo postrider --instance shop init"',
      ],
      ['"systemctl restart postrider"', '"systemctl restart postrider@shop"'],
      ['"systemctl enable --now postrider"', '"systemctl enable --now postrider@shop"'],
      ['in /var/lib/postrider or of postrider.service', 'in /var/lib/postrider or of postrider.service'],
      ['"systemctl stop postrider@blog"', '"systemctl stop postrider@blog"'],
    ] as const
    for (const [text] of texts) assert.equal(forInstance(text), text)
    belongTo('shop')
    for (const [text, wanted] of texts) {
      assert.equal(forInstance(text), wanted)
      assert.equal(forInstance(wanted), wanted)
    }
  })

  test('include errors, fixes of findings and commands to copy', () => {
    belongTo('shop')
    const wanted = 'run "postrider --instance shop doctor"'
    assert.equal(new OperatorError('run "postrider doctor"').message, wanted)
    assert.equal(refuse('not_editable', 'run "postrider doctor"').message, wanted)
    const { fix, summary } = warn('a', 'run "postrider doctor"', 'Restart it: "systemctl restart postrider".')
    assert.deepEqual([summary, fix], [wanted, 'Restart it: "systemctl restart postrider@shop".'])
    assert.equal(execLine('doctor'), 'postrider --instance shop doctor')
  })
})

describe('several configurations', () => {
  const names = { domain: 'a.test', hostname: 'mx.a.test', email: 'me@a.test' }
  const write = (name: string, text: string): string => {
    const file = join(folder, `${name}.toml`)
    writeFileSync(file, text)
    return file
  }
  const own = (address: string, port: number, open = true): string =>
    newConfig(names, `/var/lib/${port}`, open, address.split(','), port)

  test('a new configuration listens only on its addresses, and sends from them', () => {
    const config = configFrom(own('192.0.2.25,2001:db8::25', 8026), undefined, {})
    const both = (port: number) => [
      { host: '192.0.2.25', port },
      { host: '2001:db8::25', port },
    ]
    assert.deepEqual(config.http.listen, { host: '127.0.0.1', port: 8026 })
    assert.deepEqual(
      [
        config.smtp.listen,
        config.acme.listen,
        config.http.tls_listen,
        config.submission.listen,
        config.submission.tls_listen,
      ],
      [both(25), both(80), both(443), both(587), both(465)],
    )
    assert.deepEqual(config.delivery.source, ['192.0.2.25', '2001:db8::25'])
  })

  test('the first address and port that two configurations share is found, with both settings', () => {
    const shop = write('shop', own('192.0.2.25', 8025))
    const blog = write('blog', own('192.0.2.26', 8026))
    const all = write('all', 'hostname = "mx.b.test"\n[http]\nlisten = "127.0.0.1:8027"\n')
    const ofPackage = write('package', '# not set up\n')
    const config = configFrom(own('192.0.2.25', 8028), undefined, {})
    assert.deepEqual(collisions(config, neighbours(OWN, [OWN, blog, ofPackage, join(folder, 'missing.toml')])), [])
    assert.deepEqual(collisions(config, neighbours(OWN, [blog, shop, write('broken', 'no_such = 1\n')])), [
      `"http.tls_listen" (192.0.2.25:443) overlaps with "http.tls_listen" (192.0.2.25:443) of ${shop}; set the listeners of each installation to its own IP address.`,
    ])
    assert.deepEqual(neighbours(join(folder, 'trial.toml'), [blog]), [])
    assert.match(
      collisions(config, neighbours(OWN, [all]))[0] ?? '',
      /^"smtp\.listen" \(192\.0\.2\.25:25\) overlaps with "smtp\.listen" \(0\.0\.0\.0:25\) of /,
    )
    assert.match(
      collisions({ ...config, data_dir: '/var/lib/8026' }, neighbours(OWN, [blog]))[0] ?? '',
      /^"data_dir" \(\/var\/lib\/8026\) is also that of .*blog\.toml; set a directory of its own/,
    )
  })

  test('a new configuration uses the first port for plain HTTP that no other has', () => {
    const files = [8025, 8026, 8028].map((port) => write(`port-${port}`, own('192.0.2.27', port)))
    assert.equal(httpPort(neighbours(OWN, files)), 8027)
    assert.equal(httpPort([]), 8025)
  })
})
