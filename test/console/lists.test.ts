// Lists in the console: headers that sort, checkboxes with actions on the selected rows, and files with a hash of their
// content in their paths.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest, Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { receive } from '../kit/sender.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger({
  answer: (command) => (/^RCPT TO:<slow/i.test(command) ? '451 4.7.1 later' : undefined),
})
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))
const kit = campaignKit(() => postrider)
let ann: Guest
let bob: Guest
let domain: string

setUp(async () => {
  ann = await signedIn(postrider)
  bob = await signedIn(postrider, postrider.other.email)
  domain = (await postrider.api('GET', '/domains')).body.data[0].id
})

const post = async (to: string): Promise<string> => {
  const attributes = { from: 'ann@here.test', to, subject: 'A receipt', html: '<p>Thanks</p>' }
  return (await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))).body.data.id
}
const suppress = (emails: readonly string[], reason = 'manual') =>
  postrider.api(
    'POST',
    '/suppression-imports',
    document(
      'suppression-imports',
      { suppressions: emails.map((email) => ({ email, reason })) },
      { relationships: { domain: { data: { type: 'domains', id: domain } } } },
    ),
  )
const suppressed = async (): Promise<Map<string, string>> =>
  new Map(
    (await postrider.api('GET', '/suppressions?page[size]=100')).body.data.map(
      ({ attributes, id }: { id: string; attributes: { email: string } }) => [attributes.email, id],
    ),
  )

/** The cells of a column, in the order of the rows. */
const cells = ({ text }: Shown, title: string): string[] =>
  [...text.matchAll(new RegExp(`data-title="${title}">([^]*?)</td`, 'g'))].map(([, cell]) =>
    cell!.replaceAll(/<[^>]*>/g, '').trim(),
  )
/** The links of the sorting headers, with the state of each column. */
const headers = ({ text }: Shown): Record<string, readonly [state: string, to: string]> =>
  Object.fromEntries(
    [...text.matchAll(/<th[^>]* aria-sort="(\w+)"[^>]*><a href="([^"]*)"[^>]*>([^<]*)</g)].map(
      ([, state, to, title]) => [title!, [state!, to!.replaceAll('&amp;', '&')]] as const,
    ),
  )
/** Selects rows and performs an action on them. */
const choose = (guest: Guest, page: Shown, bulk: string, row: string[]): Promise<Shown> =>
  guest.send(page, 'bulk', { bulk, row })

test('the headers of an audience sort its contacts, page by page', async () => {
  const audience = await kit.audience({ id: domain })
  await kit.fill(
    audience,
    Array.from({ length: 60 }, (_, at) => ({ email: `p${(at * 37) % 60}@there.test`, name: `N${at % 7}` })),
  )
  const newest = await ann.open(`/audiences/${audience}?q=there`)
  assert.deepEqual(
    Object.entries(headers(newest)).map(([title, [state]]) => [title, state]),
    [
      ['Email address', 'none'],
      ['Name', 'none'],
      ['Status', 'none'],
      ['Added', 'descending'],
    ],
  )
  const [, to] = headers(newest)['Email address']!
  assert.equal(to, `/audiences/${audience}?q=there&sort=email`)
  const first = await ann.open(to)
  const reverse = headers(first)['Email address']!
  assert.deepEqual(reverse, ['ascending', `/audiences/${audience}?q=there&sort=-email`])
  const [, next] = /href="([^"]*)" rel="next">Next</.exec(first.text)!
  const second = await ann.open(next!.replaceAll('&amp;', '&'))
  const all = [...cells(first, 'Email address'), ...cells(second, 'Email address')]
  assert.equal(all.length, 60)
  assert.deepEqual(all, all.toSorted())
  assert.deepEqual(cells(await ann.open(reverse[1]), 'Email address'), all.toReversed().slice(0, 50))
  // The tabs and the search keep the order, and a new order starts at the first page.
  assert.match(second.text, /href="[^"]*status=subscribed&amp;q=there&amp;sort=email"/)
  assert.match(second.text, /<input type="hidden" name="sort" value="email"/)
  assert.doesNotMatch(headers(second)['Name']![1], /cursor/)
})

