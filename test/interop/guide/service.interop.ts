// The package with a real systemd: its status, its watchdog, and upgrades by Debian's unattended-upgrades.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, normalize } from 'node:path'
import { after, before, test } from 'node:test'
import { withPrograms } from '../rig/need.ts'
import { Sandbox, until } from '../rig/sandbox.ts'
import { commandsOf } from './documents.ts'
import { GATEWAY, inOwnNetwork } from './network.ts'
import { laterPackage, type Package } from './package.ts'
import { absent, prepare, type Prepared } from './prepare.ts'
import { Server } from './server.ts'
import { bring, HOST, USER } from './walk.ts'

const ROOT = join(import.meta.dirname, '../../..')
const CONFIG = '/etc/postrider/postrider.toml'
const DROP_IN = '/run/systemd/system/postrider.service.d/test.conf'
const SECONDS = 1000
// Debian's own mirrors are not to be reached from here; what was read of them stays.
const ONLY = '-o Dir::Etc::sourcelist=/etc/apt/sources.list.d/postrider.sources -o Dir::Etc::sourceparts=-'
const UPDATE = `apt-get update ${ONLY} -o APT::Get::List-Cleanup=0 2>&1`

const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, prepare))

if (within)
  withPrograms('the service under systemd', absent, () => {
    let prepared: Prepared
    let box: Sandbox
    let server: Server
    const web = createServer(({ url = '' }, response) => {
      const file = box.path(join('www', normalize(decodeURIComponent(url))))
      if (existsSync(file)) response.end(readFileSync(file))
      else response.writeHead(404).end()
    })

    before(async () => {
      prepared = await prepare()
      box = new Sandbox('service')
      server = await Server.boot(prepared.root, 'service')
      const { machine } = server
      await bring(server, prepared.made)
      await machine.must('apt install -y ./postrider_*.deb', { timeout: 240 })
      await machine.must(`postrider init --domain example.org --hostname ${HOST} --email ${USER}`)
      await machine.must('systemctl enable --now postrider')
      await server.ready()
    })
    after(async () => {
      web.close()
      await server?.machine.stop()
      await box?.close()
    })

    test('systemd shows the status of the server and recognises its reload', async () => {
      assert.equal(await server.property('Type'), 'notify')
      assert.match(await server.property('StatusText'), /^(?:ok|degraded): (?:.* )?0 recipients in the queue$/)
      const pid = await server.pid()
      await server.machine.must('systemctl reload postrider')
      await until(
        async () => (await server.journal('--lines 50')).includes('configuration_reloaded'),
        20 * SECONDS,
        () => 'the configuration is not read again',
      )
      assert.deepEqual([await server.pid(), await server.property('ActiveState')], [pid, 'active'])
    })

    test('the unit’s memory limit applies, and systemd reports no problem', async () => {
      for (const [name, value] of [
        ['MemoryHigh', String(400 * 1024 ** 2)],
        ['MemoryMax', 'infinity'],
        ['OOMPolicy', 'stop'],
        ['WatchdogUSec', '1min'],
        ['NotifyAccess', 'all'],
      ] as const)
        assert.equal(await server.property(name), value, name)
      assert.equal(await server.machine.must('systemd-analyze verify --man=no postrider.service 2>&1'), '')
      const told = await server.machine.must('systemd-analyze security --no-pager postrider.service')
      const [, exposure] = /exposure level for postrider\.service: ([\d.]+)/.exec(told) ?? []
      assert.ok(Number(exposure) <= 1.6, told)
    })

    test('systemd kills and restarts a server that sends no keep-alive', async () => {
      const { machine } = server
      await machine.must(`mkdir -p $(dirname ${DROP_IN}) && printf '[Service]\\nWatchdogSec=6\\n' >${DROP_IN}`)
      await machine.must('systemctl daemon-reload && systemctl restart postrider')
      await server.ready()
      const pid = await server.pid()
      await machine.must(`kill -STOP ${pid}`)
      await server.ready(pid)
      assert.equal(await server.property('NRestarts'), '1')
      assert.match(await machine.must('journalctl --no-pager --unit postrider'), /Watchdog timeout \(limit 6s\)/)
      await machine.must(`rm ${DROP_IN} && systemctl daemon-reload && systemctl restart postrider`)
      await server.ready()
    })

    /** Offers a package in the repository that the machine asks. */
    const offer = (next: Package): void => {
      const args = [
        'packaging/repository.ts',
        '--key',
        'apt',
        '--url',
        `http://${GATEWAY}:${(web.address() as AddressInfo).port}`,
      ]
      const env = { ...process.env, GNUPGHOME: box.path('gnupg') }
      execFileSync(process.execPath, [...args, box.path('www'), next.file], { cwd: ROOT, env, stdio: 'pipe' })
    }
    const installed = (): Promise<string> => server.machine.must(`dpkg-query -W -f '\${Version}' postrider`)

    test('unattended-upgrades installs from the repository as documented, and restarts the service', async () => {
      const { machine } = server
      mkdirSync(box.path('gnupg'), { mode: 0o700 })
      const env = { ...process.env, GNUPGHOME: box.path('gnupg') }
      const key = ['--batch', '--passphrase', '', '--quick-gen-key', 'apt', 'ed25519', 'sign', '2y']
      execFileSync('gpg', key, { env, stdio: 'ignore' })
      await new Promise<void>((resolve) => web.listen(0, GATEWAY, resolve))
      const next = await laterPackage(prepared.made, box.dir, 'next')
      offer(next)
      machine.copyIn(box.path('www/postrider.sources'), '/etc/apt/sources.list.d/postrider.sources')
      await machine.must(UPDATE)
      let printed = ''
      for (const command of commandsOf('Automatic upgrades')) printed = await machine.must(command, { timeout: 240 })
      assert.match(printed, /Postrider/)
      const dry = await machine.must('unattended-upgrade --dry-run -v 2>&1', { timeout: 240 })
      assert.match(dry, /Packages that will be upgraded: postrider\n/)
      assert.equal(await installed(), prepared.made.version, 'a dry run changes nothing')

      const pid = await server.pid()
      await machine.must('unattended-upgrade -v 2>&1', { timeout: 240 })
      assert.equal(await installed(), next.version)
      await server.ready(pid)
    })

    test('unattended-upgrades does not restart the service if its configuration is invalid', async () => {
      const { machine } = server
      const next = await laterPackage(prepared.made, box.dir, 'next.wrong')
      offer(next)
      const former = await machine.must(`cat ${CONFIG}`)
      machine.write(CONFIG, `${former}\n[no_such_section]\nkey = 1\n`)
      const pid = await server.pid()
      try {
        await machine.must(UPDATE)
        await machine.must('unattended-upgrade -v 2>&1', { timeout: 240 })
        assert.equal(await installed(), next.version)
        const log = await machine.must('cat /var/log/unattended-upgrades/unattended-upgrades-dpkg.log')
        assert.match(
          log,
          /postrider: not restarted, because the new version rejects the configuration.*no_such_section/,
        )
        assert.equal(await server.pid(), pid)
        await server.ready()
      } finally {
        machine.write(CONFIG, former)
      }
      await machine.must('systemctl restart postrider')
      await server.ready(pid)
    })
  })
