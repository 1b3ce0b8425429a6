// Tests the container image without building it: its base, the Containerfile, and the files that start it.
// packaging/image-smoke.sh runs the image.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ARCHITECTURES, basePackages } from '../../packaging/image/base.ts'

const ROOT = join(import.meta.dirname, '../..')
test('base.json lists the same packages for both architectures, each with its version and SHA-256', () => {
  const [one, other] = ARCHITECTURES.map((arch) => basePackages(arch))
  assert.deepEqual(Object.keys(one!), [
    'ca-certificates',
    'gcc-12-base',
    'libatomic1',
    'libc6',
    'libgcc-s1',
    'libstdc++6',
  ])
  assert.deepEqual(Object.keys(other!), Object.keys(one!))
  for (const list of [one!, other!])
    for (const { sha256, version } of Object.values(list)) {
      assert.match(sha256, /^[0-9a-f]{64}$/)
      assert.match(version, /^\d/)
    }
})

test('the Containerfile has no shell, no root user and the volume and health check of the compose files', () => {
  const lines = readFileSync(join(ROOT, 'Containerfile'), 'utf8').split('FROM ${BASE}')[1]!
  for (const line of [
    'USER 10025:10025',
    'VOLUME /var/lib/postrider',
    'ENTRYPOINT ["/usr/bin/postrider"]',
    'CMD ["serve"]',
  ])
    assert.match(lines, new RegExp(`^${line.replaceAll(/[[\]]/g, '\\$&')}$`, 'm'))
  assert.match(lines, /^HEALTHCHECK .*CMD \["\/usr\/bin\/postrider", "health"\]$/m)
  assert.doesNotMatch(lines, /^RUN/m)
})

describe('the files that start the image', () => {
  const compose = ['compose.yaml', 'compose.proxy.yaml'].map((name) =>
    readFileSync(join(ROOT, 'packaging', name), 'utf8'),
  )
  const quadlet = readFileSync(join(ROOT, 'packaging/postrider.container'), 'utf8')

  test('each file has a read-only root, only named capabilities, no new privileges, the volume and the health check', () => {
    for (const text of compose) {
      for (const line of ['read_only: true', 'cap_drop: [ALL]', 'stop_grace_period: 15s', 'no-new-privileges:true'])
        assert.ok(text.includes(line), line)
      assert.match(text, /- postrider:\/var\/lib\/postrider$/m)
      assert.match(text, /test: \[.CMD., .\/usr\/bin\/postrider., .health.\]/)
    }
    for (const line of ['ReadOnly=true', 'DropCapability=all', 'NoNewPrivileges=true'])
      assert.match(quadlet, new RegExp(`^${line}$`, 'm'))
    assert.match(quadlet, /^HealthCmd=CMD \/usr\/bin\/postrider health$/m)
    assert.match(quadlet, /^Volume=postrider:\/var\/lib\/postrider$/m)
    assert.match(compose[0]!, /^ {4}network_mode: host$/m)
    assert.match(compose[1]!, /- .25:25.[^]*- .465:465.[^]*- .587:587./)
  })

  test('every variable in the files is a setting', async () => {
    const { demandKnownVariables } = await import('../../src/base/config.ts')
    for (const text of [...compose, quadlet]) {
      const names = [...text.matchAll(/POSTRIDER_[A-Z_]+/g)].map(([name]) => name)
      assert.ok(names.length >= 3)
      demandKnownVariables(Object.fromEntries(names.map((name) => [name, 'x'])))
    }
  })

  test('each file names the image of this version', async () => {
    const { version } = await import('../../src/base/version.ts')
    for (const text of [...compose, quadlet])
      assert.match(text, new RegExp(`[Ii]mage[:=] ?localhost/postrider:${version.replace(/\.\d+$/, '')}$`, 'm'))
  })
})
