// The console, the command and the API share one table of titles and status values (D71, D127): unsubscribed contacts
// stay unsubscribed in all three.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { audienceById } from '../../src/campaigns/audiences.ts'
import { importContactsWithStatus, noCounts, STANDINGS } from '../../src/campaigns/import-with-status.ts'
import { contactsIn } from '../../src/lists/contact-columns.ts'
import { openSource } from '../../src/lists/csv-source.ts'
import { importList, type Kind } from '../../src/lists/import.ts'
import { listIn } from '../../src/lists/rows.ts'
import { suppressionsIn } from '../../src/lists/suppression-columns.ts'
import { STANDING_WORDS } from '../../src/lists/words.ts'
import { importSuppressions } from '../../src/suppressions/import-with-status.ts'
import type { Domain } from '../../src/domains/find.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { fieldsOf } from '../kit/page.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import type { Guest, Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'

const folder = temporaryDirectory('lists')
let ann: Guest
const kit = campaignKit(() => postrider)
let domains = 0

const postrider = ofFile(() => startTestAppliance())

setUp(async () => void (ann = await signedIn(postrider)))

/** Titles, the cell of an unsubscribed contact, and the file name. */
const LEFT: readonly [title: string, cell: string, file?: string][] = [
  ['status', 'unsubscribed'],
  ['Status', 'Opted out'],
  ['Subscription status', 'Unsubscribed'],
  ['Email Marketing Status', 'unsubscribed'],
  ['email_status', 'bounced'],
  ['Opted out', 'yes'],
  ['Email Opt Out', '1'],
  ['Accepts Marketing', 'no'],
  ['unsubscribed', '2024-05-06 07:08:09'],
  ['Unsubscribed at', '2024-05-06'],
  ['email_blacklist', 'TRUE'],
  ['blacklisted', 'yes'],
  ['Do not email', 'x'],
  ['Hard bounced', '1'],
  ['Marked as spam', 'true'],
  ['UNSUB_TIME', '2024-06-01 10:00:00'],
  ['CLEAN_TIME', '2024-06-01 10:00:00'],
  ['UNSUB_TIME', 'June 1st'],
  ['CLEAN_TIME', '0'],
  ['UNSUB_TIME,reason', '2024-06-01 10:00:00,too many mails'],
  ['City', 'Bergen', 'unsubscribed_email_audience_export_0a1b.csv'],
  ['City', 'Bergen', 'cleaned_email_audience_export_0a1b.csv'],
  ['City', 'Bergen', 'nonsubscribed_email_audience_export_0a1b.csv'],
]

interface Listed {
  attributes: Record<'email' | 'status' | 'reason' | 'scope', string>
}

interface Outcome {
  people: string[]
  suppressed: string[]
}

/** The contacts of an audience in a new domain, and the domain's suppressions, after `bring`. */
async function outcome(bring: (audience: string, domain: Domain) => Promise<unknown>): Promise<Outcome> {
  const domain: Domain = await postrider.activeDomain(`d${++domains}.test`)
  const audience = await kit.audience(domain)
  await bring(audience, domain)
  const people = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  const entries = (await postrider.api('GET', `/suppressions?filter%5Bdomain%5D=${domain.id}&page%5Bsize%5D=100`)).body
    .data
  return {
    people: people.map(({ attributes }: Listed) => `${attributes.email} ${attributes.status}`).toSorted(),
    suppressed: entries
      .map(({ attributes }: Listed) => `${attributes.email} ${attributes.reason} ${attributes.scope}`)
      .toSorted(),
  }
}

/** A form of the console with a file. */
async function uploadTo(path: string, fields: Record<string, string>, csv: string, name: string) {
  const page = await ann.open(path)
  const body = new FormData()
  body.set('proof', /name="proof" value="([^"]+)"/.exec(page.text)![1]!)
  for (const [field, value] of Object.entries(fields)) body.set(field, value)
  body.set('file', new File([csv], name, { type: 'text/csv' }))
  return ann.open(path, { method: 'POST', body })
}

