// The pieces of pages (D138): tables, times and figures.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { figures, percent, table, time, timeUntil } from '../../src/webui/widgets.ts'

const text = async (part: unknown): Promise<string> => String(await part)
const looks = (shown: string): string[] =>
  [...shown.matchAll(/<td class="([^"]*)" data-title/g)].map(([, look]) => look!)

test('a column has its kind; on a phone its cells have their place in two lines', async () => {
  const shown = await text(
    table(
      'Mail',
      [
        'To',
        { title: 'Status', kind: 'status' },
        'Subject',
        { title: 'At', kind: 'time' },
        ...figures('Tries'),
        'From',
        { title: '', kind: 'action' },
      ],
      [['a@b', 'x', 'Hello', 'now', '1', 'me', 'do']],
      '',
    ),
  )
  assert.deepEqual(looks(shown), ['p1', 'k-status p4', 'p3', 'k-time p2', 'k-figure px', 'px', 'k-action'])
  assert.match(shown, /<th scope="col" class="k-status p4">Status<\/th>/)
})

test('a table without rows says what is next', async () => {
  const shown = await text(table('Mail', ['To'], [], 'Nothing yet.'))
  assert.match(shown, /class="empty">Nothing yet\./)
  assert.doesNotMatch(shown, /<table/)
})

test('what strangers wrote stays text in a cell', async () => {
  assert.match(await text(table('x', ['To'], [['<b>"a" & b']], '')), /&lt;b&gt;&quot;a&quot; &amp; b/)
})

test('a time is short; the whole of it is its title and its datetime', async () => {
  const iso = '2026-11-04T05:06:07.890Z'
  const shown = await text(time(iso))
  assert.match(
    shown,
    /^<time datetime="2026-11-04T05:06:07\.890Z" title="2026-11-04T05:06:07\.890Z" data-form="short"\s*>4 Nov 05:06<\/time/,
  )
  assert.match(await text(timeUntil(iso)), /data-form="until"/)
  assert.match(await text(time(null)), /–/)
})

test('no space stands before the sign of percent, as in English', () => {
  assert.deepEqual([percent(0.001), percent(0.02), percent(0)], ['0.10%', '2.0%', '0.0%'])
})
