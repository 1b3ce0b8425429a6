// Charts: stacked bars of delivered, deferred and refused mail over time, and lines of one figure over time.
import uPlot from 'uplot'

interface Point {
  at: string
  delivered: number
  deferred: number
  refused: number
}

/** Bars are stacked: each includes the ones after it, and the highest is drawn first. */
const STACK = {
  refused: ({ deferred, delivered, refused }: Point) => delivered + deferred + refused,
  deferred: ({ deferred, delivered }: Point) => delivered + deferred,
  delivered: ({ delivered }: Point) => delivered,
}
const NAMES = ['refused', 'deferred', 'delivered'] as const

/** `data-span`: the chart covers at least this many seconds, so that a few points do not fill its width. */
function across(figure: HTMLElement, times: readonly number[]): uPlot.Scale {
  const span = Number(figure.dataset['span'] ?? 0)
  const [first, last] = [times[0], times.at(-1)]
  if (span === 0 || first === undefined || last === undefined) return {}
  return { range: () => [Math.min(first, last - span), last] }
}

/** The range of bars: half a step before the first and after the last, so that both are as wide as the others. */
function wholeBars(times: readonly number[]): uPlot.Scale {
  const [first, second] = times
  const last = times.at(-1)
  if (first === undefined || last === undefined) return {}
  const step = second === undefined ? 3600 : second - first
  return { range: () => [first - step / 2, last + step / 2] }
}

function draw(): void {
  for (const figure of document.querySelectorAll<HTMLElement>('[data-chart]')) {
    if (figure.querySelector('.uplot')) continue
    const points = JSON.parse(figure.dataset['chart']!) as Point[]
    const times = points.map(({ at }) => Date.parse(at) / 1000)
    const style = getComputedStyle(document.documentElement)
    const ink = style.getPropertyValue('--soft')
    const line = style.getPropertyValue('--grid')
    const bars = uPlot.paths.bars!({ size: [0.8, 40] })
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
    const series = NAMES.map((name) => {
      const colour = style.getPropertyValue(`--${name}`)
      return {
        label: name,
        stroke: colour,
        fill: colour,
        paths: bars,
        points: { show: false },
        value: (_: uPlot, __: number, ___: number, index: number | null) =>
          String((index === null ? undefined : points[index]?.[name]) ?? '–'),
      }
    })
    const chart = new uPlot(
      {
        width: figure.clientWidth,
        height: 240,
        scales: { x: wholeBars(times), y: { range: (_, __, most) => [0, Math.max(most, 1)] } },
        axes: [axis, { ...axis, size: 60 }],
        series: [{}, ...series],
        cursor: { y: false },
      },
      [times, ...NAMES.map((name) => points.map(STACK[name]))],
      figure,
    )
    new ResizeObserver(() => chart.setSize({ width: figure.clientWidth, height: 240 })).observe(figure)
  }
}

/** Lines of one figure over time: `data-line` holds [time in seconds, value] pairs, `data-unit` the unit. */
function drawLines(): void {
  for (const figure of document.querySelectorAll<HTMLElement>('[data-line]')) {
    if (figure.querySelector('.uplot')) continue
    const points = JSON.parse(figure.dataset['line']!) as [at: number, value: number][]
    const times = points.map(([at]) => at)
    const style = getComputedStyle(document.documentElement)
    const line = style.getPropertyValue('--grid')
    const axis = {
      stroke: style.getPropertyValue('--soft'),
      grid: { stroke: line, width: 1 },
      ticks: { stroke: line, width: 1 },
    }
    const colour = style.getPropertyValue('--delivered')
    const height = 140
    const chart = new uPlot(
      {
        width: figure.clientWidth,
        height,
        scales: { x: across(figure, times), y: { range: (_, __, most) => [0, Math.max(most, 1)] } },
        axes: [axis, { ...axis, size: 60 }],
        // A line through one point is nothing: few points are shown as such.
        series: [
          {},
          { label: figure.dataset['unit']!, stroke: colour, width: 2, points: { show: points.length < 50 } },
        ],
        cursor: { y: false },
      },
      [times, points.map(([, value]) => value)],
      figure,
    )
    new ResizeObserver(() => chart.setSize({ width: figure.clientWidth, height })).observe(figure)
  }
}

function drawAll(): void {
  draw()
  drawLines()
}

drawAll()
document.addEventListener('drawn', drawAll)
