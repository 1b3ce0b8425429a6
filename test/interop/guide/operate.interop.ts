// Administration after the first email, as documented in docs/operate.md, upgrade.md, backup.md, verify-release.md and
// migrate.md, command by command from the files themselves, on a Debian with the package.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, before, test } from 'node:test'
import { version } from '../../../src/base/version.ts'
import { signSums, writeSums } from '../../../packaging/sums.ts'
import { releasedData } from '../../kit/released.ts'
import { withPrograms } from '../rig/need.ts'
import { Sandbox } from '../rig/sandbox.ts'
import { commandsOf, type Section } from './documents.ts'
import { HOME } from './machine.ts'
import { inOwnNetwork } from './network.ts'
import { built, laterPackage } from './package.ts'
import { absent, bare, type Bare } from './prepare.ts'
import { Server } from './server.ts'
import { afterInstallation, bring, demandWalked, firstMail, follow, type Manner, type Step } from './walk.ts'
import { LATER_DOMAIN, startWorld, withLaterExchanger, type World } from './world.ts'

const CONFIG = '/etc/postrider/postrider.toml'
const DATA = '/var/lib/postrider'
const BACKUPS = '/mnt/backups'
/** The bucket of the document; a directory stands in its place. */
const BUCKET = 's3://example-backups/mx'

const BILL = `postrider_${version}_amd64.cdx.json`

const prepare = async (): Promise<Bare> => {
  await built('sbom', BILL)
  return await bare()
}

const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, prepare))

