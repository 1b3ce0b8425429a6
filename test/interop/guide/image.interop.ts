// docs/install.md with the image, on a Debian that only has Podman, command by command from the file itself: up to the
// first delivered email, by `podman run` and by the compose file, and the documented steps with the volume.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { version } from '../../../src/base/version.ts'
import { withPrograms } from '../rig/need.ts'
import { until } from '../rig/sandbox.ts'
import { blocksOf, commandsOf, ROOT } from './documents.ts'
import { HOME } from './machine.ts'
import { inOwnNetwork } from './network.ts'
import { built } from './package.ts'
import { absent, imageRoot } from './prepare.ts'
import { Server } from './server.ts'
import { demandWalked, firstMail, follow, SECTION, type Step } from './walk.ts'
import { startWorld, type World } from './world.ts'

const IMAGE = `postrider_${version}_oci.tar`
/**
 * What this machine's kernel lets a machine within it do: its root is an overlay, on which no other can lie, limits
 * cannot be raised, and its control groups have no controllers.
 */
const ENGINE = `[containers]
cgroups = "disabled"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
`
const STORAGE = `[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
`

/** What Debian's podman-compose makes of a compose file and Podman refuses or misreads, and what is right. */
const FAULTS = {
  '--net root_default --network-alias postrider ': '',
  "/bin/sh -c /usr/bin/postrider' 'health": "'CMD /usr/bin/postrider health'",
}

/** What Podman's quadlet makes of the keys of a container, by podman-systemd.unit(5). */
const QUADLET: Record<string, (value: string) => string> = {
  Image: (value) => value,
  Environment: (value) => `-e ${value}`,
  Network: (value) => `--network ${value}`,
  Volume: (value) => `-v ${value}`,
  ReadOnly: (value) => `--read-only=${value}`,
  DropCapability: (value) => `--cap-drop ${value}`,
  AddCapability: (value) => `--cap-add ${value}`,
  NoNewPrivileges: () => '--security-opt no-new-privileges',
  HealthCmd: (value) => `--health-cmd '${value}'`,
  HealthInterval: (value) => `--health-interval ${value}`,
  HealthTimeout: (value) => `--health-timeout ${value}`,
  HealthStartPeriod: (value) => `--health-start-period ${value}`,
}

const prepare = async (): Promise<string> => {
  await built('image', IMAGE)
  return await imageRoot()
}

const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, prepare))

