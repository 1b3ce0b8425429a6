// A failover pair with keepalived and a provider's volume, set up as docs/high-availability.md describes, command by
// command, on two Debian machines under systemd. The provider's API attaches the volume to one machine at a time.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { basename } from 'node:path'
import { after, before, test } from 'node:test'
import { withPrograms } from '../rig/need.ts'
import { Sandbox, until } from '../rig/sandbox.ts'
import { debianRoot } from './base.ts'
import { HOME, Machine } from './machine.ts'
import { BRIDGE, GATEWAY, inOwnNetwork, NAMESERVER, SERVER, withPrefix } from './network.ts'
import { debianPackage, laterPackage, type Package } from './package.ts'
import { absent } from './prepare.ts'
import { Provider } from './provider.ts'
import { Server } from './server.ts'
import { bring, demandWalked, firstMail, follow, USER, type Manner, type Step } from './walk.ts'
import type { Section } from './documents.ts'
import { PROVIDER_DOMAIN, startWorld, type World } from './world.ts'

const SECOND = 1000
const CONFIG = '/etc/postrider/postrider.toml'
const ADDRESSES = { mx1: '192.31.196.11', mx2: '192.31.196.12' } as const
type Name = keyof typeof ADDRESSES
const other = (name: Name): Name => (name === 'mx1' ? 'mx2' : 'mx1')

interface Prepared {
  made: Package
  root: string
}

async function prepare(): Promise<Prepared> {
  const made = await debianPackage()
  return { made, root: await debianRoot([...made.depends, 'keepalived', 'curl', 'jq']) }
}

/** It takes minutes, so it runs on request. The short form of ../pair.interop.ts always runs. */
const asked = process.env['POSTRIDER_PAIR'] !== undefined
const within = asked && (absent.length > 0 || (await inOwnNetwork(import.meta.filename, prepare)))

/** The greeting of the mail port at the address that moves, or '' if there is none within a second. */
const greeting = (): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect(25, SERVER)
    socket
      .setEncoding('utf8')
      .setTimeout(SECOND, () => socket.destroy())
      .on('data', (text: string) => (resolve(text), socket.destroy()))
      .on('error', () => {})
      .on('close', () => resolve(''))
  })

