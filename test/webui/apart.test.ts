// Pages of strangers are made harmless in a worker thread with a budget.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Hono } from 'hono'
import { pageApart } from '../../src/webui/apart.ts'
import { harmless } from '../../src/webui/harmless.ts'
import { framed } from '../../src/webui/shown-html.ts'

const NO_PICTURES = { pictures: null, styled: false }

/** The CPU time of this thread for some work. */
async function mainTime(work: () => unknown): Promise<number> {
  const before = process.threadCpuUsage()
  await work()
  const { system, user } = process.threadCpuUsage(before)
  return user + system
}

test('a page is made harmless in a thread of its own, with the same result (D125)', async () => {
  const html = '<p>plain <b>text</b> of a mail </p>'.repeat(20_000)
  const { body } = await pageApart(html, NO_PICTURES)
  assert.equal(body, harmless(html))
  const apart = await mainTime(() => pageApart(html, NO_PICTURES))
  assert.ok(apart * 2 < (await mainTime(() => harmless(html))), 'the main thread reads it')
})

test('a page whose reading exceeds its budget is shown as its source, with the reason (D125)', async () => {
  const html = '<p>x'.repeat(90_000)
  const { body } = await pageApart(html, NO_PICTURES, 1)
  assert.match(body, /^<p>Reading this mail as a page takes too long; this is its source\.<\/p><pre>&lt;p&gt;x/)
  assert.doesNotMatch(body.slice(body.indexOf('<pre>') + 5, -'</pre>'.length), /</)
})

test('remote pictures get the address of this server, once each, and a campaign its tags (D81)', async () => {
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
