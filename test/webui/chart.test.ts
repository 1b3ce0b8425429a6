// Tests charts (D138): complete bars at the right position, totals, and labels in the user's time zone.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { barChart, lineChart } from '../../src/views/html/chart.ts'

const text = async (part: unknown): Promise<string> => String(await part)

const rects = (shown: string, look: string): { x: number; y: number; width: number; height: number }[] =>
  [
    ...shown.matchAll(
      new RegExp(`<rect class="${look}" x="([\\d.-]+)" y="([\\d.-]+)" width="([\\d.]+)" height="([\\d.]+)"`, 'g'),
    ),
  ].map(([, x, y, width, height]) => ({ x: Number(x), y: Number(y), width: Number(width), height: Number(height) }))

const begin = Date.parse('2026-11-24T00:00:00Z')

test('bars are equally wide, stacked and inside the drawing', async () => {
  const at = Array.from({ length: 24 }, (_, index) => begin + index * HOUR)
  const shown = await text(
    barChart({
      title: 'Mail',
      place: { zone: 'UTC', language: 'en-GB' },
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
  assert.ok([...shown.matchAll(/<span[^>]*>\d\d:00<\/span>/g)].length <= 8, 'not more than eight words below')
})

test('draws a single bar, and labels hours in the time zone', async () => {
  const series = [{ name: 'Opens', tone: 'one', values: [156] } as const]
  const shown = await text(
    barChart({ title: 'Opens', place: { zone: 'America/Los_Angeles', language: 'en-GB' }, at: [begin], series }),
  )
  const [bar] = rects(shown, 's-one')
  assert.ok(bar && bar.height > 50)
  assert.match(shown, /data-tip="23 Nov, 16:00\nOpens 156"/)
})

test('labels days, and draws no bars for zeros', async () => {
  const at = Array.from({ length: 7 }, (_, index) => begin + index * DAY)
  const series = [{ name: 'Mail', tone: 'good', values: at.map(() => 0) } as const]
  const shown = await text(barChart({ title: 'Mail', place: { zone: 'UTC', language: 'en-GB' }, at, series }))
  assert.deepEqual(rects(shown, 's-good'), [], 'nothing is drawn for nothing')
  assert.equal([...shown.matchAll(/<span[^>]*>\d+ Nov<\/span>/g)].length, 7)
  assert.equal([...shown.matchAll(/class="minor"/g)].length, 3, 'a phone shows every second label')
})

test('a line ends at the latest value, and few points do not fill its width', async () => {
  const points = [
    [begin, 2],
    [begin + 60_000, 4],
  ] as const
  const shown = await text(
    lineChart({ title: 'Memory', unit: 'MB', place: { zone: 'UTC', language: 'en-GB' }, span: HOUR, points }),
  )
  const [, path] = /class="line" d="([^"]+)"/.exec(shown)!
  const [first, last] = path!
    .slice(1)
    .split('L')
    .map((pair) => pair.split(' ').map(Number))
  assert.ok(first![0]! > 980 && last![0] === 1000, path ?? '')
  assert.ok(last![1]! < first![1]!, 'more stands higher')
  assert.match(shown, /<b>4 MB<\/b>/)
})

const place = { zone: 'UTC', language: 'en-GB' }
const ticks = (shown: string): string[] =>
  [.../<div class="y"[^>]*>([^]*?)<\/div>/.exec(shown)![1]!.matchAll(/<span>([^<]*)<\/span>/g)].map(([, tick]) => tick!)

test('an axis ends close above the highest bar, with whole figures', async () => {
  const axis = async (most: number): Promise<string> => {
    const series = [{ name: 'Mail', tone: 'good', values: [most] } as const]
    return ticks(await text(barChart({ title: 'Mail', place, at: [begin], series }))).join(' ')
  }
  for (const [most, expected] of [
    [0, '1 0'],
    [1, '1 0'],
    [3, '3 2 1 0'],
    [13, '15 10 5 0'],
    [258, '300 150 0'],
    [501, '600 300 0'],
    [700, '800 400 0'],
    [2000, '2,000 1,000 0'],
    [2400, '3,000 1,500 0'],
    [9500, '10,000 5,000 0'],
  ] as const)
    assert.equal(await axis(most), expected, String(most))
  for (let most = 1; most < 5000; most += 7) {
    const [top = ''] = (await axis(most)).split(' ')
    assert.ok(most / Number(top.replaceAll(',', '')) > 0.65, `${most} of ${top}`)
  }
})

test('grouped bars stand side by side on the ground, and their sum is not the height of the axis', async () => {
  const series = [
    { name: 'Opens', tone: 'one', values: [194, 20] },
    { name: 'Clicks', tone: 'good', values: [64, 5] },
  ] as const
  const shown = await text(barChart({ title: 'Readers', place, at: [begin, begin + HOUR], grouped: true, series }))
  assert.equal(ticks(shown)[0], '200')
  const [opens, clicks] = [rects(shown, 's-one'), rects(shown, 's-good')]
  for (const [index, open] of opens.entries()) {
    const click = clicks[index]!
    assert.ok(Math.abs(open.x + open.width - click.x) < 0.05, 'clicks stand right of opens')
    for (const bar of [open, click]) assert.ok(Math.abs(bar.y + bar.height - 100) < 0.05)
  }
})

test('a line of other figures crosses the middle of the bars, and the axis has room for it', async () => {
  const series = [{ name: 'Mail', tone: 'good', values: [5, 10] } as const]
  const line = { name: 'Previous', values: [40, 20] }
  const shown = await text(barChart({ title: 'Mail', place, at: [begin, begin + DAY], series, line }))
  assert.equal(ticks(shown)[0], '40')
  assert.match(shown, /<path class="before" d="M250 0L750 50"/)
  assert.match(shown, /class="s-before"><\/i>Previous <b>60<\/b>/)
  assert.match(shown, /data-tip="24 Nov\nMail 5\nPrevious 40"/)
})

test('days are labelled as days, even if the first one has 23 hours', async () => {
  const series = [{ name: 'Mail', tone: 'good', values: [1, 2] } as const]
  const at = [begin, begin + 23 * HOUR]
  assert.match(await text(barChart({ title: 'Mail', place, at, series })), /data-tip="24 Nov\n/)
})

test('the axis of a line has its unit', async () => {
  const of = async (unit: string, value: number): Promise<string> =>
    text(lineChart({ title: 'Load', unit, place, span: HOUR, points: [[begin, value]] }))
  assert.deepEqual(ticks(await of('MB', 130)), ['150 MB', '75 MB', '0 MB'])
  const busy = await of('%', 11)
  assert.deepEqual(ticks(busy), ['15%', '10%', '5%', '0%'])
  assert.match(busy, /<b>11%<\/b>/)
  assert.deepEqual(ticks(await of('subscribers', 2)), ['2', '1', '0'])
})

test('hours are labelled in the language of the user, briefly', async () => {
  const at = Array.from({ length: 3 }, (_, index) => begin + (12 + index) * HOUR)
  const series = [{ name: 'Mail', tone: 'good', values: [1, 2, 3] } as const]
  const labels = async (language: string, zone: string): Promise<string[]> => {
    const shown = await text(barChart({ title: 'Mail', place: { zone, language }, at, series }))
    return [.../<div class="x"[^>]*>([^]*?)<\/div>/.exec(shown)![1]!.matchAll(/>([^<]+)<\/span>/g)].map(([, words]) =>
      words!.replaceAll(/\s/g, ' '),
    )
  }
  assert.deepEqual(await labels('en-US', 'UTC'), ['12 PM', '1 PM', '2 PM'])
  assert.deepEqual(await labels('en-US', 'Asia/Kolkata'), ['5:30 PM', '6:30 PM', '7:30 PM'])
  assert.deepEqual(await labels('en-GB', 'UTC'), ['12:00', '13:00', '14:00'])
})
