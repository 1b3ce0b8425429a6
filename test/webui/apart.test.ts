// Tests that untrusted HTML is sanitised in a worker thread with a time budget.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Hono } from 'hono'
import { pageApart } from '../../src/views/html/apart.ts'
import { harmless } from '../../src/views/html/harmless.ts'
import { framed } from '../../src/views/html/shown-html.ts'

const NO_PICTURES = { pictures: null, styled: false }

/** The least CPU time of this thread for some work in three tries, because garbage of other work may be collected. */
async function mainTime(work: () => unknown): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < 3; n++) {
    const before = process.threadCpuUsage()
    await work()
    const { system, user } = process.threadCpuUsage(before)
    times.push(user + system)
  }
  return Math.min(...times)
}

test('a worker thread sanitises a page with the same result (D125)', async () => {
  const html = '<p>plain <b>text</b> of a mail </p>'.repeat(20_000)
  const { body } = await pageApart(html, NO_PICTURES)
  assert.equal(body, harmless(html))
  const apart = await mainTime(() => pageApart(html, NO_PICTURES))
  assert.ok(apart * 2 < (await mainTime(() => harmless(html))), 'the main thread reads it')
})

test('shows the source and the reason if a page exceeds its time budget (D125)', async () => {
  const html = '<p>x'.repeat(90_000)
  const { body } = await pageApart(html, NO_PICTURES, 1)
  assert.match(body, /^<p>This email takes too long to render\. Its source is shown instead\.<\/p><pre>&lt;p&gt;x/)
  assert.doesNotMatch(body.slice(body.indexOf('<pre>') + 5, -'</pre>'.length), /</)
})

test('rewrites remote image URLs to this server and fills merge tags (D81)', async () => {
  const app = new Hono()
  app.get('/', (context) =>
    framed(
      context,
      {
        content: {
          subject: '',
          body_html: '<p style="color:red">{{name}}</p><img src="http://there.test/a?b=1&c=2" alt="A"><img src="x">',
          body_text: null,
        },
        values: { name: '<Ann>' },
      },
      { addressOf: (url) => `/picture?u=${encodeURIComponent(url)}&t=1`, styled: true },
    ),
  )
  const shown = await (await app.request('/')).text()
  assert.match(shown, /<p class="s0">&lt;Ann&gt;<\/p>/)
  assert.match(shown, /<img src="\/picture\?u=http%3A%2F%2Fthere\.test%2Fa%3Fb%3D1%26c%3D2&amp;t=1" alt="A" \/>/)
  assert.equal(shown.match(/<img/g)!.length, 1)
  assert.match(shown, /\.s0\{color:red\}/)
})
