// The health of the server, for operators.
import { html } from 'hono/html'
import { HOUR, SECOND } from '../base/clock.ts'
import { capital } from '../base/text.ts'
import { barChart, lineChart } from '../views/html/chart.ts'
import { page, serverTabs } from '../views/html/frame.ts'
import { badge, count, counted, facts, figures, live, octets, table, time, type Html } from '../views/html/widgets.ts'
import { found, type Place } from '../views/html/place.ts'
import { serverBackups } from '../archive/api.ts'
import { serverState } from '../checks/api.ts'
import { serverSamples } from '../http/api-log.ts'
import { logPage } from './page-log.ts'
import { settingsPage } from './page-settings.ts'
import type { AttributesOf, NamesOf } from '../jsonapi/shown.ts'
import { number, objects, text, texts, type Thing, type Visit } from '../views/html/visit.ts'

type SampleResource = Thing<typeof serverSamples>
type Targets = NonNullable<AttributesOf<typeof serverState>['backups']>
type SampleFigure = NamesOf<AttributesOf<typeof serverSamples>, number>

/** Findings are shown in this order. */
const ORDER = ['fail', 'warn', 'ok']

/** The buttons of findings that a form of the settings page can fix, by its id. */
const FORMS: Readonly<Record<string, string>> = {
  hostname: 'Set hostname',
  acme: 'Turn on certificates',
  backup: 'Add destination',
}

/** Labels for the use of disk space. */
const STORED: Record<string, string> = {
  database: 'Database: email, contacts, settings',
  log: 'Write-ahead log of the database',
  spool: 'Spool: queued email',
  free: 'Free disk space',
}

const health: Place = {
  path: '/server',
  operator: true,
  async show(visit) {
    const { one } = found(await visit.get(serverState, '/server'))
    const findings = objects(one, 'findings').toSorted((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status))
    const troubles = texts(one, 'troubles')
    const storage = objects(one, 'storage')
    const targets = objects(one, 'backups')
    const backups = await visit.all(serverBackups, '/server/backups', SHOWN_RUNS)
    return page(visit, {
      title: 'Server',
      about: 'Checks whether this server can send and receive email. They run every 10 minutes.',
      body: html`${serverTabs(visit, '/server')}
      ${live(
        visit,
        html`${troubles.length === 0 ? '' : html`<div class="alert" role="alert">${troubles.map((each) => html`<p>${each}</p>`)}</div>`}
          ${facts([
            ['Version', text(one, 'version')],
            ['Hostname', text(one, 'hostname')],
            ['Machine', html`${text(one, 'machine')}, since ${time(one.attributes.serving_since)}`],
            ['Running since', time(one.attributes.started_at)],
            ['Last backup', time(one.attributes.last_backup_at)],
            ['Certificate expires', time(one.attributes.certificate_ends_at)],
          ])}
          <h2>Checks</h2>
          ${checks(findings)}
          ${
            backups.length + targets.length === 0
              ? html`<h2>Backups</h2>
                  <p>
                    No automatic backups: no destination is set.
                    <a class="button plain small" href="/server/settings#backup">Add destination</a>
                  </p>`
              : html`<h2>Backups</h2>
                  ${targets.length === 0 ? '' : kept(targets)}
                  ${
                    backups.length === 0
                      ? ''
                      : html`<h3>Recent runs</h3>
                          ${runs(backups)}`
                  }`
          }
          <h2>Storage</h2>
          ${table(
            'Storage',
            ['Item', ...figures('Size')],
            storage.map(({ kind, octets: size }) => [STORED[kind] ?? kind, octets(size)]),
            '',
          )}
          <p class="soft">Prometheus metrics are available at /metrics.</p>`,
      )}`,
    })
  },
}

type ServerFindings = NonNullable<AttributesOf<typeof serverState>['findings']>

/** The results of all checks. A problem has its consequence, its fix, and a button if the console can fix it. */
function checks(findings: ServerFindings): Html {
  const [well, wrong] = [true, false].map((isOk) => findings.filter(({ status }) => (status === 'ok') === isOk)) as [
    ServerFindings,
    ServerFindings,
  ]
  const columns = [
    { title: 'Status', kind: 'status' },
    { title: 'Check', width: 15 },
    { title: 'Result', wraps: true },
  ] as const
  return html`${table(
    'Checks',
    [...columns, { title: 'Fix', wraps: true }],
    wrong.map(({ check, detail, effect, fix, href, status }) => [
      badge(status),
      check,
      effect === null
        ? detail
        : html`${detail}<br />
            <span class="soft">${effect}</span>`,
      html`${fix ?? ''}
      ${href === '/server' ? '' : html`<a class="button plain small" href="${href}">${FORMS[href.split('#')[1] ?? ''] ?? 'See details'}</a>`}`,
    ]),
    findings.length === 0 ? 'The checks have not run yet. They run every 10 minutes.' : 'All checks passed.',
  )}
  ${
    well.length === 0
      ? ''
      : html`<details>
          <summary>${counted(well.length, 'check')} passed</summary>
          ${table(
            'Passed checks',
            columns,
            well.map(({ check, detail, status }) => [badge(status), check, detail]),
            '',
          )}
        </details>`
  }`
}

