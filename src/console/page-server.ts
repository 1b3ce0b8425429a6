// The health of the server, for operators.
import { html } from 'hono/html'
import { HOUR, SECOND } from '../base/clock.ts'
import { capital } from '../base/text.ts'
import { barChart, lineChart } from '../webui/chart.ts'
import { page } from '../webui/frame.ts'
import {
  badge,
  count,
  exactTime,
  facts,
  figures,
  live,
  octets,
  table,
  tabs,
  time,
  type Html,
} from '../webui/widgets.ts'
import { found, type Place } from '../webui/place.ts'
import { serverBackups } from '../archive/api.ts'
import { serverState } from '../checks/api.ts'
import { logLines, serverSamples } from '../http/api-log.ts'
import type { AttributesOf, NamesOf } from '../jsonapi/shown.ts'
import { watchPlace } from '../watch/page.ts'
import { number, objects, record, text, texts, type Thing, type Visit } from '../webui/visit.ts'

type SampleResource = Thing<typeof serverSamples>
type Targets = NonNullable<AttributesOf<typeof serverState>['backups']>
type SampleFigure = NamesOf<AttributesOf<typeof serverSamples>, number>

/** The parts of the server's page. */
const PARTS = [
  ['/server', 'Health'],
  ['/server/load', 'Load'],
  ['/server/warmup', 'Warm-up'],
  ['/server/watch', 'Watch'],
  ['/server/log', 'Log'],
] as const

export const serverTabs = (here: string): Html =>
  tabs(
    'Server',
    PARTS.map(([to, name]) => ({ to, name, here: to === here })),
  )

/** Findings are shown in this order. */
const ORDER = ['fail', 'warn', 'ok']

/** What takes room on the disk, in words. */
const STORED: Record<string, string> = {
  database: 'Mail, contacts and settings (database)',
  log: 'Changes not yet in the database (log)',
  spool: 'Mail on its way (spool)',
  free: 'Free',
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
      about: 'Whether this server can send and receive. It is checked in the background, every ten minutes.',
      body: html`${serverTabs('/server')}
      ${live(
        visit,
        html`${troubles.length === 0 ? '' : html`<div class="alert" role="alert">${troubles.map((each) => html`<p>${each}</p>`)}</div>`}
          ${facts([
            ['Version', text(one, 'version')],
            ['Host name', text(one, 'hostname')],
            ['Running since', time(one.attributes.started_at)],
            ['Last backup', time(one.attributes.last_backup_at)],
            ['Mail certificate valid until', time(one.attributes.certificate_ends_at)],
          ])}
          <h2>Findings</h2>
          ${table(
            'Findings',
            [
              { title: 'State', kind: 'status' },
              { title: 'What', width: 15 },
              { title: 'Found', wraps: true },
              { title: 'What to do', wraps: true },
            ],
            findings.map(({ check, detail, mend, status }) => [badge(status), check, detail, mend ?? '']),
            'The checks have not run yet. They run every ten minutes.',
          )}
          ${
            backups.length + targets.length === 0
              ? html`<h2>Backups</h2>
                  <p>None is made by itself: no place is set. Set <code>backup.to</code> in the configuration.</p>`
              : html`<h2>Backups</h2>
                  ${targets.length === 0 ? '' : kept(targets)}
                  ${
                    backups.length === 0
                      ? ''
                      : html`<h3>Last runs</h3>
                          ${runs(backups)}`
                  }`
          }
          <h2>Storage</h2>
          ${table(
            'Storage',
            ['What', ...figures('Size')],
            storage.map(({ kind, octets: size }) => [STORED[kind] ?? kind, octets(size)]),
            '',
          )}
          <p class="soft">/metrics gives figures to Prometheus.</p>`,
      )}`,
    })
  },
}

/** What the drill of a target came to, before its time. */
const DRILLS: Readonly<Record<string, string>> = { failed: 'Failed', running: 'Running', pending: 'None yet' }