test('an order that the API does not offer is ignored on pages, and the API names those that it offers', async () => {
  await post('ada@there.test')
  for (const path of ['/mail', '/suppressions', '/campaigns', '/queue', '/audiences', '/webhooks'])
    for (const sort of ['nothing', 'status,status', '-', 'constructor', '%00'])
      assert.equal((await ann.open(`${path}?sort=${sort}`)).status, 200, `${path} ${sort}`)
  assert.equal(cells(await ann.open('/mail?sort=nothing'), 'To').length > 0, true)
  const { body, status } = await postrider.api('GET', '/suppressions?sort=nothing')
  assert.equal(status, 400)
  assert.match(body.errors[0].detail, /Use email, created_at, updated_at\./)
})

test('the queue is sorted by domain and by the next attempt', async () => {
  for (const name of ['b', 'c', 'a']) {
    postrider.route(`${name}.test`)
    await post(`slow@${name}.test`)
  }
  await until(async () => cells(await ann.open('/queue'), 'Domain').length === 3, 'three domains')
  const list = async (sort: string) => cells(await ann.open(`/queue?sort=${sort}`), 'Domain')
  assert.deepEqual(await list('domain'), ['a.test', 'b.test', 'c.test'])
  assert.deepEqual(await list('-domain'), ['c.test', 'b.test', 'a.test'])
  assert.equal((await list('-next_attempt_at,domain')).length, 3)
  const ask = (query: string) => postrider.api('GET', `/lanes?${query}`)
  assert.equal((await ask('sort=response')).body.errors[0].code, 'unsupported_sort')
  const { body } = await ask('sort=-domain&page[size]=2')
  assert.deepEqual(
    body.data.map(({ id }: { id: string }) => id),
    ['c.test', 'b.test'],
  )
  const rest = await ask(`sort=-domain&page[size]=2&page[cursor]=${encodeURIComponent(body.meta.next_cursor)}`)
  assert.deepEqual(
    rest.body.data.map(({ id }: { id: string }) => id),
    ['a.test'],
  )
  const page = await ann.open('/queue?sort=domain')
  const held = await choose(ann, page, 'hold', ['a.test a.test', 'b.test b.test'])
  assert.match(held.text, /role="status">Held 2 domains\.</)
  assert.equal((await postrider.api('GET', '/lanes?filter[domain]=a.test')).body.data[0].attributes.hold, true)
  assert.match((await choose(ann, page, 'release', ['a.test a.test', 'b.test b.test'])).text, /Released 2 domains\./)
})

test('an operator retries the selected emails, and sees which of them were not queued and why', async () => {
  const [slow, done] = [await post('slow-one@there.test'), await post('quick@there.test')]
  await until(async () => {
    const statusOf = async (id: string) => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes
    return (await statusOf(done)).status === 'delivered' && (await statusOf(slow)).recipients[0].attempts === 1
  }, 'the first attempts')
  const page = await ann.open('/mail?q=receipt')
  assert.match(page.text, new RegExp(`form="bulk" name="row" value="${slow} slow-one@there.test"`))
  const mixed = await choose(ann, page, 'retry', [`${slow} slow-one@there.test`, `${done} quick@there.test`])
  assert.match(mixed.text, /role="alert">\s*<p>Retrying 1 of 2 emails\.<\/p>/)
  assert.match(mixed.text, /<p>quick@there\.test: No recipient of this email is in a status that allows/)
  await until(
    async () =>
      (await postrider.api('GET', `/outbound-emails/${slow}`)).body.data.attributes.recipients[0].attempts === 2,
    'the second attempt',
  )
  // Other users have no such action, and cannot send its form.
  const theirs = await bob.open('/mail')
  assert.doesNotMatch(theirs.text, /value="retry"/)
  assert.equal((await bob.open('/mail', { method: 'POST', body: 'action=bulk&bulk=retry' })).status, 403)
})