/** The labels of restore tests without a success. The time of the last success follows. */
const DRILLS: Readonly<Record<string, string>> = { failed: 'Failed', running: 'Running', pending: 'Not run yet' }

/** The destinations of scheduled backups. The findings contain the fixes. */
const kept = (targets: Targets): Html =>
  table(
    'Backup destinations',
    [
      { title: 'Status', kind: 'status' },
      { title: 'Destination', wraps: true, width: 30 },
      { title: 'Last backup', kind: 'time' },
      ...figures('Size', 'Duration', 'Failures'),
      { title: 'Last restore test', kind: 'time' },
    ],
    targets.map(({ drill, failures, last_drill_at, last_success_at, octets: size, seconds, status, target }) => [
      badge(status),
      target,
      last_success_at === null ? html`<span class="soft">Never</span>` : time(last_success_at),
      size === null ? '' : octets(size),
      seconds === null ? '' : `${seconds} s`,
      String(failures),
      html`${DRILLS[drill] ?? ''}${last_drill_at === null ? '' : html` ${time(last_drill_at)}`}`,
    ]),
    '',
  )

/** The number of backups and restore tests that are shown. */
const SHOWN_RUNS = 10

const runs = (all: readonly Thing<typeof serverBackups>[]): Html =>
  table(
    'Backups',
    [
      { title: 'Status', kind: 'status' },
      { title: 'Run', wraps: true, width: 25 },
      { title: 'Finished', kind: 'time' },
      ...figures('Size', 'Duration'),
      { title: 'Details', wraps: true, width: 30 },
    ],
    all.map((run) => {
      const { ended_at, fault, octets: size, way } = run.attributes
      const target = text(run, 'target')
      const took = Math.ceil((Date.parse(text(run, 'ended_at')) - Date.parse(text(run, 'started_at'))) / SECOND)
      return [
        badge(fault === null ? 'ok' : 'fail'),
        `${text(run, 'kind') === 'drill' ? 'Restore test of' : 'Backup to'} ${target}`,
        time(ended_at),
        typeof size === 'number' ? octets(size) : '',
        `${took} s`,
        typeof fault === 'string'
          ? capital(fault.replace(`${target}: `, ''))
          : way === 'read'
            ? 'Encrypted: read in full, not decrypted.'
            : '',
      ]
    }),
    '',
  )

const load: Place = {
  path: '/server/load',
  operator: true,
  async show(visit) {
    const samples = await visit.all(serverSamples, '/server/samples', 360)
    return page(visit, {
      title: 'Server',
      about: 'Email, queue, memory and CPU use in the last hour.',
      body: html`${serverTabs(visit, '/server/load')} ${live(visit, hour(visit, samples.toReversed()))}`,
    })
  },
}

/** One point for each minute: the sums of its samples. */
function minutes(
  samples: readonly SampleResource[],
): { at: string; delivered: number; deferred: number; refused: number }[] {
  const by = Map.groupBy(samples, (sample) => text(sample, 'at').slice(0, 16))
  const sum = (some: readonly SampleResource[], name: SampleFigure): number =>
    some.reduce((all, sample) => all + number(sample, name), 0)
  return [...by].map(([minute, some]) => ({
    at: `${minute}:00.000Z`,
    delivered: sum(some, 'delivered'),
    deferred: sum(some, 'deferred'),
    refused: sum(some, 'refused'),
  }))
}

function hour(visit: Visit, samples: readonly SampleResource[]): Html {
  if (samples.length === 0)
    return html`<div class="empty">The server has just started. Metrics appear every 10 seconds.</div>`
  const line = (title: string, unit: string, value: (sample: SampleResource) => number): Html =>
    lineChart({
      title,
      unit,
      place: visit.place,
      span: HOUR,
      points: samples.map((sample) => [Date.parse(text(sample, 'at')), value(sample)]),
    })
  const rounded =
    (name: SampleFigure, per = 1) =>
    (sample: SampleResource): number =>
      Math.round((number(sample, name) / per) * 10) / 10
  const rows = samples.filter((_, index) => index % 30 === samples.length % 30 || index === samples.length - 1)
  const mail = minutes(samples)
  return html`${barChart({
      title: 'Emails per minute',
      place: visit.place,
      at: mail.map(({ at }) => Date.parse(at)),
      series: [
        { name: 'Delivered', tone: 'good', values: mail.map(({ delivered }) => delivered) },
        { name: 'Deferred', tone: 'waits', values: mail.map(({ deferred }) => deferred) },
        { name: 'Rejected', tone: 'bad', values: mail.map(({ refused }) => refused) },
      ],
    })}
    ${line('Recipients in the queue', '', rounded('waiting'))} ${line('Memory', 'MB', rounded('memory', 1_000_000))}
    ${line('Server busy', '%', rounded('busy', 0.01))}
    <details>
      <summary>Show as table</summary>
      ${table(
        'The last hour',
        [{ title: 'Time', kind: 'time' }, ...figures('Queued', 'Memory', 'Busy')],
        rows.map((sample) => [
          time(sample.attributes.at),
          count(number(sample, 'waiting')),
          octets(number(sample, 'memory')),
          `${rounded('busy', 0.01)(sample)}%`,
        ]),
        '',
      )}
    </details>`
}

export const serverPlaces = [health, load, logPage, settingsPage]