if (within)
  withPrograms('a failover pair with keepalived', absent, () => {
    let prepared: Prepared
    let world: World
    let box: Sandbox
    let provider: Provider
    const servers = {} as Record<Name, Server>
    let tell: (line: string) => void

    const type = (name: Name, section: Section, manner: Manner = {}): Promise<Step[]> =>
      follow(servers[name].machine, world, section, (line) => tell(`${name}: ${line}`), manner)
    /** The exit code of health --serving: 0 serves, 2 stands by. */
    const state = async (name: Name): Promise<number> =>
      (await servers[name].machine.run('postrider health --serving')).code
    const states = async (): Promise<string> => `${await state('mx1')}${await state('mx2')}`
    const log = async (): Promise<string> => {
      const logs = Object.values(servers).map(({ machine }) =>
        machine.run('hostname; postrider health --serving; journalctl --no-pager -n 40 -u postrider -u keepalived'),
      )
      return (await Promise.all(logs)).map(({ stderr, stdout }) => stdout + stderr).join('\n')
    }
    const becomes = (look: () => Promise<boolean>, what: string, seconds = 90): Promise<void> =>
      until(look, seconds * SECOND, () => what)
    /** Waits until one machine serves the address and the other one stands by. Returns the seconds until the first. */
    async function serves(name: Name): Promise<string> {
      const began = performance.now()
      await becomes(async () => (await greeting()).startsWith('220 '), `${name} does not greet`)
      const seconds = ((performance.now() - began) / SECOND).toFixed(1)
      const wanted = name === 'mx1' ? '02' : '20'
      await becomes(async () => (await states()) === wanted, `${name} does not serve alone`)
      return seconds
    }

    /** A machine as its provider delivers it, with everything that the document does on both. */
    async function machine(name: Name): Promise<void> {
      const network = { bridge: BRIDGE, address: withPrefix(ADDRESSES[name]), gateway: GATEWAY, nameserver: NAMESERVER }
      servers[name] = new Server(await Machine.boot(prepared.root, name, network))
      const { machine: here } = servers[name]
      // systemd does this on a machine that is not a container.
      await here.must('mount --make-rshared /')
      await bring(servers[name], prepared.made)
      provider.add(name === 'mx1' ? 1 : 2, here)
      await type(name, 'On both machines')
      // What the reader edits.
      const { api, device, token, volume } = provider
      const values = { API: api, TOKEN: token, VOLUME: volume, SERVER: name === 'mx1' ? 1 : 2, DEVICE: device }
      const edits = Object.entries(values).map(([key, value]) => `-e 's|^${key}=.*|${key}=${value}|'`)
      await here.must(`sed -i ${edits.join(' ')} /etc/postrider/volume.conf`)
      await here.must(
        `sed -i -e 's/192\\.0\\.2\\.10\\b/${SERVER}/' -e 's/192\\.0\\.2\\./192.31.196./' /etc/keepalived/keepalived.conf`,
      )
    }

    /** Copies the configuration between the machines, as scp does: a file that exists keeps its owner. */
    function copyConfiguration(from: Name, to: Name): void {
      for (const file of [CONFIG, `${CONFIG}.set-up`])
        servers[to].machine.write(file, readFileSync(servers[from].machine.outside(file), 'utf8'))
    }

    /** An email by the API of the machine that serves, delivered once. */
    async function send(from: Name, subject: string): Promise<void> {
      const before = (await world.provider.maildir()).length
      await servers[from].post(`you@${PROVIDER_DOMAIN}`, subject)
      const letters = await world.provider.waitFor(before + 1)
      assert.equal(letters.length, before + 1)
      assert.match(letters.map(String).join('\n'), new RegExp(`^Subject: ${subject}\\r?$`, 'm'))
    }

    let broken = false
    /** A step of a long story: after a failure, the following ones would only fail as well. */
    const step = (name: string, run: () => Promise<void>): void =>
      void test(name, async (t) => {
        tell = (line) => t.diagnostic(line)
        assert.ok(!broken, 'an earlier step failed')
        broken = true
        await run().catch(async (error: unknown) => {
          throw new Error(await log(), { cause: error })
        })
        broken = false
      })

    before(async () => {
      prepared = await prepare()
      box = new Sandbox('pair')
      world = await startWorld()
      provider = await Provider.start(box, GATEWAY)
    })
    after(async () => {
      for (const { machine: each } of Object.values(servers)) await each.stop()
      await provider?.close()
      await world?.close()
      await box?.close()
    })

    step('the commands of the document lead to a pair that delivers email', async () => {
      await machine('mx1')
      await machine('mx2')
      await type('mx1', 'On the first machine')
      const { machine: mx1 } = servers.mx1
      await mx1.must(
        `sed -i 's/^# source = .*/source = ["${SERVER}"]/; s/^source = .*/source = ["${SERVER}"]/' ${CONFIG}`,
      )
      await mx1.must(`grep -q '^source' ${CONFIG} || printf '\\n[delivery]\\nsource = ["${SERVER}"]\\n' >>${CONFIG}`)
      copyConfiguration('mx1', 'mx2')
      assert.equal((await servers.mx2.machine.must(`stat -c %U:%G:%a ${CONFIG}`)).trim(), 'root:postrider:640')
      const wait = async (command: string): Promise<void> => {
        if (!command.startsWith('systemctl restart')) return
        const ready = async () => [0, 2].includes(await state(running))
        await becomes(ready, `${running} neither serves nor stands by`)
      }
      let running: Name = 'mx1'
      await type('mx1', 'Start both machines', { wait })
      running = 'mx2'
      await type('mx2', 'Start both machines', { wait })
      tell(`greets after ${await serves('mx1')} s`)
      await type('mx1', 'Publish the DNS records')
      await firstMail(servers.mx1, world, [
        { command: 'postrider token create', seconds: 0, printed: await token('mx1') },
      ])
      servers.mx2.token = servers.mx1.token
    })

    const token = async (name: Name): Promise<string> =>
      await servers[name].machine.must(
        `postrider token create --user ${USER} --name guide --scopes all --duration 1_month`,
      )

    step('a planned move takes a few seconds, and frees the volume', async () => {
      for (const name of ['mx1', 'mx2'] as const) {
        await type(name, 'Test the takeover')
        tell(`${other(name)} greets after ${await serves(other(name))} s`)
        assert.equal(provider.busy, false, 'the former device stays in use')
        await send(other(name), `Moved from ${name}`)
      }
    })

    step('a machine that is off is replaced by the other one, and by a new one', async () => {
      // Its namespaces end a while after its processes, and would answer for its address until then.
      execFileSync('ip', ['link', 'delete', 'mx10'])
      await servers.mx1.machine.stop()
      provider.remove(1)
      const began = performance.now()
      await becomes(async () => (await greeting()).startsWith('220 '), 'mx2 does not greet')
      const seconds = (performance.now() - began) / SECOND
      tell(`mx2 greets after ${seconds.toFixed(1)} s`)
      assert.ok(seconds < 60)
      await send('mx2', 'After a failure')
      const { machine: here } = servers.mx2
      assert.match(await here.must('journalctl -u postrider -o cat'), /"event":"took_over"[^\n]*"from":"mx1"/)
      await machine('mx1')
      servers.mx1.token = servers.mx2.token
      copyConfiguration('mx2', 'mx1')
      await servers.mx1.machine.must('systemctl enable postrider keepalived && systemctl restart postrider keepalived')
      await serves('mx2')
    })

    step(
      'if the machine that serves loses its network and its volume, its server ends, and it stands by when the link is back',
      async () => {
        // The switch fails, and the machine still has a carrier: keepalived would see a cable that is unplugged.
        execFileSync('ip', ['link', 'set', 'mx20', 'nomaster'])
        const pid = await servers.mx2.pid()
        const began = performance.now()
        await becomes(async () => (await greeting()).startsWith('220 '), 'mx1 does not greet')
        tell(`mx1 greets after ${((performance.now() - began) / SECOND).toFixed(1)} s`)
        await becomes(async () => (await servers.mx2.pid()) !== pid, 'the server of mx2 still runs', 25)
        tell(`the server of mx2 ended within ${((performance.now() - began) / SECOND).toFixed(1)} s`)
        await send('mx1', 'After a cut')
        execFileSync('ip', ['link', 'set', 'mx20', 'master', BRIDGE])
        await serves('mx1')
      },
    )

    step('an upgrade of a pair is a move between two versions', async () => {
      const later = await laterPackage(prepared.made, box.dir)
      const install = async (name: Name): Promise<void> => {
        servers[name].machine.copyIn(later.file, `${HOME}/${basename(later.file)}`)
        const before = await servers[name].pid()
        await servers[name].machine.must(`apt install -y ./${basename(later.file)}`, { timeout: 240 })
        await becomes(async () => ![0, before].includes(await servers[name].pid()), `${name} runs the former version`)
      }
      await install('mx2')
      await becomes(async () => (await states()) === '02', 'mx2 stands by again')
      await servers.mx1.machine.must('/etc/postrider/detach && systemctl restart keepalived')
      tell(`mx2 greets after ${await serves('mx2')} s`)
      await install('mx1')
      await serves('mx2')
      await send('mx2', 'After an upgrade')
    })

    after(() => demandWalked(import.meta.filename))
  })