test('the page of an audience shows and changes no contact of another audience', async () => {
  const [one, other] = [await kit.audience({ id: domain }), await kit.audience({ id: domain })]
  await kit.fill(one, ['mine@there.test'])
  await kit.fill(other, ['theirs@there.test'])
  const [contact] = (await postrider.api('GET', `/audiences/${other}/contacts`)).body.data
  const [mine] = (await postrider.api('GET', `/audiences/${one}/contacts`)).body.data
  const rows = [`${contact.id} theirs@there.test`, `${mine.id} mine@there.test`]
  const refused = await ann.send(await ann.open(`/audiences/${one}`), 'bulk', {
    bulk: 'remove',
    sure: 'yes',
    row: rows,
  })
  assert.match(refused.text, /Removed 1 of 2 contacts\.[^]*theirs@there\.test: It is not in this list\./)
  assert.equal((await postrider.api('GET', `/contacts/${mine.id}`)).status, 404)
  assert.equal((await ann.open(`/audiences/${other}/contacts/${contact.id}`)).status, 200)
  const path = `/audiences/${one}/contacts/${contact.id}`
  assert.equal((await ann.open(path)).status, 404)
  const page = await ann.open(`/audiences/${other}/contacts/${contact.id}`)
  assert.equal((await ann.send({ ...page, path }, 'remove')).status, 404)
  assert.equal((await postrider.api('GET', `/contacts/${contact.id}`)).status, 200)
})

test('the download of selected rows has no others', async () => {
  const [one, two, other] = [await post('one@there.test'), await post('two@there.test'), await post('x@there.test')]
  const rows = [one, two].map((id) => `${id} someone`)
  const file = await choose(ann, await ann.open('/mail'), 'export', rows)
  assert.match(file.headers.get('content-type')!, /^text\/csv/)
  assert.equal(file.text.trim().split('\r\n').length, 3)
  assert.ok(file.text.includes(one) && file.text.includes(two) && !file.text.includes(other))
  // The ids of another account find nothing.
  const [head, ...none] = (await bob.open(`/mail.csv?ids=${one}`)).text.trim().split('\r\n')
  assert.match(head!, /^accepted_at/)
  assert.deepEqual(none, [])
})

test('selected suppressions are removed after a confirmation, which works without a script', async () => {
  await suppress(['a@there.test', 'b@there.test', 'c@there.test'])
  await suppress(['bounced@there.test'], 'hard_bounce')
  const before = await suppressed()
  const rows = ['a@there.test', 'b@there.test', 'bounced@there.test'].map((email) => `${before.get(email)} ${email}`)
  const question = await choose(ann, await ann.open('/suppressions?reason=manual'), 'reactivate', rows)
  assert.match(question.text, /Reactivate 3 addresses\? They can receive your email again\./)
  assert.equal((await suppressed()).size, before.size)
  const done = await choose(ann, question, 'reactivate', rows)
  assert.match(done.text, /Reactivated 3 addresses\./)
  assert.deepEqual(
    ['a@there.test', 'b@there.test', 'c@there.test', 'bounced@there.test'].filter((email) => before.get(email)),
    ['a@there.test', 'b@there.test', 'c@there.test', 'bounced@there.test'],
  )
  const after = await suppressed()
  assert.deepEqual(
    rows.map((row) => after.has(row.split(' ')[1]!)),
    [false, false, false],
  )
  assert.ok(after.has('c@there.test'))
})

test('a user who is not an operator reactivates what the API allows, and sees the reason for the rest', async () => {
  const { id } = await postrider.activeDomain('theirs.test', postrider.other)
  const added = async (emails: string, reason: string) =>
    bob.send(await bob.open('/suppressions/new'), 'add', { domain: id, emails, reason })
  await added('manual@there.test', 'manual')
  await added('hard@there.test', 'hard_bounce')
  const page = await bob.open('/suppressions')
  const rows = [...page.text.matchAll(/name="row" value="([^"]*)"/g)].map(([, value]) => value!)
  assert.equal(rows.length, 2)
  const done = await choose(bob, await choose(bob, page, 'reactivate', rows), 'reactivate', rows)
  assert.match(done.text, /Reactivated 1 of 2 addresses\./)
  assert.match(done.text, /hard@there\.test: hard@there\.test is suppressed permanently/)
})

