// Tests the API reference: its pages contain everything in the OpenAPI document once, publicly and without JavaScript.
import assert from 'node:assert/strict'
import { brotliDecompressSync } from 'node:zlib'
import { describe, test } from 'node:test'
import { Reference, type JsonSchema, type OpenApi } from '../../src/console/reference/document.ts'
import { openApi, resourcesOf } from '../../src/http/server.ts'
import { loadParts } from '../../src/server/parts.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { plain } from '../kit/page.ts'
import { snippet } from '../kit/verifiers.ts'

const resources = resourcesOf(await loadParts())

const postrider = ofFile(() => startTestAppliance())
/** Every page by its path. */
const pages = new Map<string, string>()
const document = openApi(resources, 'https://mail.example.org') as OpenApi
const METHODS = ['get', 'post', 'patch', 'put', 'delete']

setUp(async () => {
  const { text } = await new Guest(postrider).open('/docs')
  pages.set('/docs', text)
  for (const [, path] of text.matchAll(/href="(\/docs\/[^"#]+)"/g))
    if (!pages.has(path!)) pages.set(path!, (await new Guest(postrider).open(path!)).text)
})

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([method]) => METHODS.includes(method))
    .map(([method, operation]) => ({ path, method, operation: operation as OpenApi['webhooks'][string]['post'] })),
)

/** The path of the one page that has an operation. */
function pageOf(id: string): string {
  const found = [...pages].filter(([, text]) => text.includes(` id="${id}">`)).map(([path]) => path)
  assert.equal(found.length, 1, `${id} is on ${found.join(', ')}`)
  return found[0]!
}
/** The part of a page that is about an operation. */
const partOf = (id: string): string => pages.get(pageOf(id))!.split(` id="${id}">`)[1]!.split('</section>', 1)[0]!

const resolve = (schema: JsonSchema): JsonSchema =>
  schema.$ref === undefined
    ? schema
    : resolve(document.components.schemas[schema.$ref.split('/').at(-1)!] as JsonSchema)
/** The names of all members of a schema, at any depth. */
function namesIn(given: JsonSchema | undefined, above: readonly JsonSchema[] = []): string[] {
  if (given === undefined) return []
  const schema = resolve(given)
  if (above.includes(schema)) return []
  const under = [...above, schema]
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([name, each]) => [name, ...namesIn(each, under)]),
    ...namesIn(schema.items, under),
    ...(schema.anyOf ?? []).flatMap((each) => namesIn(each, under)),
  ]
}
/** The names that the tables of a text explain, without the text before them. */
const explained = (text: string): Set<string> =>
  new Set(
    [...text.matchAll(/<th scope="row">\s*<code>([^<]+)<\/code>/g)].map(([, name]) => name!.split(/[.\]]/).at(-1)!),
  )

