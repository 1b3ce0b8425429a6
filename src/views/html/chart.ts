// Charts, drawn on the server as SVG: bars of one or several series, and a line of one figure. A chart has a legend
// with totals and ticks in the user's time zone and language. The script of the console shows a bar's figures next to
// the pointer.
import { html } from 'hono/html'
import { DAY, HOUR } from '../../base/clock.ts'
import type { TimePlace } from './visit.ts'
import { count, type Html } from './widgets.ts'

/** The tone of a series: successful, pending, failed, or a single figure. */
type Tone = 'good' | 'waits' | 'bad' | 'one'

interface Series {
  name: string
  tone: Tone
  values: readonly number[]
}

export interface Bars {
  title: string
  /** The start of each bar, in ms. All bars are hours, or all are days. */
  at: readonly number[]
  series: readonly Series[]
  /** The series stand side by side. Otherwise they are stacked, because their sum has a meaning. */
  grouped?: true
  /** A line of other figures, with a value for each bar. */
  line?: { name: string; values: readonly number[] } | undefined
  place: TimePlace
}

/** The units of the drawing. It is stretched to the available width, so all text is HTML outside the drawing. */
const [WIDE, HIGH] = [1000, 100]

const STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10]

/** Rounds a figure up to a step times a power of ten, for the top of an axis, so that little of it stays empty. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)))
  return power * (STEPS.find((step) => step * power >= value) ?? 10)
}

/** The figures of an axis, from the top to zero: halves, thirds or fifths that are whole numbers. */
function ticksOf(top: number): number[] {
  const parts = [2, 3, 5].find((each) => Number.isInteger(top / each)) ?? 1
  return Array.from({ length: parts + 1 }, (_, at) => (top * (parts - at)) / parts)
}

const clockOf = ({ language, zone }: TimePlace, form: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat(language, { timeZone: zone, ...form })

/** Writes days as a chart does: "24 Nov". */
export function dayWriter(place: TimePlace): (at: number | string) => string {
  const day = clockOf(place, { day: 'numeric', month: 'short' })
  return (at) => day.format(new Date(at))
}

/** Writes times of a chart: hours of a day, or days. */
function writer(place: TimePlace, days: boolean): { tick: (at: number) => string; whole: (at: number) => string } {
  const day = dayWriter(place)
  const hour = clockOf(place, { timeStyle: 'short' })
  return days
    ? { tick: day, whole: day }
    : // A whole hour is "2 PM", but "14:00".
      { tick: (at) => hour.format(at).replace(/:00(?=\s)/, ''), whole: (at) => `${day(at)}, ${hour.format(at)}` }
}

const plain = (value: number): string => (Number.isInteger(value) ? count(value) : value.toLocaleString('en'))

const near = (value: number): number => Math.round(value * 100) / 100

const withUnit = (value: number, unit: string): string =>
  `${plain(near(value))}${unit === '' || unit === '%' ? unit : ` ${unit}`}`

/** The drawing between its scales: figures at the left, labels below. */
function framed(title: string, [top, unit]: readonly [number, string], drawing: Html, below: readonly string[]): Html {
  const ticks = ticksOf(top)
  // Every second label is left out on a phone.
  const minor = new Set(below.flatMap((words, at) => (words === '' ? [] : [at])).filter((_, nth) => nth % 2 === 1))
  return html`<div class="plot">
    <div class="y" aria-hidden="true">${ticks.map((value) => html`<span>${withUnit(value, unit)}</span>`)}</div>
    <svg
      viewBox="0 0 ${WIDE} ${HIGH}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${title}. The table below has the same data"
    >
      ${ticks.map((value) => {
        const y = near(HIGH - (value / top) * HIGH)
        return html`<line class="grid" x1="0" x2="${WIDE}" y1="${y}" y2="${y}" />`
      })}
      ${drawing}
    </svg>
    <div class="x" aria-hidden="true">
      ${below.map((words, at) => html`<span ${minor.has(at) ? html`class="minor"` : ''}>${words}</span>`)}
    </div>
  </div>`
}

const legend = (
  title: string,
  series: readonly { name: string; tone: Tone | 'before'; values: readonly number[] }[],
  total: (values: readonly number[]) => string,
): Html =>
  html`<figcaption>
    <strong>${title}</strong>
    ${series.map(
      ({ name, tone, values }) => html`<span><i class="s-${tone}"></i>${name} <b>${total(values)}</b></span>`,
    )}
  </figcaption>`

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0)