test('selected contacts are unsubscribed, removed or downloaded', async () => {
  const audience = await kit.audience({ id: domain }, 'Choosers')
  await kit.fill(audience, ['one@there.test', 'two@there.test', 'three@there.test'])
  const here = `/audiences/${audience}`
  const page = await ann.open(here)
  const rows = [...page.text.matchAll(/name="row" value="([^"]*)"/g)].map(([, value]) => value!)
  const some = rows.filter((row) => !row.endsWith(' three@there.test'))
  const left = await choose(ann, await choose(ann, page, 'unsubscribe', some), 'unsubscribe', some)
  assert.match(left.text, /Unsubscribed 2 contacts\./)
  assert.equal(left.text.match(/unsubscribed<\/span/g)?.length, 2)
  assert.equal((await choose(ann, page, 'export', some)).text.trim().split('\r\n').length, 3)
  assert.match(
    (await choose(ann, await choose(ann, page, 'remove', some), 'remove', some)).text,
    /Removed 2 contacts\./,
  )
  assert.deepEqual(cells(await ann.open(here), 'Email address'), ['three@there.test'])
})

test('selected campaigns are paused, resumed and deleted as far as their status allows', async () => {
  const audience = await kit.audience({ id: domain }, 'Readers of campaigns')
  await kit.fill(audience, ['reader@there.test'])
  const ids = [await kit.draft(audience, { name: 'One' }), await kit.draft(audience, { name: 'Two' })]
  const rows = ids.map((id, at) => `${id} ${['One', 'Two'][at]}`)
  const page = await ann.open('/campaigns')
  const paused = await choose(ann, page, 'pause', rows)
  assert.match(paused.text, /Paused 0 of 2 campaigns\./)
  assert.match(paused.text, /<p>One, Two: /)
  assert.match(
    (await choose(ann, await choose(ann, page, 'remove', rows), 'remove', rows)).text,
    /Deleted 2 campaigns\./,
  )
  for (const id of ids) assert.equal((await postrider.api('GET', `/campaigns/${id}`)).status, 404)
})

test('a form without rows, with more rows than a page, or with 10,000 rows changes nothing and says why', async () => {
  await suppress(['kept@there.test'])
  const page = await ann.open('/suppressions')
  const before = (await suppressed()).size
  assert.match((await choose(ann, page, 'reactivate', [])).text, /role="alert">\s*<p>Select at least one address\./)
  const id = (await suppressed()).get('kept@there.test')!
  const many = (count: number) => [`${id} kept`, ...Array.from({ length: count - 1 }, (_, at) => `id-${at} name`)]
  assert.match((await choose(ann, page, 'reactivate', many(51))).text, /Select at most 50 addresses at a time\./)
  const huge = await choose(ann, page, 'reactivate', many(10_000))
  assert.equal(huge.status, 413)
  assert.match(huge.text, /more than 1000 fields/)
  assert.match((await choose(ann, page, 'constructor', [`${id} kept`])).text, /This action is not available\./)
  assert.equal((await suppressed()).size, before)
  // A row that is gone, or of another account, is named.
  const gone = await choose(ann, await choose(ann, page, 'reactivate', ['nothing gone@x']), 'reactivate', [
    'nothing gone@x',
  ])
  assert.match(gone.text, /Reactivated 0 of 1 address\.[^]*gone@x: No such resource/)
})

