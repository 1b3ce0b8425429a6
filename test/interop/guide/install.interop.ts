// docs/install.md on bare Debians, command by command from the file itself: from an apt repository, served over HTTPS
// as documented, and from the tar archive, each up to the first delivered email.

import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer, type Server as HttpsServer } from 'node:https'
import { basename, join, normalize } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { version } from '../../../src/base/version.ts'
import { writeSums } from '../../../packaging/sums.ts'
import { withPrograms } from '../rig/need.ts'
import { PROGRAMS, Sandbox } from '../rig/sandbox.ts'
import { commandsOf, ROOT } from './documents.ts'
import { HOME } from './machine.ts'
import { GATEWAY, inOwnNetwork } from './network.ts'
import { absent, bare, type Bare } from './prepare.ts'
import { Server } from './server.ts'
import { afterInstallation, demandWalked, firstMail, follow, type Typist } from './walk.ts'
import { startWorld, type World } from './world.ts'

const APT = 'apt.example.org'
const SOURCES = '/etc/apt/sources.list.d/postrider.sources'

/** Where packages are built: this machine, in the folder of the project. */
const developer = (env: NodeJS.ProcessEnv): Typist => ({
  must: async (command) => (await promisify(execFile)('/bin/sh', ['-c', command], { env, cwd: ROOT })).stdout,
})

const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, bare))

if (within)
  withPrograms('docs/install.md by apt and by the tar', absent, () => {
    let prepared: Bare
    let world: World
    let box: Sandbox
    let web: HttpsServer | undefined
    let server: Server

    before(async () => {
      prepared = await bare()
      box = new Sandbox('install')
      world = await startWorld()
    })
    after(async () => {
      await server?.machine.stop()
      web?.close()
      await world?.close()
      execFileSync('gpgconf', ['--homedir', box.path('gnupg'), '--kill', 'all'])
      await box?.close()
    })

    /** The address of the document, with a certificate; answers that. */
    const serve = async (folder: string): Promise<string> => {
      const [key, certificate] = [box.path('apt.key'), box.path('apt.pem')]
      const shape = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
      const names = ['-subj', `/CN=${APT}`, '-addext', `subjectAltName=DNS:${APT}`]
      execFileSync(PROGRAMS.openssl, [...shape, ...names, '-keyout', key, '-out', certificate], { stdio: 'ignore' })
      web = createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, ({ url = '' }, response) => {
        const file = join(folder, normalize(decodeURIComponent(url)))
        if (existsSync(file)) response.end(readFileSync(file))
        else response.writeHead(404).end()
      })
      await new Promise<void>((resolve) => web!.listen(443, GATEWAY, resolve))
      await world.names.publish('apt', [`${APT}. IN A ${GATEWAY}`])
      return certificate
    }

    /** What is left to be typed after an installation, until the first mail arrives. */
    const toTheFirstMail = async (tell: (line: string) => void, count: number, began: number): Promise<void> => {
      // What came before was signed with a key that is published no more.
      await world.provider.clear()
      const steps = await afterInstallation(server, world, tell)
      await world.provider.waitFor(1)
      tell(`${count + steps.length} commands, ${((performance.now() - began) / 1000).toFixed(1)} s`)
      await firstMail(server, world, steps)
    }

    test('apt offers the packages of the repository as documented', async (context) => {
      const tell = (line: string) => context.diagnostic(line)
      const gnupg = box.path('gnupg')
      mkdirSync(gnupg, { mode: 0o700 })
      const env = { ...process.env, GNUPGHOME: gnupg }
      const key = ['--batch', '--passphrase', '', '--quick-gen-key', 'Our apt repository', 'ed25519', 'sign', '2y']
      execFileSync('gpg', key, { env, stdio: 'ignore' })
      const [offered] = await follow(developer(env), world, 'Host your own apt repository', tell, {
        // The package is that of the tests, which "npm run package" has made, for this architecture alone.
        without: ['npm run package'],
        instead: { '/srv/apt': `${box.path('apt')} ${prepared.made.file}` },
      })
      assert.match(offered!.printed, /has postrider_/)
      const certificate = await serve(box.path('apt'))
      server = await Server.boot(prepared.root, 'apt')
      // The authority that an apt.example.org has its certificate from is known to the world.
      server.machine.copyIn(certificate, '/usr/local/share/ca-certificates/apt.crt')
      await server.machine.must('update-ca-certificates')
    })

    test('a bare Debian delivers its first email after an installation with apt', async (context) => {
      const tell = (line: string) => context.diagnostic(line)
      const began = performance.now()
      const written = commandsOf('Install with apt')
      const other = written.slice(-2)
      assert.match(other[0]!, /postrider\.sources$/)
      const steps = await follow(server.machine, world, 'Install with apt', tell, { without: other })
      await toTheFirstMail(tell, steps.length, began)
      const installed = await server.machine.must(`cat ${SOURCES}`)
      // The other way says the same.
      await server.machine.must(`rm ${SOURCES}`)
      await follow(server.machine, world, 'Install with apt', tell, { without: written.slice(0, -2) })
      assert.equal(await server.machine.must(`cat ${SOURCES}`), installed)
      assert.match(await server.machine.must('apt-cache policy postrider'), /https:\/\/apt\.example\.org stable/)
    })

    test('unattended-upgrades accepts the repository', async (context) => {
      const steps = await follow(server.machine, world, 'Automatic upgrades', (line) => context.diagnostic(line))
      assert.match(steps.at(-1)!.printed, /origin=Postrider,codename=stable/)
      await server.machine.stop()
    })

    test('a bare Debian delivers its first email after an installation from the tar archive', async (context) => {
      const tell = (line: string) => context.diagnostic(line)
      const release = box.path('release')
      mkdirSync(release)
      cpSync(prepared.made.file, join(release, basename(prepared.made.file)))
      writeSums(release, version)
      server = await Server.boot(prepared.root, 'tar')
      const tar = `${basename(prepared.made.file, '.deb')}.tar.gz`
      server.machine.copyIn(join(release, tar), `${HOME}/${tar}`)
      const began = performance.now()
      const steps = await follow(server.machine, world, 'Install from the tar archive', tell)
      await toTheFirstMail(tell, steps.length, began)
    })

    test('every section was tested', () => demandWalked(import.meta.filename))
  })
