// The README's steps to production on a bare Debian with systemd, command by command from the file itself, and the
// later operation of the server. The machine has no internet access: DNS is an nsd with the printed records, and the
// provider is a Postfix.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { withPrograms } from '../rig/need.ts'
import { Sandbox, until } from '../rig/sandbox.ts'
import { serialOf, writeCertificate } from './certificates.ts'
import { bring, demandWalked, follow, HOST, publish, published, publishZone, SECTION, USER, zoneLines } from './walk.ts'
import { HOME } from './machine.ts'
import { inOwnNetwork, SERVER } from './network.ts'
import { laterPackage } from './package.ts'
import { absent, prepare, type Prepared } from './prepare.ts'
import { commandsOf } from './documents.ts'
import { Server } from './server.ts'
import { longestSilence } from './silence.ts'
import {
  ALL_PASS,
  judged,
  LATER_DOMAIN,
  messageIds,
  PROVIDER_DOMAIN,
  startWorld,
  withLaterExchanger,
  type World,
} from './world.ts'

/** What a reader types at most, and how long it may take. */
const COMMANDS = 6
const MINUTES = 5
const CONFIG = '/etc/postrider/postrider.toml'
const DATA = '/var/lib/postrider'
/** What `systemd-analyze security` may say at most; 0 is the best, 10 the worst. */
const EXPOSURE = 1.7
/** How long an upgrade may leave port 25 without an answer: two seconds, and three that a busy machine may add. */
const SILENCE = 2000 + 3000

const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, prepare))