/** The page with the columns of a file, after the first step of an import. */
const upload = (audience: string, csv: string, name: string, from = '') =>
  uploadTo(`/audiences/${audience}/import`, { action: 'columns', from }, csv, name)

/** A file through all steps of the console, with the columns as they are guessed; the page of the import. Lines
 *  with a word that nobody knows are refused, as the command does. */
async function byConsole(audience: string, csv: string, name: string, from = ''): Promise<Shown> {
  const columns = await upload(audience, csv, name, from)
  const chosen = Object.entries(fieldsOf(columns.text, 'check')!).map(([field, value]) => [
    field,
    field.startsWith('word:') && value === '' ? 'refuse' : value,
  ])
  const preview = await ann.send(columns, 'check', Object.fromEntries(chosen) as Record<string, string>)
  const fields = fieldsOf(preview.text, 'import')
  return fields === undefined ? preview : ann.send(preview, 'import', fields)
}

/** Imports with the command, on the running server. */
async function byCommand<Columns extends { headless: boolean }, Item, Outcome extends string>(
  csv: string,
  name: string,
  how: {
    kind: Kind<Columns, Item>
    counts: Record<Outcome | 'skipped', number>
    importBatch: (lot: Item[]) => Promise<{ counts: Record<Outcome | 'skipped', number> }>
  },
): Promise<void> {
  const path = join(folder, name)
  writeFileSync(path, csv)
  const { clock } = postrider.appliance.deps
  const source = await openSource(path, folder, clock.now())
  try {
    const list = Object.assign(await listIn(source), { source })
    const bar = { add: () => {}, end: () => {} }
    await importList({ list, bar: bar as never, clock, ...how })
  } finally {
    source.close()
  }
}

type From = 'mailchimp' | 'brevo' | 'sendgrid' | undefined

/** The interfaces for contact lists. */
const PEOPLE: Record<string, (audience: string, csv: string, file: string) => Promise<unknown>> = {
  console: (audience, csv, file) => byConsole(audience, csv, file),
  command: (id, csv, file) => {
    const { deps } = postrider.appliance
    const audience = audienceById(deps.store, id)!
    const importBatch = (lot: Parameters<typeof importContactsWithStatus>[2][number][]) =>
      importContactsWithStatus(deps, audience, lot, { consent: { state: 'imported', source: 'cli' } })
    return byCommand(csv, file, { kind: contactsIn({ map: new Map() }), counts: noCounts(), importBatch })
  },
  API: async (audience, csv, file) => {
    const given = document('contacts', { rows: objectsIn(csv), file })
    const { body, status } = await postrider.api('POST', `/audiences/${audience}/list-imports`, given)
    assert.equal(status, 200, JSON.stringify(body))
  },
}

/** The interfaces for suppression lists. */
const SUPPRESSED: Record<string, (domain: Domain, csv: string, file: string, from?: From) => Promise<unknown>> = {
  console: ({ id }, csv, file, from) =>
    uploadTo('/suppressions/new', { action: 'add', domain: id, reason: 'list_import', from: from ?? '' }, csv, file),
  command: (domain, csv, file, from) => {
    const { deps } = postrider.appliance
    const kind = suppressionsIn({ from }, deps.clock.now())
    const counts = { created: 0, updated: 0, skipped: 0 }
    const importBatch = async (lot: Parameters<typeof importSuppressions>[2][number][]) => ({
      counts: await importSuppressions(deps, domain, lot),
    })
    return byCommand(csv, file, { kind, counts, importBatch })
  },
  API: async ({ id }, csv, file, from) => {
    const given = {
      type: 'suppression-imports',
      attributes: { rows: objectsIn(csv), file, ...(from === undefined ? {} : { from }) },
      relationships: { domain: { data: { type: 'domains', id } } },
    }
    const { body, status } = await postrider.api('POST', '/suppression-imports', { data: given })
    assert.equal(status, 201, JSON.stringify(body))
  },
}

