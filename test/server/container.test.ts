// How a process detects its container, and the messages for it.
import assert from 'node:assert/strict'
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, before, describe, test } from 'node:test'
import { defaultGateway, execLine, inContainer } from '../../src/base/container.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { fileSystemFindings } from '../../src/checks/machine.ts'
import { addressOut, clientFindings } from '../../src/checks/network.ts'
import { logStopped } from '../../src/cli/serve.ts'
import { configPlace } from '../../src/cli/installation.ts'
import { findConfig } from '../../src/base/config-file.ts'
import { listenError } from '../../src/http/listen.ts'
import { parseConfig } from '../../src/base/config.ts'
import { createResolver } from '../../src/net/resolver.ts'
import { clientWatch } from '../../src/server/client-watch.ts'
import { addressIn } from '../../src/smtp/reply.ts'
import { demandPlace, fileSystemOf, type DataPlace } from '../../src/store/volume.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'

test('names commands for the image with exec of its engine, and with a terminal for prompts', () => {
  const at = (...files: string[]) => ({ image: true, exists: (file: string) => files.includes(file), environment: {} })
  const podman = at('/run/.containerenv')
  assert.equal(execLine('user list', undefined, podman), 'podman exec CONTAINER postrider user list')
  assert.equal(execLine('init', 'asks', podman), 'podman exec -it CONTAINER postrider init')
  assert.equal(execLine('init', 'reads', at('/.dockerenv')), 'docker exec -i CONTAINER postrider init')
  // "--read-only" mounts a file system in memory over /run, which hides the file.
  const hidden = { ...at(), environment: { container: 'podman' } }
  assert.equal(execLine('user list', undefined, hidden), 'podman exec CONTAINER postrider user list')
  assert.equal(execLine('user list', undefined, at()), 'docker exec CONTAINER postrider user list')
  const kubernetes = { ...at(), environment: { KUBERNETES_SERVICE_HOST: '10.0.0.1' } }
  assert.equal(execLine('init', 'asks', kubernetes), 'kubectl exec -it POD -- postrider init')
  assert.equal(execLine('init', 'asks', { ...podman, image: false }), 'postrider init')
})

test('prints a rejected start once in the image, which shows log and stderr together, but logs an internal error (D195)', () => {
  const said = (thrown: unknown, image: boolean): unknown[] => {
    const lines: unknown[] = []
    logStopped({ error: (event, fields) => void lines.push([event, fields]) }, thrown, image)
    return lines
  }
  const refusal = new OperatorError('The port is in use.')
  assert.deepEqual(said(refusal, true), [])
  assert.deepEqual(said(refusal, false), [['server_stopped', { error: 'The port is in use.' }]])
  assert.deepEqual(said(new Error('a fault'), true), [['server_stopped', { error: 'a fault' }]])
})

