// Two instances on one machine: created by `init --instance`, run as the template unit says, each with its own user and
// IP address, and HTTPS of both on one address by HAProxy, with the configuration of docs/operate.md. /etc and /var/lib
// are copies in a mount namespace. guide/instances.interop.ts runs the package under systemd.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { get as getTls } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { instanceUnit } from '../../packaging/instance-unit.ts'
import { blocksOf } from './guide/documents.ts'
import { GATEWAY, inOwnNetwork, LATER, PROVIDER } from './guide/network.ts'
import { withPrograms } from './rig/need.ts'
import { executable, type Output } from './rig/postrider.ts'
import { Sandbox, until, type Daemon } from './rig/sandbox.ts'

const PROGRAMS = ['/usr/sbin/haproxy', '/usr/bin/systemd-sysusers', '/usr/bin/setpriv', '/usr/bin/nsenter']
const absent = [
  ...PROGRAMS.filter((file) => !existsSync(file)),
  ...(process.getuid?.() === 0 ? [] : ['the right to create users (root)']),
]
const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, async () => {}))

/** The addresses of the instances. The gateway's is the one that HAProxy listens on. */
const ADDRESSES = { shop: PROVIDER, blog: LATER }
type Name = keyof typeof ADDRESSES

const COPY = `mkdir "$1" && mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" &&
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc && rm -rf /etc/postrider &&
mount -t tmpfs -o mode=755 tmpfs /var/lib && echo ready && exec sleep infinity`

const UNIT = instanceUnit(readFileSync(join(import.meta.dirname, '../../packaging/postrider.service'), 'utf8'))
/** A setting of the template unit for one instance. */
const setting = (key: string, name: string): string =>
  new RegExp(`^${key}=(.*)$`, 'm').exec(UNIT)![1]!.replaceAll('%i', name).replace('%S', '/var/lib')