if (within)
  withPrograms('the guide of the README', absent, () => {
    let prepared: Prepared
    let world: World
    let box: Sandbox
    /** The machine that the tests go on with; a restore replaces it. */
    let server: Server

    before(async () => {
      prepared = await prepare()
      box = new Sandbox('guide')
      world = await startWorld()
      server = await Server.boot(prepared.root, 'server')
    })
    after(async () => {
      const failures: unknown[] = []
      for (const end of [() => server?.machine.stop(), () => world?.close(), () => box?.close()])
        await end()?.catch((error: unknown) => failures.push(error))
      if (failures.length > 0) throw failures[0]
    })

    /** Mail that cannot be delivered before an exchanger listens. */
    const queue = async (title: string, count = 5): Promise<void> => {
      assert.notEqual(server.token, '', 'nobody came to the end of the guide')
      // Of a test that failed.
      for (const { id } of (await server.json('queue list')) as { id: string }[]) await server.json(`queue drop ${id}`)
      for (let n = 1; n <= count; n++) await server.post(`${title}${n}@${LATER_DOMAIN}`, title)
      assert.equal((await server.queued()).length, count)
    }
    /** Every letter of the queue arrives once. */
    const arrive = async (count = 5): Promise<void> => {
      assert.equal((await server.queued()).length, count)
      await withLaterExchanger(async (later) => {
        await server.emptied()
        const ids = messageIds(await later.waitFor(count))
        assert.equal(new Set(ids).size, count)
        assert.equal(ids.length, count)
      })
    }

    /** Changes the configuration while `work` is done; the service has read the former one again afterwards. */
    const configured = async (change: (text: string) => string, work: () => Promise<void>): Promise<void> => {
      const former = await server.machine.must(`cat ${CONFIG}`)
      const changed = change(former)
      assert.notEqual(changed, former, `nothing to change in\n${former}`)
      server.machine.write(CONFIG, changed)
      try {
        await work()
      } finally {
        server.machine.write(CONFIG, former)
        await server.machine.run('systemctl reset-failed postrider; systemctl restart postrider')
        await server.ready()
      }
    }

    test(`a bare Debian delivers its first email after ${COMMANDS} commands, in under ${MINUTES} minutes`, async (context) => {
      const began = performance.now()
      assert.ok(commandsOf(SECTION).length <= COMMANDS, `${commandsOf(SECTION).length} commands`)
      await bring(server, prepared.made)
      const steps = await follow(server.machine, world, SECTION, (line) => context.diagnostic(line))
      const [letter] = await world.provider.waitFor(1)
      const minutes = (performance.now() - began) / 60_000
      context.diagnostic(`${steps.length} commands, ${(minutes * 60).toFixed(1)} s, no guesses`)
      assert.ok(minutes < MINUTES, `${minutes} minutes`)
      assert.deepEqual(await judged(letter!, world.names), ALL_PASS)
      assert.equal(await server.property('ActiveState'), 'active')
      await server.makeToken(USER)
    })

    test(`systemd-analyze rates the exposure of the unit below ${EXPOSURE}`, async (context) => {
      const unit = await server.property('FragmentPath')
      const told = await server.machine.must(`systemd-analyze security --no-pager --offline=true ${unit}`)
      const [line = '', figure] = /Overall exposure level for postrider\.service: ([\d.]+).*/.exec(told) ?? []
      context.diagnostic(line)
      assert.ok(Number(figure) < EXPOSURE, told)
    })

    test('the service runs as its own user, which owns its data', async () => {
      assert.equal((await server.machine.must(`ps -o user= -p ${await server.pid()}`)).trim(), 'postrider')
      assert.equal(await server.machine.must(`find ${DATA} ! -user postrider -o -perm /077 ! -type d`), '')
    })

    test('errors have a priority in the journal', async (context) => {
      assert.equal(await server.errors(), '')
      const wrong = (text: string) => `${text}\n[no_such_section]\nkey = 1\n`
      await configured(wrong, async () => {
        await server.machine.run('systemctl reload postrider')
        const told = async () => (await server.errors()).includes('no_such_section')
        await until(told, 20_000, () => 'the fault does not stand in the journal as an error')
      })
      assert.doesNotMatch(await server.errors(), /"server_ready"/)
      await follow(server.machine, world, 'Read the logs', (line) => context.diagnostic(line))
    })

    test('a reload keeps the process and the queue', async () => {
      await queue('reload')
      const pid = await server.pid()
      const before = (await server.journal('--grep "configuration_reloaded"').catch(() => '')).length
      await server.machine.must('systemctl reload postrider')
      const read = async () => (await server.journal('--grep "configuration_reloaded"').catch(() => '')).length > before
      await until(read, 20_000, () => 'the configuration is not read again')
      assert.equal(await server.pid(), pid)
      await arrive()
    })

    test('a restart keeps the queue', async () => {
      await queue('restart')
      const pid = await server.pid()
      await server.machine.must('systemctl restart postrider')
      await server.ready(pid)
      await arrive()
      assert.equal(await server.property('NRestarts'), '0')
    })

    test('Let’s Encrypt certificates are reported if unreadable, shown if readable, and reloaded after a renewal', async (context) => {
      const live = `/etc/letsencrypt/live/${HOST}`
      const named = (text: string) =>
        text
          .replace(/^tls_cert = .*$/m, `tls_cert = "${live}/fullchain.pem"`)
          .replace(/^tls_key = .*$/m, `tls_key = "${live}/privkey.pem"`)
      const shown = (serial: string) => async () => (await serialOf(SERVER)) === serial
      await writeCertificate(server.machine, HOST, 1)
      await configured(named, async () => {
        const pid = await server.pid()
        await server.machine.must('systemctl restart postrider')
        await server.ready(pid)
        assert.match(await server.errors(), /letsencrypt/)
        assert.match(await serialOf(SERVER), /^(?!01$)./)
        await follow(server.machine, world, 'Use a certificate from certbot', (line) => context.diagnostic(line))
        await server.machine.must('systemctl reload postrider')
        await until(shown('01'), 20_000, () => 'the certificate is not shown')
        await writeCertificate(server.machine, HOST, 2)
        await server.machine.must('systemctl reload postrider')
        await until(shown('02'), 20_000, () => 'the renewed certificate is not shown')
      })
    })

    test('an upgrade restarts the service after a short interruption, with mail in the queue', async (context) => {
      await queue('later')
      await bring(server, await laterPackage(prepared.made, box.dir))
      const pid = await server.pid()
      const { longest } = await longestSilence(SERVER, async () => {
        await follow(server.machine, world, 'Install the new version', (line) => context.diagnostic(line))
        await server.ready(pid)
      })
      context.diagnostic(`port 25 was silent for ${longest} ms`)
      assert.ok(longest < SILENCE, `${longest} ms`)
      await arrive()
    })

    test('an upgrade does not restart the service if its configuration is invalid, and reports the reason', async () => {
      const pid = await server.pid()
      const next = await laterPackage(prepared.made, box.dir, 'later.next')
      await bring(server, next)
      const wrong = (text: string) => `${text}\n[no_such_section]\nkey = 1\n`
      await configured(wrong, async () => {
        const printed = await server.machine.must('apt install -y ./postrider_*.deb 2>&1', { timeout: 240 })
        assert.match(
          printed,
          /postrider: not restarted, because the new version rejects the configuration.*no_such_section/,
        )
        const installed = await server.machine.must(`dpkg-query -W -f '\${Version} \${db:Status-Status}' postrider`)
        assert.equal(installed, `${next.version} installed`)
        assert.equal(await server.pid(), pid)
        await server.ready()
      })
      assert.notEqual(await server.pid(), pid)
    })

    test('records, check and doctor use a new host name at once', async (context) => {
      const renamed = 'mail.example.org'
      const former = published(world)
      const pid = await server.pid()
      const steps = await follow(server.machine, world, 'Change the host name', (line) => context.diagnostic(line), {
        host: renamed,
      })
      await server.ready(pid)
      // The records that init printed; later only those that are not published yet are printed.
      const printed = steps.map((step) => step.printed).join('\n')
      assert.match(printed, new RegExp(`IN MX 10 ${renamed}\\.`))
      assert.match(printed, new RegExp(`"v=spf1 a:${renamed} `))
      // The advised SPF record of the domain itself keeps what is published there: others may send by it.
      const ofDomain = /^example\.org\. \d+ IN TXT "v=spf1 /
      const others = zoneLines(printed).filter((line) => !ofDomain.test(line))
      assert.doesNotMatch(others.join('\n'), new RegExp(HOST))

      // As long as the former name is published, it is called by its name.
      await publishZone(world, former, renamed)
      for (const command of ['domain check example.org', 'doctor']) {
        const { stderr, stdout } = await server.machine.run(`postrider ${command}`)
        assert.match(stdout + stderr, new RegExp(`\\b${HOST}\\b`), command)
      }
      await publish(world, zoneLines(printed), renamed)
      assert.match(await server.machine.must('postrider domain check example.org'), /is active/)
      const before = (await world.provider.maildir()).length
      await server.post(`you@${PROVIDER_DOMAIN}`, 'Renamed')
      const letters = await world.provider.waitFor(before + 1)
      assert.deepEqual(await judged(letters.at(-1)!, world.names), ALL_PASS)
      assert.match(letters.at(-1)!.toString(), new RegExp(`^Received: from ${renamed} `, 'm'))
    })

    /**
     * Moves the data to a disk of its own, with 256 MB, while `work` is done; `fill` takes all that is left of it,
     * `free` gives it back.
     */
    const onSmallDisk = async (work: (disk: { fill: string; free: string }) => Promise<void>): Promise<void> => {
      const { machine } = server
      const free = `rm -f ${DATA}/ballast*`
      // Large pieces first; the last octets one by one.
      const fill = `for size in 64k 1; do dd if=/dev/zero of=${DATA}/ballast$size bs=$size; done`
      const owner = (await machine.must(`stat -c uid=%u,gid=%g ${DATA}`)).trim()
      await machine.must(`systemctl stop postrider && mv ${DATA} ${DATA}.kept && mkdir ${DATA}`)
      await machine.must(`mount -t tmpfs -o size=256m,mode=700,${owner} tmpfs ${DATA} && cp -a ${DATA}.kept/. ${DATA}/`)
      try {
        await machine.must('systemctl start postrider')
        await server.ready()
        await work({ fill, free })
      } finally {
        await machine.must(`${free}; systemctl stop postrider && rm -rf ${DATA}.kept && cp -a ${DATA} ${DATA}.kept`)
        await machine.must(`umount ${DATA} && rmdir ${DATA} && mv ${DATA}.kept ${DATA}`)
        await machine.must('systemctl start postrider')
        await server.ready()
      }
    }

    test('a full disk is reported, loses no accepted email, and recovers when there is space', async () => {
      await queue('full')
      const less = (text: string) => text.replace(/^reserve = .*$/m, 'reserve = "100MB"')
      await configured(less, () =>
        onSmallDisk(async ({ fill, free }) => {
          const { machine } = server
          const pid = await server.pid()
          await machine.run(fill)
          const attributes = { from: 'hello@example.org', to: 'a@b.example', subject: 'No room', html: '<p>No.</p>' }
          const data = { type: 'outbound-emails', attributes }
          const refused = async () => (await server.api('POST', '/outbound-emails', { data })).status === 507
          await until(refused, 30_000, () => 'a post is not refused for want of room')
          const degraded = async () => {
            const { body, status } = await server.get('/health')
            return status === 200 && body.status === 'degraded'
          }
          await until(degraded, 30_000, () => '/health does not say that it is degraded')
          assert.equal((await server.queued()).length, 5)

          await machine.must(free)
          let health: unknown
          const well = async () => (health = (await server.get('/health')).body).status === 'ok'
          await until(well, 60_000, () => `it is not well again though there is room: ${JSON.stringify(health)}`)
          await arrive()
          assert.equal(await server.pid(), pid)
        }),
      )
    })

    test('root restores a backup on a fresh machine, and its queued email arrives', async (context) => {
      const tell = (line: string) => context.diagnostic(line)
      await queue('restored')
      await follow(server.machine, world, 'Back up to a file', tell)
      server.machine.copyOut(`${HOME}/postrider.zip`, box.path('postrider.zip'))
      server.machine.copyOut(CONFIG, box.path('postrider.toml'))
      await server.machine.stop()

      const { token } = server
      server = await Server.boot(prepared.root, 'fresh')
      server.token = token
      await bring(server, prepared.made)
      for (const name of ['postrider.zip', 'postrider.toml']) server.machine.copyIn(box.path(name), `${HOME}/${name}`)
      await follow(server.machine, world, 'Restore from a file', tell)
      await server.ready()
      assert.equal(await server.property('NRestarts'), '0')
      assert.equal(await server.machine.must(`find ${DATA}/ ! -user postrider`), '')
      await arrive()
    })

    test('removing the package keeps data and configuration, and purging deletes them', async (context) => {
      const { machine } = server
      const tell = (line: string) => context.diagnostic(line)
      await follow(machine, world, 'Remove the package and keep the data', tell)
      assert.equal((await machine.run('systemctl is-active postrider')).stdout, 'inactive\n')
      await machine.must(`test -e ${DATA}/postrider.db && test -e ${CONFIG}`)
      await follow(machine, world, 'Delete everything', tell)
      await machine.must(`test ! -e ${DATA} && test ! -e /etc/postrider && test ! -e /usr/bin/postrider`)
      assert.notEqual((await machine.run('systemctl cat postrider')).code, 0)
    })

    test('every section was tested', () => demandWalked(import.meta.filename))
  })