if (within)
  withPrograms('docs/install.md by the image', absent, () => {
    let world: World
    let server: Server

    before(async () => {
      const root = await prepare()
      world = await startWorld()
      server = await Server.boot(root, 'engine')
      const { machine } = server
      // No data may lie on an overlay or in memory.
      for (const at of ['/var/lib/containers', '/srv'])
        await machine.must(`mkdir -p /disk${at} ${at} && mount --bind /disk${at} ${at}`)
      machine.write('/etc/containers/storage.conf', STORAGE)
      machine.write('/etc/containers/containers.conf', ENGINE)
      machine.copyIn(await built('image', IMAGE), `${HOME}/${IMAGE}`)
      machine.copyIn(join(ROOT, 'packaging/compose.yaml'), `${HOME}/compose.yaml`)
    })
    after(async () => {
      await server?.machine.stop()
      await world?.close()
    })

    /** As long as a reader looks at what was printed, until the server answers. */
    const started = async (container: string): Promise<void> => {
      const healthy = async () => (await server.machine.run(`podman exec ${container} postrider health`)).code === 0
      await until(healthy, 30_000, () => `${container} does not become healthy`).catch(async (error: unknown) => {
        throw new Error((await server.machine.must(`podman logs ${container} 2>&1`)).slice(-4000), { cause: error })
      })
    }

    test('Podman delivers a first email', async (context) => {
      const tell = (line: string) => context.diagnostic(line)
      const began = performance.now()
      const wait = async (command: string) => {
        if (command.startsWith('podman run ')) await started('postrider')
      }
      const steps: Step[] = await follow(server.machine, world, 'Run the container image', tell)
      steps.push(...(await follow(server.machine, world, 'Podman', tell, { wait })))
      await world.provider.waitFor(1)
      tell(`${steps.length} commands, ${((performance.now() - began) / 1000).toFixed(1)} s`)
      await firstMail(server, world, steps)
      const { stdout } = await server.machine.run('podman exec postrider postrider --json version')
      assert.equal(JSON.parse(stdout).built_from, 'image')
    })

    test('the README contains the same commands', () => {
      const short = blocksOf('README.md').find(({ heading, mark }) => heading === SECTION && mark !== undefined)
      const whole = [...commandsOf('Run the container image'), ...commandsOf('Podman')]
      assert.deepEqual(
        short?.commands.filter((command) => !whole.includes(command)),
        ['podman logs -f postrider'],
      )
    })

    test('a backup is copied out of the volume, and restored into a new one from a file that only root can read', async (context) => {
      const { machine } = server
      const instead = { 'run --rm -i -v postrider:': 'run --rm -i -v again:' }
      const steps = await follow(machine, world, 'In a container', (line) => context.diagnostic(line), { instead })
      assert.equal((await machine.must('head -c 2 now.zip')).slice(0, 2), 'PK')
      assert.match(steps.at(-1)!.printed, /Restored \d+ files of .* to \/var\/lib\/postrider/)
      const users = await machine.must(steps.at(-1)!.command.replace(/restore .*/, 'user list'))
      assert.match(users, /you@example\.org/)
      await machine.must('podman volume rm again')
    })

    test('a directory of the host is the volume', async (context) => {
      const { machine } = server
      const tell = (line: string) => context.diagnostic(line)
      await follow(machine, world, 'Remove the container', tell)
      await follow(server.machine, world, 'The volume', tell)
      const run = commandsOf('Podman')[0]!
      await machine.must(run.replace('-v postrider:', '-v /srv/postrider:'))
      await started('postrider')
      assert.match(await machine.must('ls /srv/postrider'), /^postrider\.db$/m)
      await machine.must('podman rm -f postrider')
    })

    test('a container by compose.yaml, as podman-compose reads it, delivers its first email', async (context) => {
      const tell = (line: string) => context.diagnostic(line)
      const { machine } = server
      await world.provider.clear()
      const read = await machine.must('podman-compose --dry-run up -d 2>&1')
      const printed = /^podman run .*$/m.exec(read)?.[0] ?? ''
      const run = Object.entries(FAULTS).reduce((line, [fault, right]) => {
        assert.ok(line.includes(fault), `${fault} is not in ${read}`)
        return line.replace(fault, right)
      }, printed)
      tell(run)
      await machine.must(run)
      const container = /--name=(\S+)/.exec(run)![1]!
      await started(container)
      const without = commandsOf('Podman').filter((command) => !command.startsWith('podman exec '))
      const instead = { 'exec postrider ': `exec ${container} ` }
      const steps = await follow(server.machine, world, 'Podman', tell, { instead, without })
      await firstMail(server, world, steps)
      await machine.must(`podman healthcheck run ${container}`)
      await machine.must(`podman stop ${container}`)
      assert.equal((await machine.must(`podman inspect -f '{{.State.ExitCode}}' ${container}`)).trim(), '0')
    })

    test('a container with the options of postrider.container starts and reports its health without a shell', async (context) => {
      const { machine } = server
      const unit = readFileSync(join(ROOT, 'packaging/postrider.container'), 'utf8')
      const keys = /^\[Container\]\n([^[]*)/m
        .exec(unit)![1]!
        .split('\n')
        .filter((line) => /^\w/.test(line))
      const options = keys.map((line) => {
        const [, key = '', value = ''] = /^(\w+)=(.*)$/.exec(line) ?? []
        return { last: key === 'Image', text: QUADLET[key]!(value) }
      })
      const words = options.toSorted((a, b) => Number(a.last) - Number(b.last)).map(({ text }) => text)
      const run = `podman run -d --name quadlet ${words.join(' ')}`
      context.diagnostic(run)
      await machine.must('podman rm -fa && podman volume rm -fa')
      await machine.must(run)
      await started('quadlet')
      await machine.must('podman healthcheck run quadlet')
      await machine.must('podman rm -f quadlet')
    })

    test('every section was tested', () => demandWalked(import.meta.filename))
  })