if (within)
  withPrograms('several instances', absent, () => {
    let box: Sandbox
    let namespace: Daemon
    const servers: Partial<Record<Name, Daemon>> = {}
    const tokens: Partial<Record<Name, string>> = {}
    before(async () => {
      box = new Sandbox('instances')
      namespace = box.daemon('/usr/bin/unshare', ['--mount', 'sh', '-c', COPY, 'sh', box.path('top')], 'namespace.log')
      await until(
        () => box.read('namespace.log') !== '',
        10_000,
        () => 'the namespace is not ready',
      )
      assert.equal(box.read('namespace.log'), 'ready\n')
    })
    after(() => box?.close())

    const nsenter = (): string[] => ['--target', String(namespace.pid), '--mount', '--']
    /** Runs a program in the namespace to its end. */
    const inside = (...command: string[]): Promise<Output> =>
      new Promise((resolve) =>
        execFile(
          'nsenter',
          [...nsenter(), ...command],
          { env: { PATH: process.env['PATH'] } },
          (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
        ),
      )
    const postrider = (...words: string[]): Promise<Output> => {
      const { first, program } = executable()
      return inside(program, ...first, ...words)
    }
    const must = async (...words: string[]): Promise<string> => {
      const { code, stderr, stdout } = await postrider(...words)
      assert.equal(code, 0, stdout + stderr)
      return stdout
    }
    const init = (name: string, address: string): string[] =>
      `init --instance ${name} --address ${address} --domain ${name}.example --hostname mx.${name}.example --email you@${name}.example --accept-terms`.split(
        ' ',
      )
    const CAPABILITIES = ['--bounding-set', '--inh-caps', '--ambient-caps'].map(
      (set) => `${set}=-all,+net_bind_service`,
    )
    const asUser = (user: string, ...command: string[]): string[] =>
      ['setpriv', '--reuid', user, '--regid', user, '--init-groups', '--no-new-privs'].concat(CAPABILITIES, command)
    /** Starts an instance as systemd does. */
    const start = (name: Name): Daemon => {
      const { first, program } = executable()
      const words = setting('ExecStart', name).split(' ').slice(1)
      const command = ['env', '-C', setting('WorkingDirectory', name), program, ...first, ...words]
      return box.daemon('nsenter', [...nsenter(), ...asUser(setting('User', name), ...command)], `${name}.log`)
    }
    const healthy = (name: Name): Promise<void> =>
      until(
        async () => (await postrider('health', '--instance', name)).code === 0,
        30_000,
        () => box.read(`${name}.log`),
      )

    const through = (name: string, token: string | undefined): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const headers = { Host: `mail.${name}.example`, Authorization: `Bearer ${token}` }
        const tls = {
          host: GATEWAY,
          servername: `mail.${name}.example`,
          rejectUnauthorized: false,
          agent: false as const,
        }
        getTls({ ...tls, path: '/api/v1/domains', headers }, (response) => {
          response.resume()
          resolve(response.statusCode)
        }).on('error', reject)
      })

    test('init creates each with its user, its directory and the next steps of its unit', async () => {
      for (const name of ['shop', 'blog'] as const) {
        const printed = await must(...init(name, ADDRESSES[name]))
        assert.match(
          printed,
          new RegExp(`^Wrote /etc/postrider/${name}\\.toml \\(data in /var/lib/postrider-${name}\\)\\.`),
        )
        assert.match(printed, new RegExp(`postrider --instance ${name} domain check ${name}\\.example`))
        const { stdout } = await inside(
          'stat',
          '-c',
          '%U:%G %a',
          `/var/lib/postrider-${name}`,
          `/etc/postrider/${name}.toml`,
        )
        assert.equal(stdout, `postrider-${name}:postrider-${name} 700\nroot:postrider-${name} 640\n`)
        assert.equal(setting('User', name), `postrider-${name}`)
        assert.match(await must('init', '--instance', name), /^Kept /)
      }
    })

    test('init rejects an address that another instance uses or the machine does not have', async () => {
      for (const [address, message] of [
        [
          PROVIDER,
          /^postrider: "http\.tls_listen" \(\S+:443\) overlaps with "http\.tls_listen" \(\S+:443\) of \/etc\/postrider\/shop\.toml; /,
        ],
        ['192.0.2.1', /^postrider: --address 192\.0\.2\.1 is not an address of this machine; /],
        ['mx.third.example', /^postrider: --address "mx\.third\.example" is not an IP address; /],
      ] as const) {
        const { code, stderr } = await postrider(...init('third', address))
        assert.equal(code, 1)
        assert.match(stderr, message)
      }
      const without = await postrider(
        'init',
        '--instance',
        'third',
        '--domain',
        'a.example',
        '--hostname',
        'mx.a.example',
        '--email',
        'a@a.example',
      )
      assert.match(without.stderr, /^postrider: --address is missing; .*"postrider --instance third init"/)
      assert.notEqual((await inside('test', '-e', '/etc/postrider/third.toml')).code, 0)
      assert.doesNotMatch((await inside('cat', '/etc/passwd')).stdout, /postrider-third/)
    })

    test('both run at the same time, each on its own address', async () => {
      for (const name of ['shop', 'blog'] as const) servers[name] = start(name)
      for (const name of ['shop', 'blog'] as const) {
        await healthy(name)
        const greeting = await new Promise<string>((resolve, reject) => {
          const socket = connect(25, ADDRESSES[name]).on('error', reject)
          socket.once('data', (chunk: Buffer) => resolve(chunk.toString()) ?? socket.destroy())
        })
        assert.match(greeting, new RegExp(`^220 mx\\.${name}\\.example `))
        const words = ['--json', '--instance', name, 'token', 'create', '--user', `you@${name}.example`, '--name', 'a']
        tokens[name] = (
          JSON.parse(await must(...words, '--scopes', 'all', '--duration', '1_month')) as { token: string }
        ).token
      }
    })

    test('the user of one cannot read the data or the configuration of the other', async () => {
      for (const file of [
        '/var/lib/postrider-shop/instance.key',
        '/var/lib/postrider-shop/postrider.db',
        '/etc/postrider/shop.toml',
      ]) {
        assert.equal((await inside(...asUser('postrider-shop', 'head', '-c', '1', file))).code, 0, file)
        assert.match(
          (await inside(...asUser('postrider-blog', 'head', '-c', '1', file))).stderr,
          /Permission denied/,
          file,
        )
      }
      const { first, program } = executable()
      const { code, stderr } = await inside(
        ...asUser('postrider-blog', program, ...first, '--instance', 'shop', 'domain', 'list'),
      )
      assert.equal(code, 1)
      assert.match(stderr, /\/etc\/postrider\/shop\.toml cannot be read/)
    })

    test('HAProxy passes HTTPS of both through on one address, by server name, as in docs/operate.md', async () => {
      const block = blocksOf('docs/operate.md').find(({ language }) => language === 'haproxy')!
      const addresses = { '192.0.2.10': GATEWAY, '192.0.2.25': PROVIDER, '192.0.2.26': LATER }
      const text = Object.entries(addresses).reduce(
        (all, [from, to]) => all.replaceAll(from, to),
        block.commands.join('\n'),
      )
      const file = box.write('haproxy.cfg', `${text}\n`)
      const checked = await inside('/usr/sbin/haproxy', '-c', '-q', '-f', file)
      assert.deepEqual([checked.code, checked.stderr], [0, ''])
      box.daemon('nsenter', [...nsenter(), '/usr/sbin/haproxy', '-db', '-f', file], 'haproxy.log')
      await until(
        () =>
          through('shop', tokens.shop).then(
            () => true,
            () => false,
          ),
        10_000,
        () => box.read('haproxy.log'),
      )
      assert.deepEqual(
        [await through('shop', tokens.shop), await through('blog', tokens.blog), await through('blog', tokens.shop)],
        [200, 200, 401],
      )
      await assert.rejects(through('other', tokens.shop), 'a name of no instance')
      const location = await new Promise((resolve, reject) => {
        const headers = { Host: 'mail.blog.example' }
        get({ host: GATEWAY, path: '/x', headers, agent: false }, (response) => {
          response.resume()
          resolve(response.headers.location)
        }).on('error', reject)
      })
      assert.match(String(location), /^https:\/\/(?:mail|mx)\.blog\.example/)
    })

    test('a shared address is a warning of serve --check, and an error of the start', async () => {
      await servers.blog!.stop()
      await inside('sed', '-i', `s/${LATER}:25"/${PROVIDER}:25"/`, '/etc/postrider/blog.toml')
      const { warnings } = JSON.parse(await must('--json', '--instance', 'blog', 'serve', '--check')) as {
        warnings: string[]
      }
      assert.match(
        warnings.join('\n'),
        /"smtp\.listen" \(\S+:25\) overlaps with "smtp\.listen" \(\S+:25\) of \/etc\/postrider\/shop\.toml/,
      )
      const second = start('blog')
      await second.exited
      assert.equal(second.exitCode(), 1)
      assert.match(
        box.read('blog.log'),
        /\("smtp\.listen"\) is used by another process; .*change "smtp\.listen" to another address/,
      )
    })

    test('a restore of an instance creates its user and its directory', async () => {
      const { first, program } = executable()
      const script = `"$@" --instance shop backup - >/var/lib/move.zip &&
        sed s/postrider-shop/postrider-moved/ /etc/postrider/shop.toml >/etc/postrider/moved.toml &&
        "$@" --instance moved restore --without-ledger - </var/lib/move.zip`
      const { code, stderr } = await inside('sh', '-c', script, 'sh', program, ...first)
      assert.equal(code, 0, stderr)
      assert.equal((await inside('stat', '-c', '%U %a', '/var/lib/postrider-moved')).stdout, 'postrider-moved 700\n')
      assert.match(await must('--instance', 'moved', 'domain', 'list'), /shop\.example/)
    })

    test('doctor names the unit of the instance', async () => {
      await inside('sed', '-i', `s/${PROVIDER}:25"/${LATER}:25"/`, '/etc/postrider/blog.toml')
      const { stdout } = await postrider('--json', '--instance', 'blog', 'doctor')
      assert.match(stdout, /systemctl start postrider@blog/)
      assert.doesNotMatch(stdout, /(?:systemctl \w+ postrider|postrider (?!--instance)[a-z]+)\\?"/)
    })
  })
