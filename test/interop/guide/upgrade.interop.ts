// The upgrade from version 0.1.0, which was one file and a manually copied unit, to the package: on a Debian with
// systemd, with mail in the queue and a running campaign. The downgrade is rejected.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fields, onTheWire } from '../rig/letter.ts'
import { withPrograms } from '../rig/need.ts'
import { until } from '../rig/sandbox.ts'
import { HOME } from './machine.ts'
import { inOwnNetwork } from './network.ts'
import { absent, prepare, type Prepared } from './prepare.ts'
import { Server } from './server.ts'
import { bring, demandWalked, follow, HOST, publish, USER, zoneLines } from './walk.ts'
import { LATER_DOMAIN, startWorld, withLaterExchanger, type World } from './world.ts'

const MAILS = 5
const CONTACTS = 1500
/** Contacts of one request. */
const PAGE = 250
const DATA = '/var/lib/postrider'

const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, prepare))

if (within)
  withPrograms('an upgrade from 0.1.0', absent, () => {
    let prepared: Prepared
    let world: World
    let server: Server
    let campaign = ''

    before(async () => {
      prepared = await prepare()
      world = await startWorld()
      server = await Server.boot(prepared.root, 'first')
    })
    after(async () => {
      await server?.machine.stop()
      await world?.close()
    })

    const statusOf = async (id: string): Promise<string> =>
      (await server.api('GET', `/campaigns/${id}`)).body.data.attributes.status

    /** Runs a program of the new package that was only unpacked, beside what is installed. */
    const UNPACKED = './unpacked/usr/bin/postrider'

    test('0.1.0 runs as documented, with mail in the queue and a running campaign', async () => {
      const { machine } = server
      await machine.must('apt install -y libatomic1')
      machine.copyIn(prepared.first.executable, '/usr/bin/postrider')
      machine.copyIn(prepared.first.unit, '/etc/systemd/system/postrider.service')
      const options = `--domain example.org --hostname ${HOST} --email ${USER} --data ${DATA}`
      const printed = await machine.must(`mkdir /etc/postrider && cd /etc/postrider && postrider init ${options}`)
      await publish(world, zoneLines(printed))
      await machine.must('systemctl daemon-reload && systemctl enable --now postrider')
      await server.ready()
      assert.match(await machine.must('postrider domain check example.org'), /is active/)
      await server.makeToken(USER)

      for (let n = 1; n <= MAILS; n++) await server.post(`mail${n}@${LATER_DOMAIN}`, 'Before')
      const domain = (await server.api('GET', '/domains')).body.data[0].id
      const audience = await server.make('/audiences', {
        type: 'audiences',
        attributes: { name: 'News' },
        relationships: { domain: { data: { type: 'domains', id: domain } } },
      })
      for (let from = 0; from < CONTACTS; from += PAGE) {
        const contacts = Array.from({ length: PAGE }, (_, n) => ({ email: `reader${from + n}@${LATER_DOMAIN}` }))
        await server.make(`/audiences/${audience}/contacts/import`, { type: 'contacts', attributes: { contacts } }, 200)
      }
      campaign = await server.make('/campaigns', {
        type: 'campaigns',
        attributes: {
          name: 'News',
          subject: 'News',
          body_html: '<p>News. <a href="{{unsubscribe_url}}">Leave</a></p>',
        },
        relationships: { audience: { data: { type: 'audiences', id: audience } } },
      })
      const data = { type: 'campaigns', id: campaign, attributes: { status: 'scheduled' } }
      const { body, status } = await server.api('PATCH', `/campaigns/${campaign}`, { data })
      assert.equal(status, 200, JSON.stringify(body))
      const begun = async () => (await server.queued()).length > MAILS
      await until(begun, 30_000, () => 'the campaign does not begin')
      assert.equal(await statusOf(campaign), 'sending')
    })

    test('a command of the new version fails without changes while 0.1.0 runs', async () => {
      const { machine } = server
      machine.copyIn(prepared.made.file, `${HOME}/postrider.deb`)
      await machine.must('dpkg-deb -x postrider.deb unpacked')
      const { code, stderr, stdout } = await machine.run(`${UNPACKED} queue list`)
      assert.equal(code, 1, stdout)
      // The dynamic user of 0.1.0 owns the data and cannot reach it outside its unit; root works as the owner (D119).
      assert.match(stderr, /^postrider: .*(?:older|postrider\.db is not accessible to this user)/)
      const pid = await server.pid()
      await machine.must('systemctl restart postrider')
      await server.ready(pid)
    })

    test('the package continues with the unit, user, data and queue', async (context) => {
      const { machine } = server
      const waiting = await server.queued()
      const pid = await server.pid()
      await bring(server, prepared.made)
      await follow(server.machine, world, '0.1 to 0.2 or 0.3', (line) => context.diagnostic(line))
      await server.ready(pid)
      assert.equal((await machine.must('postrider --version')).trim(), prepared.made.version.replace(/[-~+].*/, ''))
      assert.match(await server.property('FragmentPath'), /^\/(?:usr\/)?lib\/systemd\/system\//)
      assert.equal((await machine.must(`ps -o user= -p ${await server.pid()}`)).trim(), 'postrider')
      assert.equal(await machine.must(`find ${DATA}/ ! -user postrider`), '')
      assert.equal(await machine.must('systemctl is-enabled postrider'), 'enabled\n')
      const kept = new Set(await server.queued())
      assert.deepEqual(
        waiting.filter((address) => !kept.has(address)),
        [],
      )
      assert.equal(await statusOf(campaign), 'sending')
    })

    test('every email arrives once', async () => {
      await withLaterExchanger(async (later) => {
        const over = async () => {
          // Nothing was sent from this address before, so warm-up would spread the campaign over days.
          await server.json('warmup skip --all').catch(() => 'No email was sent yet.')
          await server.json('queue retry --all')
          return (await statusOf(campaign)) === 'sent' && (await server.queued()).length === 0
        }
        await until(over, 120_000, () => 'the campaign does not end')
        const to = (await later.waitFor(MAILS + CONTACTS)).map((letter) => fields(onTheWire(letter), 'Delivered-To')[0])
        assert.equal(new Set(to).size, MAILS + CONTACTS)
        assert.equal(to.length, MAILS + CONTACTS)
      })
    })

    test('0.1.0 does not start on the new database, and reports the reason', async () => {
      const { machine } = server
      await machine.must('systemctl stop postrider')
      machine.copyIn(prepared.first.executable, `${HOME}/first`)
      const { code, stderr, stdout } = await machine.run('./first --config /etc/postrider/postrider.toml serve', {
        timeout: 30,
      })
      assert.equal(code, 1, stdout)
      assert.match(stderr, /newer Postrider/)
      await machine.must('systemctl start postrider')
      await server.ready()
    })

    test('every section was tested', () => demandWalked(import.meta.filename))
  })