/** Bars of one or several series. A stack has the first series at the bottom. */
export function barChart({ at, grouped, line, place, series, title }: Bars): Html {
  const [first = 0, second = first + HOUR] = at
  const valuesAt = (index: number): number[] => series.map(({ values }) => values[index] ?? 0)
  const heights = at.map((_, index) => (grouped ? Math.max(...valuesAt(index)) : sumOf(valuesAt(index))))
  const top = roundUp(Math.max(...heights, ...(line?.values ?? []), 1))
  // A day on which the clocks change has 23 hours.
  const write = writer(place, second - first > DAY / 2)
  const slot = WIDE / at.length
  const width = near(Math.min(slot * 0.72, 60))
  const wide = grouped ? near(width / series.length) : width
  const bars = at.map((begin, index) => {
    let y = HIGH
    const parts = series.flatMap(({ tone }, nth) => {
      const height = near(((valuesAt(index)[nth] ?? 0) / top) * HIGH)
      if (height <= 0) return []
      y = near((grouped ? HIGH : y) - height)
      const x = near(index * slot + (slot - width) / 2 + (grouped ? nth * wide : 0))
      return [html`<rect class="s-${tone}" x="${x}" y="${y}" width="${wide}" height="${height}" />`]
    })
    const all = line ? [...series, line] : series
    const said = [write.whole(begin), ...all.map(({ name, values }) => `${name} ${plain(values[index] ?? 0)}`)]
    return html`<g data-tip="${said.join('\n')}">
      <rect class="hit" x="${near(index * slot)}" y="0" width="${near(slot)}" height="${HIGH}" />
      ${parts}
    </g>`
  })
  const path = line?.values.map((value, index) => `${near((index + 0.5) * slot)} ${near(HIGH - (value / top) * HIGH)}`)
  // At most eight labels fit below.
  const every = Math.ceil(at.length / 8)
  const below = at.map((begin, index) => (index % every === 0 ? write.tick(begin) : ''))
  return html`<figure class="chart">
    ${legend(title, line ? [...series, { ...line, tone: 'before' }] : series, (values) => plain(sumOf(values)))}
    ${framed(title, [top, ''], html`${bars}${path ? html`<path class="before" d="M${path.join('L')}" />` : ''}`, below)}
  </figure>`
}

/** The units that an axis repeats. Other figures are numbers of what the title names. */
const AXIS_UNITS = ['MB', '%']

interface CurveOf {
  title: string
  unit: string
  points: readonly (readonly [at: number, value: number])[]
  /** The line covers at least this time, in ms, so that a few points do not fill its width. */
  span: number
  place: TimePlace
  /** The points are days. */
  days?: true
}

/** A line of one figure over time. */
export function lineChart({ days, place, points, span, title, unit }: CurveOf): Html {
  const [[begin] = [0, 0]] = points
  const [last, now] = points.at(-1) ?? [begin, 0]
  const first = Math.min(begin, last - span)
  const top = roundUp(Math.max(...points.map(([, value]) => value), 1))
  const write = writer(place, days === true)
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
${withUnit(value, unit)}"
        >
          <rect class="hit" x="${near(x(at) - slot / 2)}" y="0" width="${near(slot)}" height="${HIGH}" />
        </g>`,
    )}`
  const latest: Series = { name: 'now', tone: 'one', values: [now] }
  const below = [0, 0.25, 0.5, 0.75, 1].map((share) => write.tick(first + share * (last - first)))
  return html`<figure class="chart lines">
    ${legend(title, [latest], () => withUnit(now, unit))}
    ${framed(title, [top, AXIS_UNITS.includes(unit) ? unit : ''], drawing, below)}
  </figure>`
}

/** The height of a small drawing and the width of one of its bars. */
const [SPARK_HIGH, SPARK_BAR] = [20, 4]

/** Small stacked bars in a row of a table, over the period. */
export function sparkLine(title: string, series: readonly Omit<Series, 'name'>[]): Html {
  const many = Math.max(...series.map(({ values }) => values.length), 1)
  const below = Array.from({ length: many }, () => 0)
  const sums = below.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))
  const top = Math.max(...sums, 1)
  // One path per series, because a list has many rows.
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