/** The rows of a simple CSV by their titles, as the API accepts them. */
function objectsIn(csv: string): Record<string, string>[] {
  const [titles, ...rows] = csv
    .trimEnd()
    .split('\n')
    .map((line) => line.split(','))
  return rows.map((row) => Object.fromEntries(row.map((cell, at) => [titles![at]!, cell])))
}

/** The result of an import. Checks that it is the same in all interfaces. */
async function same(ways: Record<string, (audience: string, domain: Domain) => Promise<unknown>>): Promise<Outcome> {
  const outcomes: [string, Outcome][] = []
  for (const [name, bring] of Object.entries(ways)) outcomes.push([name, await outcome(bring)])
  for (const [name, each] of outcomes) assert.deepEqual(each, outcomes[0]![1], name)
  return outcomes[0]![1]
}

const samePeople = (csv: string, file: string) =>
  same(Object.fromEntries(Object.entries(PEOPLE).map(([name, way]) => [name, (audience) => way(audience, csv, file)])))

const sameSuppressions = (csv: string, file: string, from?: From) =>
  same(
    Object.fromEntries(
      Object.entries(SUPPRESSED).map(([name, way]) => [name, (_, domain) => way(domain, csv, file, from)]),
    ),
  )

for (const [title, cell, file = 'list.csv'] of LEFT)
  test(`"${title}" with "${cell}" in ${file}: console, command and API have the same result and subscribe no contact (D71, D127)`, async () => {
    const csv = `email,${title}\nbob@there.test,${cell}\n`
    const { people, suppressed } = await samePeople(csv, file)
    assert.ok(!people.some((person) => person.endsWith(' subscribed')), people.join())
    const listed = await sameSuppressions(csv, file)
    assert.deepEqual(listed.people, [])
    // Contacts that never confirmed have not unsubscribed, but an import of suppressions blocks them.
    assert.deepEqual(listed.suppressed, suppressed.length > 0 ? suppressed : ['bob@there.test list_import all'])
  })

test('subscribes only contacts without an unsubscribe time, in console, command and API (D71, D127)', async () => {
  const gone = '2024-06-01 10:00:00'
  const csv = `email,UNSUB_TIME,CLEAN_TIME\nann@there.test,,\nbob@there.test,${gone},\ncid@there.test,,${gone}\ndan@there.test,${gone},${gone}\n`
  const { people, suppressed } = await samePeople(csv, 'list.csv')
  assert.deepEqual(people, [
    'ann@there.test subscribed',
    'bob@there.test unsubscribed',
    'cid@there.test bounced',
    'dan@there.test bounced',
  ])
  assert.deepEqual((await sameSuppressions(csv, 'list.csv')).suppressed, suppressed)
  const one = await samePeople(`email,UNSUB_TIME\nann@there.test,\nbob@there.test,${gone}\n`, 'list.csv')
  assert.deepEqual(one.people, ['ann@there.test subscribed', 'bob@there.test unsubscribed'])
})

test('applies every known status value equally in console, command and API (D71, D127)', async () => {
  const rows = STANDINGS.flatMap((standing) =>
    STANDING_WORDS[standing].map((word) => `${standing}.${word}@a.test,${word}`),
  )
  const { people, suppressed } = await samePeople(`email,status\n${rows.join('\n')}\n`, 'list.csv')
  assert.ok(people.length > 20)
  for (const person of people) {
    const [, standing, status] = /^(\w+)\.\S+ (\w+)$/.exec(person)!
    assert.equal(status, standing)
  }
  assert.deepEqual((await sameSuppressions(`email,status\n${rows.join('\n')}\n`, 'list.csv')).suppressed, suppressed)
  const listed = await sameSuppressions(`email,reason\n${rows.join('\n')}\n`, 'list.csv')
  assert.deepEqual(listed.suppressed, suppressed)
})

