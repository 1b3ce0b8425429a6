// The examples of a failover pair: short, complete and in the order that keeps the volume safe. On real machines with
// systemd and keepalived they run in test/interop/guide/pair.interop.ts.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../kit/directory.ts'

const EXAMPLES = join(import.meta.dirname, '../../packaging/high-availability')
const folder = temporaryDirectory('high-availability')
const textOf = (name: string): string => readFileSync(join(EXAMPLES, name), 'utf8')

test('each example has at most 40 lines, is valid shell, and is in the document', () => {
  const document = readFileSync(join(import.meta.dirname, '../../docs/high-availability.md'), 'utf8')
  const names = readdirSync(EXAMPLES)
  assert.equal(names.length, 9)
  for (const name of names) {
    assert.ok(textOf(name).split('\n').length <= 41, name)
    assert.ok(document.includes(name), `${name} is not in the document`)
    if (textOf(name).startsWith('#!/bin/sh') || name === 'volume.conf') execFileSync('sh', ['-n', join(EXAMPLES, name)])
  }
})

/** Runs a hook with programs that record their calls. `fails` are programs that fail. Returns the calls in order. */
function callsOf(hook: string, fails: readonly string[]): { calls: string[]; status: number | null } {
  const place = join(folder, `${hook}-${fails.join('-')}`)
  mkdirSync(place)
  for (const name of ['mountpoint', 'drbdadm', 'mount', 'umount', 'systemctl', 'postrider'])
    writeFileSync(
      join(place, name),
      `#!/bin/sh\necho "${name} $*" >>${place}/calls\nexit ${fails.includes(name) ? 1 : 0}\n`,
      { mode: 0o755 },
    )
  writeFileSync(join(place, 'calls'), '')
  const { status } = spawnSync('sh', [join(EXAMPLES, hook)], { env: { PATH: `${place}:${process.env['PATH']}` } })
  const calls = readFileSync(join(place, 'calls'), 'utf8').trim().split('\n')
  return { calls: calls.filter((line) => !line.startsWith('mountpoint ')), status }
}

test('the hooks of DRBD mount only as primary, and give up the primary only after the unmount', () => {
  const primary = 'drbdadm primary postrider'
  const mount = 'mount -o nodev,nosuid /dev/drbd/by-res/postrider/0 /var/lib/postrider'
  assert.deepEqual(callsOf('attach-drbd', ['mountpoint']), { calls: [primary, mount], status: 0 })
  assert.deepEqual(callsOf('attach-drbd', ['mountpoint', 'drbdadm']), { calls: [primary], status: 1 })
  const [stop, unmount] = ['postrider handover', 'umount /var/lib/postrider']
  const [again, secondary] = ['systemctl start --no-block postrider', 'drbdadm secondary postrider']
  assert.deepEqual(callsOf('detach-drbd', []).calls, [stop, unmount, again, secondary])
  assert.deepEqual(callsOf('detach-drbd', ['umount']), { calls: [stop, unmount], status: 1 })
  assert.deepEqual(callsOf('detach-drbd', ['postrider']).calls.slice(0, 2), [stop, 'systemctl stop postrider'])
  assert.deepEqual(callsOf('detach-drbd', ['mountpoint']).calls, [secondary])
})