if (within)
  withPrograms('the documents of an administrator', absent, () => {
    let prepared: Bare
    let world: World
    let box: Sandbox
    let server: Server
    /** Where to tell what is typed. */
    let tell: (line: string) => void

    const type = (section: Section, manner: Manner = {}): Promise<Step[]> =>
      follow(server.machine, world, section, tell, manner)
    /** Copies files from the home of one machine into that of another. */
    const take = (...names: string[]): void =>
      names.forEach((name) => server.machine.copyOut(`${HOME}/${name}`, box.path(name)))
    const give = (...names: string[]): void =>
      names.forEach((name) => server.machine.copyIn(box.path(name), `${HOME}/${name}`))
    /** Another machine takes the place of this one, with its address. */
    const replaced = async (name: string): Promise<void> => {
      const { token } = server
      await server.machine.stop()
      server = await Server.boot(prepared.root, name)
      server.token = token
      await bring(server, prepared.made)
    }
    const arrives = async (subject: string): Promise<void> => {
      await withLaterExchanger(async (later) => {
        await server.emptied()
        const [letter] = await later.waitFor(1)
        assert.match(letter!.toString(), new RegExp(`^Subject: ${subject}\\r?$`, 'm'))
      })
    }

    before(async () => {
      prepared = await prepare()
      box = new Sandbox('operate')
      world = await startWorld()
      server = await Server.boot(prepared.root, 'first')
    })
    after(async () => {
      await server?.machine.stop()
      await world?.close()
      await box?.close()
    })

    test('a bare Debian delivers its first email after an installation of the package', async (context) => {
      tell = (line) => context.diagnostic(line)
      await bring(server, prepared.made)
      const began = performance.now()
      const steps = await type('Install the Debian package')
      steps.push(...(await afterInstallation(server, world, tell)))
      await world.provider.waitFor(1)
      tell(`${steps.length} commands, ${((performance.now() - began) / 1000).toFixed(1)} s`)
      await firstMail(server, world, steps)
    })

    test('minisign and Postrider verify a release, and its SBOM is readable', async (context) => {
      tell = (line) => context.diagnostic(line)
      const release = box.path('release')
      mkdirSync(release)
      const deb = basename(prepared.made.file)
      cpSync(prepared.made.file, join(release, deb))
      cpSync(await built('sbom', BILL), join(release, BILL))
      writeSums(release, version)
      const [publicKey, secret] = [box.path('release.pub'), box.path('release.sec')]
      execFileSync('minisign', ['-G', '-W', '-p', publicKey, '-s', secret], { stdio: 'ignore' })
      signSums(release, version, secret, readFileSync(publicKey, 'utf8'))
      give('release.pub')
      for (const name of [deb, 'SHA256SUMS', 'SHA256SUMS.minisig', BILL])
        server.machine.copyIn(join(release, name), `${HOME}/${name}`)
      const refused = await server.machine.run(
        `dpkg-deb -x ${deb} /tmp/old && cp SHA256SUMS* /tmp/old/usr/bin/ && postrider upgrade --check /tmp/old/usr/bin/postrider`,
      )
      assert.match(refused.stderr, /This executable was built without a release key/)
      const instead = {
        'postrider_VERSION_amd64.deb': deb,
        'check /tmp/new/usr/bin/postrider': 'check /tmp/new/usr/bin/postrider --unsigned',
      }
      const steps = await type('The signature', { instead })
      assert.match(steps[1]!.printed, new RegExp(`^Trusted comment: postrider ${version}$`, 'm'))
      for (const name of [deb, BILL]) assert.match(steps[2]!.printed, new RegExp(`^${name}: OK$`, 'm'))
      const read = await type('What is inside')
      assert.match(read[1]!.printed, /^better-sqlite3\t[\d.]+$/m)
      assert.match(read[2]!.printed, /^\d+\.\d+\.\d+/)
    })

    test('an upgrade is checked before the installation', async (context) => {
      tell = (line) => context.diagnostic(line)
      const later = await laterPackage(prepared.made, box.dir)
      server.machine.copyIn(later.file, `${HOME}/${basename(later.file)}`)
      const instead = {
        'postrider_0.4.0_amd64.deb': basename(later.file),
        'check /tmp/new/usr/bin/postrider': 'check /tmp/new/usr/bin/postrider --unsigned',
      }
      await type('Check an upgrade first', { instead })
    })

    test('lists of other services are imported', async (context) => {
      tell = (line) => context.diagnostic(line)
      const domain = (await server.api('GET', '/domains')).body.data[0].id
      const relationships = { domain: { data: { type: 'domains', id: domain } } }
      await server.make('/audiences', { type: 'audiences', attributes: { name: 'Readers' }, relationships })
      const bounced = 'status,reason,email,created\n5.1.1,"550 5.1.1 no such user",gone@there.example,1714979289\n'
      server.machine.write(`${HOME}/suppression_bounces.csv`, bounced)
      server.machine.write(`${HOME}/audience.csv`, 'Email Address,First Name\nann@there.example,Ann\n')
      const [suppressions, contacts] = await type('Steps')
      assert.match(suppressions!.printed, /\b1\b/)
      assert.match(contacts!.printed, /ann@there\.example/)
    })

    test('an encrypted backup is created, listed, tested, and restored on a fresh machine', async (context) => {
      tell = (line) => context.diagnostic(line)
      const { machine } = server
      const [{ printed } = { printed: '' }] = await type('Encrypt backups')
      const secret = /^\s*(AGE-SECRET-KEY-1\w+)/m.exec(printed)?.[1]
      assert.ok(secret !== undefined, printed)
      for (const name of ['backup.key', 'drill.key']) writeFileSync(box.path(name), `${secret}\n`, { mode: 0o600 })
      const unit = '/etc/systemd/system/postrider.service.d'
      await machine.must(`mkdir -p ${BACKUPS} ${unit} && chown postrider: ${BACKUPS}`)
      machine.write(`${unit}/backups.conf`, `[Service]\nReadWritePaths=${BACKUPS}\n`)
      await machine.must(`sed -i 's#^to = \\[\\]#to = ["${BACKUPS}"]#' ${CONFIG}`)
      await machine.must('systemctl daemon-reload && systemctl restart postrider')
      await server.ready()
      await server.post(`late@${LATER_DOMAIN}`, 'Sealed')
      await type('Set up backups')
      give('drill.key')
      await type('Test a restore', { instead: { [BUCKET]: BACKUPS } })

      await machine.must(`tar -cf backups.tar -C ${BACKUPS} . && cp ${CONFIG} postrider.toml`)
      take('backups.tar', 'postrider.toml')
      await replaced('second')
      give('backups.tar', 'postrider.toml', 'backup.key')
      const fresh = server.machine
      await fresh.must('apt-get install -y ./postrider_*.deb')
      await fresh.must(`cp postrider.toml ${CONFIG} && mkdir -p ${BACKUPS} && tar -xf backups.tar -C ${BACKUPS}`)
      await type('Restore a backup', { instead: { [BUCKET]: BACKUPS } })
      await fresh.must('systemctl enable --now postrider')
      await server.ready()
      await arrives('Sealed')
    })

    test('root moves a server with queued email to another machine', async (context) => {
      tell = (line) => context.diagnostic(line)
      const written = commandsOf('Move to another server')
      const old = written.slice(0, 2)
      await server.post(`moved@${LATER_DOMAIN}`, 'Moved')
      await type('Move to another server', { without: written.slice(2) })
      await server.machine.must(`cp ${CONFIG} postrider.toml`)
      take('move.zip', 'postrider.toml')
      await replaced('third')
      give('move.zip', 'postrider.toml')
      await server.machine.must('apt-get install -y ./postrider_*.deb')
      await type('Move to another server', { without: old })
      await server.ready()
      await arrives('Moved')
    })

    test('root rolls back an upgrade of 0.2.0', async (context) => {
      tell = (line) => context.diagnostic(line)
      const { machine } = server
      await machine.must(`systemctl stop postrider && rm -rf ${DATA}/* ${HOME}/former`)
      cpSync(releasedData('0.2.0').dataDir, machine.outside(`${HOME}/former`), { recursive: true })
      await machine.must(`cp -r former/. ${DATA}/ && chown -R postrider: ${DATA} && postrider upgrade`)
      const steps = await type('Roll back an upgrade')
      assert.match(steps.at(-1)!.printed, /0\.2\.0/)
    })

    test('every section was tested', () => demandWalked(import.meta.filename))
  })