test('rows begin with their link, and breadcrumbs end with a name', async () => {
  const id = await post('linked@there.test')
  const { text } = await ann.open('/mail')
  assert.match(text, new RegExp(`<tr>\\s*<td class="k-box"[^]*?</td>\\s*<td[^>]*><a href="/mail/${id}">linked@there`))
  const [, crumbs] = /aria-label="Breadcrumb">([^]*?)<\/nav>/.exec((await ann.open(`/mail/${id}`)).text)!
  assert.equal(crumbs!.replaceAll(/<[^>]*>/g, '').trim(), 'Emails')
  const audience = await kit.audience({ id: domain }, 'Deep')
  const [, two] = /aria-label="Breadcrumb">([^]*?)<\/nav>/.exec(
    (await ann.open(`/audiences/${audience}/imports`)).text,
  )!
  assert.equal(
    two!
      .replaceAll(/<[^>]*>/g, '')
      .replaceAll(/\s+/g, ' ')
      .trim(),
    'Audiences / Deep',
  )
})

test('an inbox has no columns that are empty on its page, and shows unread messages in bold only', async () => {
  const made = await postrider.api(
    'POST',
    '/inboxes',
    document('inboxes', { name: 'Support', address: 'help@here.test' }),
  )
  await receive(postrider, { to: 'help@here.test', message: 'From: ada@there.test\nSubject: Where?\n\nMonday.\n' })
  const { text } = await ann.open(`/inboxes/${made.body.data.id}`)
  assert.deepEqual(
    [...text.matchAll(/<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]*)/g)].map(([, title]) => title),
    ['From', 'Subject', 'Received'],
  )
  assert.match(text, /<strong>ada@there\.test<\/strong>/)
  assert.doesNotMatch(text, /badge">new</)
})

test('scripts, styles and fonts have a hash in their paths and are kept for a year', async () => {
  // From the sources, the hash is known after the first request.
  for (const name of ['console.css', 'console.js']) await postrider.page(`/assets/${name}`)
  const { text } = await ann.open('/mail')
  const paths = [...text.matchAll(/(?:href|src)="(\/assets\/[^"]*)"/g)].map(([, path]) => path!)
  assert.deepEqual(
    paths.map((path) => path.replace(/\.[\w-]{22}\./, '.HASH.')),
    ['/assets/inter-latin.HASH.woff2', '/assets/console.HASH.css', '/assets/console.HASH.js'],
  )
  for (const path of paths) {
    const { headers: given, status } = await postrider.page(path)
    assert.equal(status, 200, path)
    assert.equal(given.get('cache-control'), 'public, max-age=31536000, immutable', path)
  }
  // The font of the styles is the one that the page preloads.
  assert.ok((await (await postrider.page(paths[1]!)).text()).includes(`url(${paths[0]})`))
  // A page of another version gets the present content, which browsers check again.
  for (const old of ['/assets/console.css', `/assets/console.${'x'.repeat(22)}.css`]) {
    const { headers: given, status } = await postrider.page(old)
    assert.deepEqual([status, given.get('cache-control')], [200, 'no-cache'], old)
  }
  assert.equal((await postrider.page(`/assets/nothing.${'x'.repeat(22)}.css`)).status, 404)
})

test('a page of a resource that does not exist, or belongs to another account, is 404', async () => {
  const audience = await kit.audience({ id: domain })
  const campaign = await kit.draft(audience)
  const pages = [
    ...['', '/segments', '/segments/new', '/imports', '/import', '/consents', '/suppressed', '/export.csv'].map(
      (page) => [`/audiences/${audience}${page}`, audience] as const,
    ),
    ...['', '/recipients', '/content', '/settings', '/edit', '/send', '/figures.csv', '/recipients.csv'].map(
      (page) => [`/campaigns/${campaign}${page}`, campaign] as const,
    ),
    ...['', '/reports', '/reports/received', '/reports/tls'].map(
      (page) => [`/domains/here.test${page}`, 'here'] as const,
    ),
  ]
  for (const [path, id] of pages) {
    const own = await ann.open(path)
    assert.ok(own.status < 400, `${path}: ${own.status}`)
    assert.equal((await bob.open(path)).status, 404, path)
    const missing = id === 'here' ? 'nowhere' : '01999999-9999-7999-8999-999999999999'
    assert.equal((await ann.open(path.replace(id, missing))).status, 404, `${path} with a missing id`)
  }
})
