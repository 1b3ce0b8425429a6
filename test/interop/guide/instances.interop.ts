// Several instances of the package under systemd: separate users and control groups, upgrades, removal. The commands
// are those of docs/operate.md and docs/uninstall.md. ../instances.interop.ts has the network and the files.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { withPrograms } from '../rig/need.ts'
import { Sandbox, until } from '../rig/sandbox.ts'
import { blocksOf } from './documents.ts'
import { inOwnNetwork } from './network.ts'
import { laterPackage } from './package.ts'
import { absent, bare, type Bare } from './prepare.ts'
import { Server } from './server.ts'
import { bring } from './walk.ts'

/** The addresses of the instances, on the machine's loopback. */
const ADDRESSES = { shop: '127.0.0.11', blog: '127.0.0.12' }
type Name = keyof typeof ADDRESSES
const NAMES = ['shop', 'blog'] as const
const TIMEOUT = 60_000

const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, bare))

if (within)
  withPrograms('several instances under systemd', absent, () => {
    let prepared: Bare
    let box: Sandbox
    let server: Server
    before(async () => {
      prepared = await bare()
      box = new Sandbox('instances')
      server = await Server.boot(prepared.root, 'instances')
      await bring(server, prepared.made)
      await server.machine.must('apt install -y ./postrider_*.deb', { timeout: 240 })
    })
    after(async () => {
      await server?.machine.stop()
      await box?.close()
    })

    const property = async (name: Name, key: string): Promise<string> =>
      (await server.machine.must(`systemctl show --property ${key} --value postrider@${name}`)).trim()
    /** Waits until the instance runs as another process than `than` and is healthy. Returns its process. */
    const ready = async (name: Name, than = '0'): Promise<string> => {
      let pid = '0'
      await until(
        async () => {
          pid = await property(name, 'MainPID')
          if (pid === '0' || pid === than) return false
          return (await server.machine.run(`postrider health --instance ${name}`)).code === 0
        },
        TIMEOUT,
        () => `postrider@${name} does not become ready`,
      )
      return pid
    }
    /** The commands of a section for an instance, as its operator types them. */
    const type = async (file: string, section: string, name: Name): Promise<string[]> => {
      const printed: string[] = []
      const blocks = blocksOf(file).filter(({ heading, language }) => heading === section && language === 'sh')
      assert.equal(blocks.length, 1)
      for (const command of blocks.flatMap(({ commands }) => commands)) {
        const own = command.replaceAll('192.0.2.25', ADDRESSES[name]).replaceAll('shop', name)
        // It has findings here, because the network is not the internet.
        printed.push(
          await (own.endsWith('doctor')
            ? server.machine.run(own).then(({ stdout }) => stdout)
            : server.machine.must(own)),
        )
      }
      return printed
    }

    test('each instance runs as its own user, in its own control group below a common one', async () => {
      for (const name of NAMES) {
        const printed = await type('docs/operate.md', 'Several instances on one machine', name)
        assert.match(printed[0]!, new RegExp(`systemctl enable --now postrider@${name}$`, 'm'))
        const pid = await ready(name)
        assert.equal((await server.machine.must(`stat -c %U /proc/${pid}`)).trim(), `postrider-${name}`)
        const group = await property(name, 'ControlGroup')
        assert.equal(group, `/system.slice/system-postrider.slice/postrider@${name}.service`)
        assert.equal(await property(name, 'CPUWeight'), '100')
        const files = await server.machine.must(`find /var/lib/postrider-${name} ! -user postrider-${name}`)
        assert.equal(files, '')
      }
      const read = 'setpriv --reuid postrider-blog --regid postrider-blog --init-groups cat'
      for (const file of ['/var/lib/postrider-shop/instance.key', '/etc/postrider/shop.toml'])
        assert.match((await server.machine.run(`${read} ${file}`)).stderr, /Permission denied/)
      assert.equal(await server.machine.must('systemd-analyze verify --man=no postrider@shop.service 2>&1'), '')
    })

    test('a reload and a drop-in for all instances apply to each', async () => {
      const { machine } = server
      const pid = await property('shop', 'MainPID')
      await machine.must('systemctl reload postrider@shop')
      assert.equal(await property('shop', 'MainPID'), pid)
      await machine.must(
        "mkdir -p '/etc/systemd/system/postrider@.service.d' && printf '[Service]\\nMemoryMax=300M\\n' >'/etc/systemd/system/postrider@.service.d/all.conf' && systemctl daemon-reload",
      )
      for (const name of NAMES) assert.equal(await property(name, 'MemoryMax'), String(300 * 1024 ** 2))
    })

    test('an upgrade restarts all instances but one whose configuration is invalid', async () => {
      const { machine } = server
      const [shop, blog] = [await ready('shop'), await ready('blog')]
      await machine.must("printf '[no_such_section]\\n' >>/etc/postrider/blog.toml")
      await bring(server, await laterPackage(prepared.made, box.dir))
      const printed = await machine.must('apt install -y ./postrider_*.deb 2>&1', { timeout: 240 })
      assert.match(printed, /^postrider@blog: not restarted, .*no_such_section/m)
      assert.match(printed, /"systemctl restart postrider@blog"/)
      await ready('shop', shop)
      assert.equal(await property('blog', 'MainPID'), blog)
      await machine.must("sed -i '/no_such_section/d' /etc/postrider/blog.toml && systemctl restart postrider@blog")
      await ready('blog', blog)
    })

    test('one instance is removed as documented, and a purge of the package removes the others', async () => {
      const { machine } = server
      await type('docs/uninstall.md', 'Remove one instance', 'shop')
      await ready('blog')
      const left = async (): Promise<string> =>
        machine.must(
          'ls -d /etc/postrider/* /var/lib/postrider-* /etc/systemd/system/*/postrider@* 2>/dev/null || true',
        )
      assert.doesNotMatch(await left(), /shop/)
      await machine.must('apt purge -y postrider', { timeout: 240 })
      assert.equal(await left(), '')
      assert.notEqual(await property('blog', 'ActiveState'), 'active')
    })
  })
