// packaging/monitoring judged by promtool of Debian's prometheus (M2), which setup.sh unpacks and does not install.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { withPrograms } from './rig/need.ts'

const PROMTOOL = join(process.env['POSTRIDER_PROMETHEUS'] ?? '/var/tmp/postrider-prometheus', 'usr/bin/promtool')
const FOLDER = join(import.meta.dirname, '../../packaging/monitoring')

withPrograms('promtool', existsSync(PROMTOOL) ? [] : ['promtool'], () => {
  test('takes the rules, and each alert is raised by its cause alone (M2)', () => {
    for (const args of [
      ['check', 'rules', 'alerts.yml'],
      ['test', 'rules', 'alerts-test.yml'],
    ])
      assert.match(execFileSync(PROMTOOL, args, { cwd: FOLDER, encoding: 'utf8' }), /SUCCESS/)
  })

  test('finds no fault in what /metrics answers (M2)', async () => {
    await using postrider = await startTestAppliance()
    const metrics = await (await fetch(`${postrider.url}/metrics`)).text()
    assert.match(metrics, /^postrider_troubles 0$/m)
    const { status, stderr, stdout } = spawnSync(PROMTOOL, ['check', 'metrics'], { input: metrics, encoding: 'utf8' })
    assert.ok(status === 0 || status === 3, stderr)
    // What is a matter of taste is said with status 3: names of units that are not base units.
    assert.doesNotMatch(stdout + stderr, /error while linting/)
  })
})
