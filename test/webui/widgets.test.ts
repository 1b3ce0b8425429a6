// Tests the widgets of pages (D138): tables, times, numbers and badges.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { html } from 'hono/html'
import { badge, exactTime, figures, inZone, percent, table, time, timeUntil } from '../../src/views/html/widgets.ts'

const text = async (part: unknown): Promise<string> => String(await part)
const looks = (shown: string): string[] =>
  [...shown.matchAll(/<td class="([^"]*)" data-title/g)].map(([, look]) => look!)

test('cells have the class of their column and a position in two lines on phones', async () => {
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

test('an empty table shows the next step', async () => {
  const shown = await text(table('Mail', ['To'], [], 'Nothing yet.'))
  assert.match(shown, /class="empty">Nothing yet\./)
  assert.doesNotMatch(shown, /<table/)
})

test('escapes untrusted text in a cell', async () => {
  assert.match(await text(table('x', ['To'], [['<b>"a" & b']], '')), /&lt;b&gt;&quot;a&quot; &amp; b/)
})

test('converts only the times of a page to a zone, across midnight and summer time', async () => {
  const row = async (iso: string) =>
    String(
      await html`<p>${'<time datetime="2026-07-04T23:06:07Z" title="" data-form="short">x</time>'}</p>
        ${time(iso)}`,
    )
  const shown = inZone(await row('2026-07-04T23:06:07.890Z'), 'Europe/Berlin')
  assert.match(shown, />5 Jul 01:06<\/time/)
  assert.match(shown, /datetime="2026-07-04T23:06:07\.890Z" title="2026-07-04T23:06:07\.890Z"/)
  assert.match(shown, /&gt;x&lt;\/time&gt;/)
  assert.match(inZone(await row('2026-01-04T23:06:07.890Z'), 'Europe/Berlin'), />5 Jan 00:06<\/time/)
  assert.match(inZone(String(await exactTime('2026-01-04T22:06:07.890Z')), 'Europe/Berlin'), />4 Jan 23:06:07<\/time/)
  for (const odd of ['', 'x', '$&']) {
    const page = await row(odd)
    assert.equal(inZone(page, 'Asia/Tokyo'), page)
  }
})

test('a time is short, and its title and datetime are complete', async () => {
  const iso = '2026-11-04T05:06:07.890Z'
  const shown = await text(time(iso))
  assert.match(
    shown,
    /^<time datetime="2026-11-04T05:06:07\.890Z" title="2026-11-04T05:06:07\.890Z" data-form="short"\s*>4 Nov 05:06<\/time/,
  )
  assert.match(await text(timeUntil(iso)), /data-form="until"/)
  assert.match(await text(time(null)), /–/)
})

test('writes percentages without a space', () => {
  assert.deepEqual([percent(0.001), percent(0.02), percent(0)], ['0.10%', '2.0%', '0.0%'])
})

test('shows an unsubscribed contact in a neutral badge, and a bounced one in red', async () => {
  const toneOf = async (state: string): Promise<string> => /class="badge (\w*)"/.exec(await text(badge(state)))![1]!
  assert.equal(await toneOf('subscribed'), 'good')
  assert.equal(await toneOf('unsubscribed'), '')
  assert.equal(await toneOf('bounced'), 'bad')
  assert.equal(await toneOf('suppressed'), 'waits')
})
