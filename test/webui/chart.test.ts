// Charts (D138): every bar whole and in its place, figures of each, words in the zone of the reader.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { barChart, lineChart } from '../../src/webui/chart.ts'

const text = async (part: unknown): Promise<string> => String(await part)

const rects = (shown: string, look: string): { x: number; y: number; width: number; height: number }[] =>
  [
    ...shown.matchAll(
      new RegExp(`<rect class="${look}" x="([\\d.-]+)" y="([\\d.-]+)" width="([\\d.]+)" height="([\\d.]+)"`, 'g'),
    ),
  ].map(([, x, y, width, height]) => ({ x: Number(x), y: Number(y), width: Number(width), height: Number(height) }))

const begin = Date.parse('2026-11-24T00:00:00Z')

test('bars are equally wide, lie within the drawing and stand on each other', async () => {
  const at = Array.from({ length: 24 }, (_, index) => begin + index * HOUR)
  const shown = await text(
    barChart({
      title: 'Mail',
      zone: 'UTC',
      at,
      series: [
        { name: 'Delivered', tone: 'good', values: at.map((_, index) => index + 1) },
        { name: 'Refused', tone: 'bad', values: at.map(() => 3) },
      ],
    }),
  )
  const [good, bad, hits] = [rects(shown, 's-good'), rects(shown, 's-bad'), rects(shown, 'hit')]
  assert.deepEqual([good.length, bad.length, hits.length], [24, 24, 24])
  assert.equal(new Set(good.map(({ width }) => width)).size, 1)
  for (const [index, bar] of good.entries()) {
    const [hit, above] = [hits[index]!, bad[index]!]
    assert.ok(
      bar.x >= hit.x && bar.x + bar.width <= hit.x + hit.width + 0.02,
      'a whole bar, the first and the last too',
    )
    assert.ok(Math.abs(bar.y + bar.height - 100) < 0.05, 'it stands on the ground')
    assert.ok(Math.abs(above.y + above.height - bar.y) < 0.05, 'the next series stands on it')
    assert.ok(above.y >= -0.05)
  }
  assert.ok(good[23]!.height > good[0]!.height * 20)
  assert.match(shown, /<b>300<\/b>/, 'the total of a series')
  assert.match(shown, /data-tip="24 Nov, 05:00\nDelivered 6\nRefused 3"/)
  assert.ok([...shown.matchAll(/<span>\d\d:00<\/span>/g)].length <= 8, 'not more than eight words below')
})

test('one bar alone is shown, and hours are those of the zone', async () => {
  const series = [{ name: 'Opens', tone: 'one', values: [156] } as const]
  const shown = await text(barChart({ title: 'Opens', zone: 'America/Los_Angeles', at: [begin], series }))
  const [bar] = rects(shown, 's-one')
  assert.ok(bar && bar.height > 50)
  assert.match(shown, /data-tip="23 Nov, 16:00\nOpens 156"/)
})

test('days are days, whatever the clock says of them', async () => {
  const at = Array.from({ length: 7 }, (_, index) => begin + index * DAY)
  const series = [{ name: 'Mail', tone: 'good', values: at.map(() => 0) } as const]
  const shown = await text(barChart({ title: 'Mail', zone: 'UTC', at, series }))
  assert.deepEqual(rects(shown, 's-good'), [], 'nothing is drawn for nothing')
  assert.equal([...shown.matchAll(/<span>\d+ Nov<\/span>/g)].length, 7)
})

test('a line ends at its latest figure, and few points do not fill its width', async () => {
  const points = [
    [begin, 2],
    [begin + 60_000, 4],
  ] as const
  const shown = await text(lineChart({ title: 'Memory', unit: 'MB', zone: 'UTC', span: HOUR, points }))
  const [, path] = /class="line" d="([^"]+)"/.exec(shown)!
  const [first, last] = path!
    .slice(1)
    .split('L')
    .map((pair) => pair.split(' ').map(Number))
  assert.ok(first![0]! > 980 && last![0] === 1000, path ?? '')
  assert.ok(last![1]! < first![1]!, 'more stands higher')
  assert.match(shown, /<b>4 MB<\/b>/)
})