describe('the pages', () => {
  test('list each operation once, with path, scope and statuses', () => {
    assert.ok(operations.length > 80)
    for (const { method, operation, path } of operations) {
      const part = partOf(operation.operationId)
      const call = part.replaceAll('<wbr>', '')
      assert.ok(call.includes(`>${method.toUpperCase()}</b> <code>${path}</code>`), `${method} ${path}`)
      if (operation['x-scope']) assert.ok(part.includes(`<code>${operation['x-scope']}</code>`), path)
      for (const status of Object.keys(operation.responses)) assert.ok(part.includes(`<code>${status}</code>`), path)
    }
  })

  test('describe each parameter, request attribute and response attribute', () => {
    for (const { operation, path } of operations) {
      const { operationId: id, parameters = [], requestBody, responses } = operation
      const inPart = explained(partOf(id))
      for (const given of parameters) {
        const { name } = new Reference(document).resolve(given)
        assert.ok(partOf(id).includes(`<code>${name}</code>`), `${path}: ${name}`)
      }
      const [media] = Object.values(requestBody?.content ?? {})
      const data = media && resolve(media.schema).properties?.['data']
      const asked = data ? resolve(data).properties?.['attributes'] : media?.schema
      for (const name of namesIn(asked)) assert.ok(inPart.has(name), `${path}: ${name} of the request`)
      const onPage = explained(pages.get(pageOf(id))!)
      const good = Object.entries(responses).filter(([status]) => status.startsWith('2'))
      for (const [, given] of good) {
        const [answer] = Object.values(new Reference(document).resolve(given).content ?? {})
        const schema = answer && resolve(answer.schema)
        const one = schema?.properties?.['data'] && resolve(schema.properties['data'])
        const resource = one?.items ? resolve(one.items) : one
        const shown = resource ? resource.properties?.['attributes'] : schema
        for (const name of namesIn(shown)) assert.ok(onPage.has(name), `${path}: ${name} of the answer`)
      }
    }
  })

  test('list each event once, with its data and an example', () => {
    const text = pages.get('/docs/events')!
    for (const [type, { post }] of Object.entries(document.webhooks)) {
      assert.equal(text.split(` id="${type}">`).length, 2, type)
      const part = partOf(type)
      const [media] = Object.values(post.requestBody!.content)
      const known = explained(part)
      for (const name of namesIn(resolve(media!.schema).properties?.['data']))
        assert.ok(known.has(name), `${type}: ${name}`)
      assert.ok(part.includes(`"type": "${type}"`))
    }
  })

  test('list operations with an unknown tag among the extensions', () => {
    const [path, item] = ['/new-things', structuredClone(document.paths['/inboxes']!)]
    for (const method of ['get', 'post']) item[method]!.tags = ['new-things']
    const more = { ...document, tags: [...document.tags, { name: 'new-things', description: 'New.' }] }
    const reference = new Reference({ ...more, paths: { ...document.paths, [path]: item } })
    const { group, title } = reference.pages.at(-1)!
    assert.deepEqual([group, title], ['Extensions', 'New things'])
    assert.equal(reference.pages.find(({ name }) => name === 'contacts')!.group, 'Campaigns')
  })

  test('link to the previous and the next page', () => {
    const seen = ['/docs']
    for (;;) {
      const next = /rel="next" href="([^"]+)"/.exec(pages.get(seen.at(-1)!)!)?.[1]
      if (next === undefined) break
      assert.match(pages.get(next)!, new RegExp(`rel="prev" href="${seen.at(-1)!}"`))
      seen.push(next)
    }
    assert.deepEqual(seen.toSorted(), [...pages.keys()].toSorted())
  })
})