/** Each place of scheduled backups; the findings say what fixes it. */
const kept = (targets: Targets): Html =>
  table(
    'Places of backups',
    [
      { title: 'State', kind: 'status' },
      { title: 'Where', wraps: true, width: 30 },
      { title: 'Last backup', kind: 'time' },
      ...figures('Size', 'Took', 'Failures'),
      { title: 'Last drill', kind: 'time' },
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

/** So many backups and drills are shown. */
const SHOWN_RUNS = 10

const runs = (all: readonly Thing<typeof serverBackups>[]): Html =>
  table(
    'Backups',
    [
      { title: 'State', kind: 'status' },
      { title: 'What', wraps: true, width: 25 },
      { title: 'When', kind: 'time' },
      ...figures('Size', 'Took'),
      { title: 'More', wraps: true, width: 30 },
    ],
    all.map((run) => {
      const { ended_at, fault, octets: size, way } = run.attributes
      const target = text(run, 'target')
      const took = Math.ceil((Date.parse(text(run, 'ended_at')) - Date.parse(text(run, 'started_at'))) / SECOND)
      return [
        badge(fault === null ? 'ok' : 'fail'),
        `${text(run, 'kind') === 'drill' ? 'Drill of' : 'Backup to'} ${target}`,
        time(ended_at),
        typeof size === 'number' ? octets(size) : '',
        `${took} s`,
        typeof fault === 'string'
          ? capital(fault.replace(`${target}: `, ''))
          : way === 'read'
            ? 'Sealed: its octets were read, not opened.'
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
      about: 'The last hour: mail, the queue, memory and work.',
      body: html`${serverTabs('/server/load')} ${live(visit, hour(visit, samples.toReversed()))}`,
    })
  },
}

const logPage: Place = {
  path: '/server/log',
  operator: true,
  async show(visit) {
    const lines = await visit.all(logLines, '/server/log', 500)
    return page(visit, {
      title: 'Server',
      about: 'What the server wrote since it began, the newest first.',
      body: html`${serverTabs('/server/log')} ${live(visit, log(visit, lines))}`,
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
    return html`<div class="empty">The server has just begun; figures come every ten seconds.</div>`
  const line = (title: string, unit: string, value: (sample: SampleResource) => number): Html =>
    lineChart({
      title,
      unit,
      zone: visit.zone,
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
      title: 'Mail a minute',
      zone: visit.zone,
      at: mail.map(({ at }) => Date.parse(at)),
      series: [
        { name: 'Delivered', tone: 'good', values: mail.map(({ delivered }) => delivered) },
        { name: 'Waiting', tone: 'waits', values: mail.map(({ deferred }) => deferred) },
        { name: 'Bounced at once', tone: 'bad', values: mail.map(({ refused }) => refused) },
      ],
    })}
    ${line('Recipients whose mail waits', '', rounded('waiting'))} ${line('Memory', 'MB', rounded('memory', 1_000_000))}
    ${line('Server busy', '% of the time', rounded('busy', 0.01))}
    <details>
      <summary>The figures as a table</summary>
      ${table(
        'The last hour',
        [{ title: 'At', kind: 'time' }, ...figures('Waiting', 'Memory', 'Busy')],
        rows.map((sample) => [
          time(sample.attributes.at),
          count(number(sample, 'waiting')),
          octets(number(sample, 'memory')),
          `${rounded('busy', 0.01)(sample)} %`,
        ]),
        '',
      )}
    </details>`
}

const pairs = (fields: Record<string, unknown>): Html =>
  html`${Object.entries(fields).map(
    ([name, value]) =>
      html`<span class="soft">${name}</span> ${typeof value === 'string' ? value : JSON.stringify(value)} `,
  )}`

const SHOWN_LINES = 100

/** The log since the start of the server, newest line first; `?level=error` shows lines of this level or worse. */
function log(visit: Visit, lines: readonly Thing<typeof logLines>[]): Html {
  const least = (['info', 'warn', 'error'] as const).find((level) => level === visit.query('level')) ?? 'info'
  const grave = { debug: 0, info: 1, warn: 2, error: 3 }
  const shown = lines
    .filter((each) => grave[text(each, 'level') as keyof typeof grave] >= grave[least])
    .slice(0, SHOWN_LINES)
  return html`<nav class="segments" aria-label="Level">
      ${(['info', 'warn', 'error'] as const).map((level) => html`<a href="?level=${level}" ${level === least ? html`aria-current="true"` : ''}>${level === 'info' ? 'All' : level === 'warn' ? 'Warnings' : 'Errors'}</a>`)}
    </nav>
    ${table(
      'Log',
      [
        { title: 'At', kind: 'time' },
        { title: 'Level', kind: 'status' },
        { title: 'Event', width: 20 },
        { title: 'More', wraps: true },
      ],
      shown.map((each) => [
        exactTime(each.attributes.at),
        badge(text(each, 'level')),
        text(each, 'event'),
        pairs(record(each, 'fields')),
      ]),
      'Nothing was written.',
    )}`
}

export const serverPlaces = [health, load, watchPlace(serverTabs), logPage]
