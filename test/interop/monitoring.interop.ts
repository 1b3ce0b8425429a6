// packaging/monitoring with promtool and Prometheus of Debian, which setup.sh unpacks and does not install: a
// Prometheus scrapes the server, loads every rule, raises an alert, and answers each panel of the dashboard.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { DAY } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { withPrograms } from './rig/need.ts'
import { freePort, Sandbox, until } from './rig/sandbox.ts'

const PROGRAMS = join(process.env['POSTRIDER_PROMETHEUS'] ?? '/var/tmp/postrider-prometheus', 'usr/bin')
const [PROMTOOL, PROMETHEUS] = [join(PROGRAMS, 'promtool'), join(PROGRAMS, 'prometheus')]
const FOLDER = join(import.meta.dirname, '../../packaging/monitoring')
const LIMIT = 40_000
const run = promisify(execFile)

interface Answer<T> {
  status: string
  data: T
}
type Series = { metric: Record<string, string>; value: [number, string] }[]

withPrograms(
  'Prometheus',
  [PROMTOOL, PROMETHEUS].filter((path) => !existsSync(path)),
  () => {
    test('promtool accepts the rules, and only its cause raises each alert', async () => {
      for (const args of [
        ['check', 'rules', 'alerts.yml'],
        ['test', 'rules', 'alerts-test.yml'],
      ])
        // The server of this process is scraped meanwhile.
        assert.match((await run(PROMTOOL, args, { cwd: FOLDER })).stdout, /SUCCESS/)
    })

    const folder = mkdtempSync(join(tmpdir(), 'postrider-monitoring-'))
    const to = join(folder, 'backups')
    const box = new Sandbox('prometheus')
    let postrider: TestAppliance
    let url: string

    const asked = async <T>(path: string): Promise<T> => {
      const answer = await fetch(`${url}/api/v1/${path}`)
      const { data, status } = (await answer.json()) as Answer<T>
      assert.equal(status, 'success', path)
      return data
    }
    const query = async (expr: string): Promise<Series> =>
      (await asked<{ result: Series }>(`query?query=${encodeURIComponent(expr)}`)).result

    before(async () => {
      postrider = await startTestAppliance({
        clock: new ManualClock(Date.now()),
        config: { backup: { to: [to], schedule: '0 3 * * *' } },
      })
      const { clock } = postrider
      // The last backup and its drill, as their processes wrote them.
      for (const [kind, age] of [['backup', 2 * DAY] as const, ['drill', DAY] as const])
        await postrider.appliance.deps.store.write((tx) =>
          tx.run(
            raw(
              `insert into backup_runs (id, kind, target, name, started_at, ended_at, octets, files)
             values (hex(randomblob(8)), ?, ?, 'a backup', ?, ?, 5000000, 3)`,
              [kind, to, clock.now() - age - 1000, clock.now() - age],
            ),
          ),
        )
      const rules = readFileSync(join(FOLDER, 'alerts.yml'), 'utf8')
      // The rules as they are, and once more without the time for which a cause must last.
      box.write('alerts.yml', rules)
      box.write('at-once.yml', rules.replaceAll(/^ +for: .*\n/gm, '').replace('name: postrider', 'name: at once'))
      const port = await freePort()
      url = `http://127.0.0.1:${port}`
      box.write(
        'prometheus.yml',
        `global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [alerts.yml, at-once.yml]
scrape_configs:
  - job_name: postrider
    static_configs: [{ targets: ["127.0.0.1:${postrider.appliance.http.port}"] }]
`,
      )
      box.daemon(
        PROMETHEUS,
        [
          `--config.file=${box.path('prometheus.yml')}`,
          `--storage.tsdb.path=${box.path('data')}`,
          `--web.listen-address=127.0.0.1:${port}`,
        ],
        'prometheus.log',
      )
      const isReady = (): Promise<boolean> =>
        fetch(`${url}/-/ready`).then(
          ({ status }) => status === 200,
          () => false,
        )
      await until(isReady, LIMIT, () => box.read('prometheus.log'))
      // A rate needs two samples.
      await until(
        async () => (await query('count_over_time(up{job="postrider"}[1m]) >= 3 and up == 1')).length === 1,
        LIMIT,
        () => box.read('prometheus.log'),
      )
    })
    after(async () => {
      await box.close()
      await postrider.stop()
      rmSync(folder, { recursive: true, force: true })
    })

    test('promtool finds no problem in the response of /metrics', async () => {
      const metrics = await (await fetch(`${postrider.url}/metrics`)).text()
      assert.match(metrics, /^postrider_problems 0$/m)
      const { status, stderr, stdout } = spawnSync(PROMTOOL, ['check', 'metrics'], { input: metrics, encoding: 'utf8' })
      assert.ok(status === 0 || status === 3, stderr)
      // What is a matter of taste is said with status 3: names of units that are not base units.
      assert.doesNotMatch(stdout + stderr, /error while linting/)
    })

    test('Prometheus evaluates every rule without an error, and a late backup raises the alert of failures', async () => {
      type Rule = { name: string; health: string; lastError?: string; state: string }
      const rules = async (): Promise<(Rule & { group: string })[]> =>
        (await asked<{ groups: { name: string; rules: Rule[] }[] }>('rules')).groups.flatMap(
          ({ name: group, rules: all }) => all.map((rule) => ({ ...rule, group })),
        )
      await until(
        async () => (await rules()).every(({ health }) => health !== 'unknown'),
        LIMIT,
        () => box.read('prometheus.log'),
      )
      const all = await rules()
      assert.deepEqual(
        all.filter(({ health, lastError }) => health !== 'ok' || Boolean(lastError)),
        [],
      )
      await until(
        async () => (await query('ALERTS{alertname="PostriderFailure", alertstate="firing"}')).length === 1,
        LIMIT,
        () => box.read('prometheus.log'),
      )
      const firing = await query('ALERTS{alertstate="firing"}')
      assert.deepEqual(firing.map(({ metric: { alertname, check } }) => `${alertname} ${check}`).toSorted(), [
        'PostriderFailure backups',
        'PostriderWarning certificate',
        'PostriderWarning configuration',
      ])
      // With its own time it is pending: it is raised when it has lasted.
      assert.deepEqual(
        all.filter(({ state }) => state === 'pending').map(({ name }) => name),
        ['PostriderFailure', 'PostriderWarning'],
      )
      const [alert] = await query('time() - postrider_backup_last_success_timestamp_seconds')
      assert.ok(Math.abs(Number(alert?.value[1]) - (2 * DAY) / 1000) < 600)
      assert.doesNotMatch(box.read('prometheus.log'), /level=(?:warn|error)/)
    })

    test('each panel of the dashboard has at least one series from a new server', async () => {
      const { panels } = JSON.parse(readFileSync(join(FOLDER, 'dashboard.json'), 'utf8')) as {
        panels: { title: string; targets: { expr: string }[] }[]
      }
      const empty: string[] = []
      for (const { targets, title } of panels)
        for (const { expr } of targets) if ((await query(expr)).length === 0) empty.push(`${title}: ${expr}`)
      assert.deepEqual(empty, [])
    })
  },
)