describe('a page', () => {
  test('is public, has the CSP of the console, and loads only files of this server', async () => {
    for (const [path, text] of pages) {
      const { headers, status } = await postrider.page(path)
      assert.equal(status, 200, path)
      assert.match(headers.get('content-security-policy')!, /default-src 'none'; script-src 'self'; style-src 'self'/)
      assert.doesNotMatch(headers.get('content-security-policy')!, /unsafe|blob:/, path)
      assert.doesNotMatch(text, /\son\w+="|<style|\sstyle="|<script(?![^>]*src="\/assets\/)/i, path)
      assert.doesNotMatch(text, /(?:src|href)="(?:https?:)?\/\//i, path)
      // Compressed, the largest one has a tenth of this.
      assert.ok(Buffer.byteLength(text) < 110_000, `${path} has ${Buffer.byteLength(text)} bytes`)
      assert.equal(text.match(/<h1>/g)?.length, 1, path)
      const ids = [...text.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id)
      assert.equal(new Set(ids).size, ids.length, `${path}: an id twice`)
      for (const [, id] of text.matchAll(/href="#([^"]+)"/g)) assert.ok(ids.includes(id), `${path}#${id}`)
    }
  })

  test('has no broken links', () => {
    for (const [path, text] of pages)
      for (const [, to, id] of text.matchAll(/href="(\/docs(?:\/[^"#]+)?)(?:#([^"]+))?"/g)) {
        assert.ok(pages.has(to!), `${path}: ${to}`)
        if (id !== undefined) assert.ok(pages.get(to!)!.includes(` id="${id}"`), `${path}: ${to}#${id}`)
      }
  })

  test('shows one code sample at a time, even without JavaScript', () => {
    for (const [path, text] of pages)
      for (const [tabs] of text.matchAll(/<fieldset class="languages">[^]*?<\/fieldset>/g)) {
        assert.equal(tabs.match(/\schecked\b/g)?.length, 1, path)
        const languages = [...tabs.matchAll(/<input[^>]*value="(\w+)"/g)].map(([, language]) => language)
        assert.deepEqual(
          [...tabs.matchAll(/data-language="(\w+)"/g)].map(([, language]) => language),
          languages,
          path,
        )
        assert.ok(languages.length >= 4, path)
      }
  })

  test('is cacheable and compressed', async () => {
    const plainly = await postrider.page('/docs/inboxes')
    const tag = plainly.headers.get('etag')!
    const packed = await postrider.page('/docs/inboxes', { headers: { 'accept-encoding': 'gzip, br' } })
    assert.equal(packed.headers.get('content-encoding'), 'br')
    assert.equal(brotliDecompressSync(await packed.arrayBuffer()).toString(), await plainly.text())
    const again = await postrider.page('/docs/inboxes', { headers: { 'if-none-match': tag } })
    assert.deepEqual([again.status, await again.text()], [304, ''])
    const dark = await postrider.page('/docs/inboxes', { headers: { 'if-none-match': tag, cookie: 'theme=dark' } })
    assert.equal(dark.status, 200)
    assert.match(await dark.text(), /<html lang="en" data-theme="dark">/)
    assert.match(dark.headers.get('vary')!, /Cookie/)
  })

  test('that does not exist is 404: a page for browsers and one line for other clients', async () => {
    for (const path of ['/docs/nothing', '/docs/__proto__', '/docs/%3Cscript%3E']) {
      const shown = await postrider.page(path, { headers: { accept: 'text/html' } })
      assert.equal(shown.status, 404, path)
      assert.match(await shown.text(), /no page with this name/)
    }
  })

  test('shows the URL of this server, even after it changed', async () => {
    await using other = await startTestAppliance()
    for (const url of ['https://one.example', 'https://two.example:8443']) {
      other.config.http.public_url = url
      const text = await (await other.page('/docs/tokens')).text()
      assert.ok(text.includes(`curl -X POST '${url}/api/v1/tokens'`))
    }
  })

  test('shows the rate limit of a token', async () => {
    assert.match(pages.get('/docs')!, /has no rate limit/)
    await using other = await startTestAppliance({ config: { api: { rate_limit: 7, rate_burst: 1500 } } })
    assert.match(await (await other.page('/docs')).text(), /1,500 requests at once, and 7 per second/)
  })
})

describe('the search', () => {
  const found = async (words: string): Promise<string> =>
    (await new Guest(postrider).open(`/docs?q=${encodeURIComponent(words)}`)).text
  const links = (text: string): string[] =>
    [...text.split('<main', 2)[1]!.matchAll(/href="(\/docs[^"]+)"/g)].map(([, to]) => to!)

  test('finds operations by name and path, and events', async () => {
    assert.deepEqual(links(await found('update AUDIENCE')), ['/docs/audiences', '/docs/audiences#updateAudience'])
    assert.ok(links(await found('/inboxes')).includes('/docs/inboxes#createInbox'))
    assert.ok(links(await found('email.bounced')).includes('/docs/events#email.bounced'))
  })

  test('reports when there are no results, and escapes the query', async () => {
    const text = await found('"><script>alert(1)</script>')
    assert.match(text, /No page or operation matches/)
    assert.doesNotMatch(text, /<script>alert/)
    assert.deepEqual(links(text), [])
  })
})

test('the quick start verifies signatures with the functions of docs/webhooks.md', () => {
  const marks = { Node: 'ts', Python: 'python', PHP: 'php', Go: 'go' }
  for (const [language, mark] of Object.entries(marks)) {
    const [, shown] = new RegExp(`<pre[^>]* id="start-verify-${language}-code"[^>]*>([^]*?)</pre>`).exec(
      pages.get('/docs')!,
    )!
    assert.equal(plain(shown!), snippet(mark), language)
  }
})
