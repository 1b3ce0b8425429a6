// Charts, drawn on the server as SVG: bars of one or several series, and a line of one figure. A chart has a legend
// with totals and ticks in the zone of the person; the script of the console shows a bar's figures beside the pointer.
import { html } from 'hono/html'
import { DAY, HOUR, MINUTE } from '../base/clock.ts'
import { count, type Html } from './widgets.ts'

/** The tone of a series: it went well, waits, failed, or is a figure alone. */
type Tone = 'good' | 'waits' | 'bad' | 'one'

interface Series {
  name: string
  tone: Tone
  values: readonly number[]
}

export interface Bars {
  title: string
  /** The beginning of each bar, in ms; all bars last equally long. */
  at: readonly number[]
  series: readonly Series[]
  /** The zone in which times are written, as in the time zone database. */
  zone: string
}

/** The units of the drawing; it is stretched to the width that there is, so all words stand beside it as HTML. */
const [WIDE, HIGH] = [1000, 100]

/** A round figure at or above a value, for the top of an axis: 1, 2 or 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)))
  return power * ([1, 2, 5, 10].find((times) => times * power >= value) ?? 10)
}

/** Writes times of a chart: hours of a day, or days. */
function writer(zone: string, step: number): { tick: (at: number) => string; whole: (at: number) => string } {
  const day = new Intl.DateTimeFormat('en-GB', { timeZone: zone, day: 'numeric', month: 'short' })
  const hour = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' })
  return step >= DAY
    ? { tick: (at) => day.format(at), whole: (at) => day.format(at) }
    : { tick: (at) => hour.format(at), whole: (at) => `${day.format(at)}, ${hour.format(at)}` }
}

const plain = (value: number): string => (Number.isInteger(value) ? count(value) : value.toLocaleString('en'))

const near = (value: number): number => Math.round(value * 100) / 100

/** The drawing between its scales: three figures at the left, words below. */
const framed = (title: string, top: number, drawing: Html, below: readonly string[]): Html =>
  html`<div class="plot">
    <div class="y" aria-hidden="true">
      ${[top, top / 2, 0].map((value) => html`<span>${plain(near(value))}</span>`)}
    </div>
    <svg
      viewBox="0 0 ${WIDE} ${HIGH}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${title}; the figures stand in the table below"
    >
      ${[0, HIGH / 2, HIGH].map((y) => html`<line class="grid" x1="0" x2="${WIDE}" y1="${y}" y2="${y}" />`)} ${drawing}
    </svg>
    <div class="x" aria-hidden="true">${below.map((words) => html`<span>${words}</span>`)}</div>
  </div>`

const legend = (title: string, series: readonly Series[], total: (values: readonly number[]) => string): Html =>
  html`<figcaption>
    <strong>${title}</strong>
    ${series.map(
      ({ name, tone, values }) => html`<span><i class="s-${tone}"></i>${name} <b>${total(values)}</b></span>`,
    )}
  </figcaption>`

/** Stacked bars; the first series stands at the bottom. */
export function barChart({ at, series, title, zone }: Bars): Html {
  const [first = 0, second = first + HOUR] = at
  const sums = at.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0))
  const top = roundUp(Math.max(...sums, 1))
  const write = writer(zone, second - first)
  const slot = WIDE / at.length
  const width = near(Math.min(slot * 0.72, 60))
  const bars = at.map((begin, index) => {
    let y = HIGH
    const parts = series.flatMap(({ tone, values }) => {
      const height = near(((values[index] ?? 0) / top) * HIGH)
      if (height <= 0) return []
      y = near(y - height)
      const x = near(index * slot + (slot - width) / 2)
      return [html`<rect class="s-${tone}" x="${x}" y="${y}" width="${width}" height="${height}" />`]
    })
    const said = [write.whole(begin), ...series.map(({ name, values }) => `${name} ${plain(values[index] ?? 0)}`)]
    return html`<g data-tip="${said.join('\n')}">
      <rect class="hit" x="${near(index * slot)}" y="0" width="${near(slot)}" height="${HIGH}" />
      ${parts}
    </g>`
  })
  const total = (values: readonly number[]): string => plain(values.reduce((sum, value) => sum + value, 0))
  // Not more than eight words stand below.
  const every = Math.ceil(at.length / 8)
  const below = at.map((begin, index) => (index % every === 0 ? write.tick(begin) : ''))
  return html`<figure class="chart">
    ${legend(title, series, total)} ${framed(title, top, html`${bars}`, below)}
  </figure>`
}

interface CurveOf {
  title: string
  unit: string
  points: readonly (readonly [at: number, value: number])[]
  /** The line covers at least this time, in ms, so that a few points do not fill its width. */
  span: number
  zone: string
  /** The time from one point to the next, when it is days. */
  step?: number
}

/** A line of one figure over time. */
export function lineChart({ points, span, step = MINUTE, title, unit, zone }: CurveOf): Html {
  const [[begin] = [0, 0]] = points
  const [last, now] = points.at(-1) ?? [begin, 0]
  const first = Math.min(begin, last - span)
  const top = roundUp(Math.max(...points.map(([, value]) => value), 1))
  const write = writer(zone, step)
  const x = (at: number): number => near(((at - first) / Math.max(last - first, 1)) * WIDE)
  const y = (value: number): number => near(HIGH - (value / top) * HIGH)
  const path = points.map(([at, value], index) => `${index === 0 ? 'M' : 'L'}${x(at)} ${y(value)}`).join('')
  const slot = WIDE / points.length
  const drawing = html`<path class="area" d="${path}L${x(last)} ${HIGH}L${x(begin)} ${HIGH}z" />
    <path class="line" d="${path}" />
    ${points.map(
      ([at, value]) =>
        html`<g
          data-tip="${write.whole(at)}
${plain(value)} ${unit}"
        >
          <rect class="hit" x="${near(x(at) - slot / 2)}" y="0" width="${near(slot)}" height="${HIGH}" />
        </g>`,
    )}`
  const latest: Series = { name: 'now', tone: 'one', values: [now] }
  const below = [0, 0.25, 0.5, 0.75, 1].map((share) => write.tick(first + share * (last - first)))
  return html`<figure class="chart lines">
    ${legend(title, [latest], () => `${plain(now)} ${unit}`)} ${framed(title, top, drawing, below)}
  </figure>`
}

/** The height of a small drawing, and the width of one of its bars. */
const [SPARK_HIGH, SPARK_BAR] = [20, 4]

/** Small stacked bars in a row of a table: how it went over the period. */
export function sparkLine(title: string, series: readonly Omit<Series, 'name'>[]): Html {
  const many = Math.max(...series.map(({ values }) => values.length), 1)
  const below = Array.from({ length: many }, () => 0)
  const sums = below.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))
  const top = Math.max(...sums, 1)
  // One path for a series: a list has many rows.
  const paths = series.map(({ tone, values }) => {
    const bars = values.map((value, at) => {
      if (value <= 0) return ''
      const from = near(SPARK_HIGH * (1 - (below[at] ?? 0) / top))
      below[at] = (below[at] ?? 0) + value
      return `M${at * SPARK_BAR} ${from}v-${near((value / top) * SPARK_HIGH)}h${SPARK_BAR - 1}V${from}z`
    })
    return html`<path class="s-${tone}" d="${bars.join('')}" />`
  })
  return html`<svg
    class="spark"
    viewBox="0 0 ${many * SPARK_BAR} ${SPARK_HIGH}"
    preserveAspectRatio="none"
    role="img"
    aria-label="${title}"
  >
    ${paths}
  </svg>`
}