test('imports suppression lists of other services equally in console, command and API (D127)', async () => {
  const reasons =
    'email,reason,detail,expires_at\nann@there.test,hard-bounce,,\nbob@there.test,SPAM,,\ncid@there.test,unsub,,\ndan@there.test,soft-bounce,,2999-01-01T00:00:00Z\neve@there.test,soft-bounce,,2000-01-01T00:00:00Z\n'
  assert.deepEqual((await sameSuppressions(reasons, 'list.csv', 'mailchimp')).suppressed, [
    'ann@there.test hard_bounce all',
    'bob@there.test complaint all',
    'cid@there.test unsubscribe marketing',
    'dan@there.test soft_bounce all',
  ])
  const bounces = 'status,reason,email,created\n5.1.1,550 no such user,ann@there.test,1\n4.0.0,later,bob@there.test,1\n'
  assert.deepEqual((await sameSuppressions(bounces, 'suppression_bounces.csv', 'sendgrid')).suppressed, [
    'ann@there.test hard_bounce all',
  ])
})

test('names invalid rows of a suppression list in the console, and rejects an unknown list (D127)', async () => {
  const rows = Array.from({ length: 19 }, (_, n) => `n${n}@there.test,bounced`).join('\n')
  const { suppressed } = await outcome(async (_, domain) => {
    const { text } = (await SUPPRESSED['console']!(
      domain,
      `email,reason\n${rows}\nx@there.test,because\n`,
      'a.csv',
    )) as {
      text: string
    }
    assert.match(text, /19 added, 0 widened in scope, 1 skipped/)
    assert.match(text, /Line 21: has the unknown reason &quot;because&quot;/)
    const refused = (await SUPPRESSED['console']!(domain, 'email,reason\ny@there.test,because\n', 'a.csv')) as {
      text: string
    }
    assert.match(refused.text, /The file has 1 invalid row out of 1 \(line 2 has the unknown reason .*fix it\./)
  })
  assert.equal(suppressed.length, 19)
})

test('returns invalid rows by their position, and rejects unknown columns over the API', async () => {
  await outcome(async (audience, { id }) => {
    const path = `/audiences/${audience}/list-imports`
    const rows = [
      { email: 'ann@there.test', status: 'active' },
      { email: 'bob@there.test', status: 'pending' },
    ]
    const { body } = await postrider.api('POST', path, document('contacts', { rows }))
    assert.deepEqual([body.data.attributes.created, body.data.attributes.skipped], [1, 1])
    assert.deepEqual(body.data.attributes.errors, [
      { index: 1, email: null, detail: 'has the unknown status "pending"; add the value to "statuses"' },
    ])
    const refused = await postrider.api('POST', path, document('contacts', { rows: [{ who: 'x' }] }))
    assert.deepEqual([refused.status, refused.body.errors[0].source.pointer], [422, '/data/attributes/rows'])
    assert.doesNotMatch(refused.body.errors[0].detail, /--map/)
    for (const given of [{}, { rows, contacts: [{ email: 'ann@there.test' }] }])
      assert.equal((await postrider.api('POST', path, document('contacts', given))).status, 422)
    const wide = Array.from({ length: 600 }, (_, n) => ({ email: 'ann@there.test', [`a${n}`]: n, [`b${n}`]: n }))
    const relationships = { domain: { data: { type: 'domains', id } } }
    // 1,000 rows of 600 columns would be 600,000 cells (D126).
    const sparse = Array.from({ length: 1000 }, (_, n) => ({ email: `ann${n}@there.test`, [`a${n % 600}`]: n }))
    for (const [sent, said] of [
      [wide, /1000 columns/],
      [sparse, /500,000 cells; send it in parts/],
    ] as const) {
      const data = { type: 'suppression-imports', attributes: { rows: sent }, relationships }
      assert.match((await postrider.api('POST', '/suppression-imports', { data })).body.errors[0].detail, said)
    }
  })
})

test('rejects a column that looks like a status over the API unless "columns" maps it (D225)', async () => {
  await outcome(async (audience) => {
    const bring = async (title: string, columns?: Record<string, string>) => {
      const rows = [
        { email: 'ann@there.test', [title]: 'yes' },
        { email: 'bob@there.test', [title]: 'no' },
      ]
      const attributes = { rows, dry_run: true, ...(columns ? { columns } : {}) }
      return postrider.api('POST', `/audiences/${audience}/list-imports`, document('contacts', attributes))
    }
    for (const columns of [undefined, { email: 'email' }]) {
      const { body, status } = await bring('newsletter', columns)
      assert.deepEqual([status, body.errors?.[0].source.pointer], [422, '/data/attributes/rows'])
      assert.match(
        body.errors[0].detail,
        /"newsletter".*nothing was imported\. Set the use of every column in "columns"/,
      )
    }
    assert.match((await bring('subscribed', { email: 'email' })).body.errors[0].detail, /"subscribed"/)
    const counts = async (use: string) => {
      const { created, unsubscribed } = (await bring('newsletter', { email: 'email', newsletter: use })).body.data
        .attributes
      return [created, unsubscribed]
    }
    assert.deepEqual(await counts('status'), [1, 1])
    assert.deepEqual(await counts('unsubscribed'), [1, 1])
    assert.deepEqual(await counts('none'), [2, 0])
  })
})

test('subscribes a contact next to unsubscribed ones, and rejects a row with an unknown value (D127)', async () => {
  let said = ''
  const csv =
    'email,Name,Subscription status\nann@there.test,Ann,subscribed\nbob@there.test,Bob,unsubscribed\ncy@there.test,Cy,pending\ndee@there.test,Dee,unconfirmed\n'
  const { people, suppressed } = await outcome(async (audience) => {
    assert.match((await upload(audience, csv, 'list.csv')).text, /unsubscribed<\/td>[^]*Unsubscribed/)
    const done = await byConsole(audience, csv, 'list.csv')
    said = `${done.text}${(await ann.open(`${done.path.split('?')[0]!}/rejected.csv`)).text}`
  })
  assert.deepEqual(people, ['ann@there.test subscribed', 'bob@there.test unsubscribed'])
  assert.deepEqual(suppressed, ['bob@there.test unsubscribe marketing'])
  assert.match(said, /1 added, 1 unsubscribed\./)
  assert.match(
    said,
    /line,reason,email,Name,Subscription status\r\n4,"has the unknown Subscription status ""pending""; add the value to ""statuses""",cy@there.test,Cy,pending\r\n$/,
  )
})

test('requires the address column in the console without naming command options', async () => {
  const page = await outcome(async (audience) => {
    const { text } = await upload(audience, 'who,status\na@there.test,x\n', 'list.csv')
    assert.match(text, /begins with|has no column/)
    assert.doesNotMatch(text, /--map/)
  })
  assert.deepEqual(page.people, [])
})

test('accepts each status over the API, and suppresses only with the scope for it (D127)', async () => {
  const contacts = ['subscribed', 'unconfirmed', 'unsubscribed', 'blocked', 'bounced', 'complained'].map(
    (standing) => ({ email: `${standing}@there.test`, status: standing }),
  )
  const { people, suppressed } = await outcome(async (audience) => {
    const path = `/audiences/${audience}/list-imports`
    const { body, status } = await postrider.api('POST', path, document('contacts', { contacts }))
    assert.equal(status, 200)
    const { created_at, ...attributes } = body.data.attributes
    assert.ok(created_at)
    assert.deepEqual(attributes, {
      created_by: 'test',
      file: '',
      rejected_count: 0,
      rejected_until: null,
      created: 1,
      updated: 0,
      unsubscribed: 1,
      suppressed: 3,
      skipped: 1,
      errors: [],
    })
    const wrong = document('contacts', { contacts: [{ email: 'a@there.test', status: 'pending' }] })
    assert.equal((await postrider.api('POST', path, wrong)).status, 422)
    const narrow = await postrider.tokenFor(postrider.user, ['contacts:write'])
    const refused = await postrider.api('POST', path, document('contacts', { contacts }), {
      authorization: `Bearer ${narrow}`,
    })
    assert.deepEqual([refused.status, refused.body.errors[0].code], [403, 'insufficient_scope'])
  })
  assert.deepEqual(people, [
    'bounced@there.test bounced',
    'complained@there.test complained',
    'subscribed@there.test subscribed',
    'unsubscribed@there.test unsubscribed',
  ])
  assert.equal(suppressed.length, 4)
})