const GATEWAY = '172.17.0.1'
const ROUTES = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
eth0	00000000	010011AC	0003	0	0	0	00000000	0	0	0
`

test('detects a container by the image, by the files of Docker or Podman, and by Kubernetes', () => {
  const bare = { image: false, exists: () => false, environment: {} }
  assert.equal(inContainer(bare), false)
  assert.equal(inContainer({ ...bare, image: true }), true)
  for (const sign of ['/.dockerenv', '/run/.containerenv'])
    assert.equal(inContainer({ ...bare, exists: (file) => file === sign }), true)
  assert.equal(inContainer({ ...bare, environment: { container: 'podman' } }), true)
  // systemd also sets it for whole systems, such as "lxc" and "systemd-nspawn".
  assert.equal(inContainer({ ...bare, environment: { container: 'lxc' } }), false)
  assert.equal(inContainer({ ...bare, environment: { KUBERNETES_SERVICE_HOST: '10.0.0.1' } }), true)
})

test('reads the default gateway from the routes of the kernel', () => {
  assert.equal(defaultGateway(ROUTES), GATEWAY)
  assert.equal(defaultGateway(ROUTES.split('\n').slice(0, 2).join('\n')), undefined)
  assert.equal(defaultGateway(''), undefined)
  assert.equal(defaultGateway('x\neth0 00000000 zz'), undefined)
})

describe('the configuration in the image', () => {
  const volume = '/var/lib/postrider/postrider.toml'
  const asked = { configFile: undefined, environment: {} }
  const found = (image: boolean, ...files: string[]) =>
    findConfig(asked, { image, exists: (file) => files.includes(file as string) })

  test('is read from the volume, is optional, and comes after the file of the system', () => {
    assert.equal(found(true, volume), volume)
    assert.equal(found(true), undefined)
    assert.equal(found(true, './postrider.toml'), undefined)
    assert.equal(found(true, volume, '/etc/postrider/postrider.toml'), '/etc/postrider/postrider.toml')
    assert.equal(found(false, volume, './postrider.toml'), './postrider.toml')
  })

  test('is written by init to the path that serve reads, for every user', () => {
    for (const root of [true, false]) assert.equal(configPlace(asked, { image: true, root, installed: false }), volume)
    assert.equal(configPlace({ ...asked, configFile: '/x/a.toml' }, { image: true }), '/x/a.toml')
  })
})

describe('the data directory', () => {
  const dir = '/var/lib/postrider'
  const refusal = (place: Partial<DataPlace>): string => {
    const whole = { image: true, ephemeral: false, user: 10025, owner: { uid: 10025, mode: 0o40700 }, ...place }
    try {
      demandPlace(dir, { fileSystem: undefined, ...whole })
    } catch (thrown) {
      assert.ok(thrown instanceof OperatorError)
      assert.match(thrown.message, /^[^\n]+\.$/)
      return thrown.message
    }
    return ''
  }

  test('in the image, with another owner: names the chown for the mounted directory', () => {
    const said = refusal({ owner: { uid: 0, mode: 0o40755 } })
    assert.match(said, /^The directory mounted at \/var\/lib\/postrider belongs to user 0, .*user 10025/)
    assert.ok(said.includes('"chown -R 10025:10025"') && said.includes('"chmod 700"'), said)
    assert.equal(refusal({}), '')
    assert.equal(refusal({ owner: { uid: 0, mode: 0o40755 }, image: false }), '')
    assert.equal(refusal({ owner: { uid: 5, mode: 0o40700 }, user: 0 }), '')
  })

  test("in the image, on the container's own layer: rejected without --ephemeral", () => {
    assert.match(refusal({ fileSystem: 'overlayfs' }), /own layer.*mount a volume.*"serve --ephemeral"\.$/)
    assert.equal(refusal({ fileSystem: 'overlayfs', ephemeral: true }), '')
    assert.equal(refusal({ fileSystem: 'overlayfs', image: false }), '')
  })

  test('in the image, in memory: rejected without --ephemeral, and outside the image doctor warns', () => {
    for (const fileSystem of ['tmpfs', 'ramfs'] as const) {
      assert.match(
        refusal({ fileSystem }),
        new RegExp(`in memory \\(${fileSystem}\\).*mount a volume.*"serve --ephemeral"`),
      )
      assert.equal(refusal({ fileSystem, ephemeral: true }), '')
      assert.equal(refusal({ fileSystem, image: false }), '')
      const [finding] = fileSystemFindings({ data_dir: dir }, fileSystem)
      assert.deepEqual([finding!.severity, /is not permanent.*memory/.test(finding!.summary)], ['warn', true])
    }
  })

  test('mounted read-only: reported before its owner is, with the mount in the image', () => {
    const theirs = { readOnly: true, owner: { uid: 0, mode: 0o40755 } }
    assert.match(refusal(theirs), /mounted at \/var\/lib\/postrider is mounted read-only: start .* without ":ro"/)
    assert.match(refusal({ ...theirs, image: false }), /read-only: .*"mount -o remount,rw"/)
  })

  test('on NFS and SMB: rejected everywhere, because database locks do not work there', () => {
    for (const fileSystem of ['NFS', 'SMB'] as const)
      for (const image of [true, false])
        assert.match(refusal({ fileSystem, image, ephemeral: true }), new RegExp(`is on ${fileSystem}, .*local disk`))
  })

  test('its file system is identified by the number of statfs, even a signed one', () => {
    const of = (type: number) => fileSystemOf(dir, () => ({ type }))
    const types = [0x6969, 0x517b, 0xfe534d42, 0xff534d42, 0xff534d42 - 2 ** 32, 0x794c7630, 0xef53]
    assert.deepEqual([0x01021994, 0x858458f6, 0x858458f6 - 2 ** 32].map(of), ['tmpfs', 'ramfs', 'ramfs'])
    assert.deepEqual(types.map(of), ['NFS', 'SMB', 'SMB', 'SMB', 'SMB', 'overlayfs', undefined])
    assert.equal(fileSystemOf('/no/such/directory'), undefined)
    assert.equal(fileSystemOf(tmpdir()) === 'overlayfs', statfsSync(tmpdir()).type === 0x794c7630)
  })

  test('doctor reports its file system', () => {
    assert.deepEqual(fileSystemFindings({ data_dir: dir }, undefined), fileSystemFindings({ data_dir: '/no/such' }))
    assert.equal(fileSystemFindings({ data_dir: dir }, 'overlayfs')[0]!.severity, 'warn')
    assert.equal(fileSystemFindings({ data_dir: dir }, 'NFS')[0]!.severity, 'fail')
  })
})

test('for a rejected port 25, names the options of a container, or the capability of the unit', () => {
  const thrown = Object.assign(new Error('listen EACCES'), { code: 'EACCES' })
  const said = (contained: boolean) =>
    listenError(thrown, 'smtp.listen', { host: '0.0.0.0', port: 25 }, contained).message
  for (const words of ['--cap-add NET_BIND_SERVICE', 'bridge network', 'net.ipv4.ip_unprivileged_port_start=25'])
    assert.ok(said(true).includes(words), said(true))
  assert.match(said(false), /^0\.0\.0\.0:25 \("smtp\.listen"\) .*AmbientCapabilities=CAP_NET_BIND_SERVICE/)
  assert.doesNotMatch(said(false), /Podman/)
})

describe('clients behind NAT', () => {
  const heard = (clients: readonly string[], gateway: string | undefined): unknown[] => {
    const lines: unknown[] = []
    const heed = clientWatch({ warn: (event, fields) => void lines.push([event, fields?.['gateway']]) }, gateway)
    clients.forEach(heed)
    return lines
  }
  const five = Array.from({ length: 5 }, () => GATEWAY)

  test("logs once that all clients have the gateway's address, and no line if one has another", () => {
    assert.deepEqual(heard([...five, ...five], GATEWAY), [['client_addresses_hidden', GATEWAY]])
    assert.deepEqual(heard(five.slice(1), GATEWAY), [])
    assert.deepEqual(heard(['127.0.0.1', '::1', ...five.slice(1)], GATEWAY), [])
    assert.deepEqual(heard(['192.0.2.7', ...five, ...five], GATEWAY), [])
    assert.deepEqual(heard(five, undefined), [])
  })

  test('doctor warns about them', () => {
    const [found] = clientFindings(five, GATEWAY)
    assert.equal(found?.severity, 'warn')
    assert.match(found.fix!, /host network/)
    assert.deepEqual(clientFindings([...five, '192.0.2.7'], GATEWAY), [])
    assert.deepEqual(clientFindings(five.slice(1), GATEWAY), [])
  })
})

describe('the sending IP address', () => {
  let dns: TestDns
  before(async () => void (dns = await startTestDns()))
  after(() => dns.close())

  test('is read from the greeting of a receiving server that contains it', () => {
    const of = (line: string) => addressIn({ lines: [line, 'SIZE 1 [192.0.2.9]'] })
    assert.equal(of('mx.google.com at your service, [203.0.113.5]'), '203.0.113.5')
    assert.equal(of('BN1.mail.protection.outlook.com Hello [IPv6:2001:db8::5]'), '2001:db8::5')
    for (const line of ['mx.test', 'mx.test [x]', 'mx.test [1.2.3]', 'mx.test [::::]'])
      assert.equal(of(line), undefined)
  })

  test('doctor fails if the hostname does not resolve to it', async () => {
    dns.set('mx.here.example', 'A', ['8.8.4.4'])
    const config = parseConfig({ hostname: 'mx.here.example', dns: { servers: [`127.0.0.1:${dns.port}`] } })
    const world = { config, resolver: createResolver({ servers: config.dns.servers }) }
    const [found] = await addressOut(world, '8.8.8.8')
    assert.equal(found?.severity, 'fail')
    assert.match(found.summary, /leaves from 8\.8\.8\.8, .*mx\.here\.example .*8\.8\.4\.4/)
    assert.deepEqual(await addressOut(world, '8.8.4.4'), [])
    assert.deepEqual(await addressOut(world, '10.0.0.7'), [])
    assert.deepEqual(await addressOut(world, undefined), [])
  })
})
