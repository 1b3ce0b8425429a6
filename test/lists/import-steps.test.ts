// The import of contacts in the console (D143): mapped columns, unknown status values, hostile files, the history and
// its rejected lines. The console uses the same API attributes as an application.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasControls } from '../../src/base/clean-text.ts'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { forgetRefused } from '../../src/campaigns/import-with-status.ts'
import { contactsIn } from '../../src/lists/contact-columns.ts'
import { PRESETS } from '../../src/lists/programs.ts'
import { readUpload } from '../../src/lists/upload.ts'
import { escapeHtml } from '../../src/message/template.ts'
import { db, raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { fieldsOf } from '../kit/page.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const kit = campaignKit(() => postrider)
let ann: Guest

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))

setUp(async () => void (ann = await signedIn(postrider)))

const audience = (): Promise<string> => kit.audience(domain)

/** Submits the first step with a file. Returns the next page. */
async function choose(audienceId: string, bytes: string | Uint8Array<ArrayBuffer>, name = 'list.csv'): Promise<Shown> {
  const path = `/audiences/${audienceId}/import`
  const page = await ann.open(path)
  const body = new FormData()
  body.set('proof', /name="proof" value="([^"]+)"/.exec(page.text)![1]!)
  body.set('action', 'columns')
  body.set('from', '')
  body.set('file', new File([bytes], name))
  return ann.open(path, { method: 'POST', body })
}

/** Submits a form of a page with its values and these changes. */
const send = (page: Shown, action: string, fields: Record<string, string> = {}): Promise<Shown> =>
  ann.send(page, action, { ...fieldsOf(page.text, action), ...fields })

async function people(audienceId: string): Promise<Record<string, [string, string | null, unknown]>> {
  const { body } = await postrider.api('GET', `/audiences/${audienceId}/contacts?page%5Bsize%5D=100`)
  return Object.fromEntries(
    (body.data as { attributes: { email: string; status: string; name: string; custom_fields: unknown } }[]).map(
      ({ attributes: { custom_fields, email, name, status } }) => [email, [status, name, custom_fields]],
    ),
  )
}

const words = (page: Shown): string => page.text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')
const importOf = (page: Shown): string => /\/imports\/([^?]+)/.exec(page.path)![1]!

test('imports the columns with a chosen use (address, name, a new field, a status with own values) and skips the others', async () => {
  const id = await audience()
  const csv =
    'Kontakt,Wer,Ort,Zustand,Notiz\nAnn@There.test,Ann,Köln,dabei,x\nbob@there.test,Bob,Bonn,weg,x\ncid@there.test,Cid,Kiel,tot,x\ndan@there.test,Dan,Ulm,unklar,x\n'
  const columns = await choose(id, csv)
  // The titles are not known, so the page requires uses, with two examples of each column.
  assert.match(words(columns), /The file has no column .{1,6}email.{1,6}\. Choose a use for every column\./)
  assert.match(words(columns), /Ann@There\.test · bob@there\.test/)
  const uses = {
    'use:0': 'email',
    'use:1': 'name',
    'use:2': 'new',
    'new:2': 'city',
    'use:3': 'status',
    'use:4': 'none',
  }
  const asked = await send(columns, 'check', uses)
  assert.match(words(asked), /Choose a meaning for every status value/)
  assert.match(asked.text, /<option value="field:city" selected>/)
  const answers = {
    'word:dabei': 'subscribed',
    'word:weg': 'unsubscribed',
    'word:tot': 'bounced',
    'word:unklar': 'refuse',
  }
  const preview = await send(asked, 'check', answers)
  assert.match(words(preview), /New 1 Updated 0 Kept as unsubscribed 1 Suppressed 1/)
  assert.match(words(preview), /Line 5: has the unknown Zustand .{1,6}unklar.{1,6}/)
  assert.deepEqual(await people(id), {}, 'nothing is written before the last step')
  const done = await send(preview, 'import')
  assert.match(words(done), /1 added, 1 unsubscribed, 1 suppressed\./)
  const there = await people(id)
  assert.deepEqual(there, {
    'ann@there.test': ['subscribed', 'Ann', { city: 'Köln' }],
    'bob@there.test': ['unsubscribed', 'Bob', { city: 'Bonn' }],
    'cid@there.test': ['bounced', 'Cid', { city: 'Kiel' }],
  })
  // The same over the API.
  const other = await kit.audience(await postrider.activeDomain('api.test'))
  const rows = csv
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => {
      const [a, b, c, d, e] = line.split(',')
      return { Kontakt: a, Wer: b, Ort: c, Zustand: d, Notiz: e }
    })
  const { body } = await postrider.api(
    'POST',
    `/audiences/${other}/list-imports`,
    document('contacts', {
      rows,
      columns: { Kontakt: 'email', Wer: 'name', Ort: 'field:city', Zustand: 'status' },
      statuses: { dabei: 'subscribed', Weg: 'unsubscribed', tot: 'bounced' },
    }),
  )
  assert.equal(body.data.attributes.errors[0].index, 3)
  assert.deepEqual(await people(other), there)
})

test('keeps the choices on the way back, and demands a name for a new field and one address column', async () => {
  const id = await audience()
  const columns = await choose(id, 'email,who,email2\nann@there.test,Ann,b@there.test\n')
  assert.match(words(await send(columns, 'check', { 'use:1': 'new' })), /Enter a name for the new field/)
  assert.match(words(await send(columns, 'check', { 'use:2': 'email' })), /two email address columns/)
  assert.match(words(await send(columns, 'check', { 'use:0': 'none' })), /no email address column/)
  assert.match(
    words(await send(columns, 'check', { 'use:1': 'field:a', 'use:2': 'field:a' })),
    /two columns for the field/,
  )
  const preview = await send(columns, 'check', { 'use:1': 'name', 'use:2': 'none', existing: 'keep' })
  const back = await send(preview, 'columns')
  assert.match(back.text, /name="use:1"[^]*?<option value="name" selected>/)
  assert.match(back.text, /name="use:2"[^]*?<option value="none" selected>/)
  assert.match(back.text, /<option value="keep" selected>/)
})

test('reads a list by the suggested uses as by its titles, for every known service', async () => {
  const exports = {
    mailchimp:
      'Email Address,First Name,Last Name,City,MEMBER_RATING,OPTIN_TIME,OPTIN_IP,UNSUB_TIME\na@there.test,Ann,Lee,Oslo,2,2024-01-01,1.2.3.4,2024-06-01 10:00:00\n',
    brevo:
      'CONTACT ID,EMAIL,FIRSTNAME,LASTNAME,SMS_BLACKLIST,EMAIL_BLACKLIST,ADDED_TIME,CITY\n1,a@there.test,Ann,Lee,FALSE,TRUE,1,Oslo\n',
    listmonk:
      'uuid,email,name,attributes,status,created_at,updated_at\nx,a@there.test,Ann Lee,"{""city"": ""Oslo""}",enabled,1,2\n',
    sendgrid: 'EMAIL,FIRST_NAME,LAST_NAME,CONTACT_ID,CREATED_AT,UPDATED_AT,city\na@there.test,Ann,Lee,1,2,3,Oslo\n',
    mailerlite: 'Subscriber,Name,Last name,Sent,Opened,Clicked,Status\na@there.test,Ann,Lee,1,2,3,unsubscribed\n',
    unknown: 'email,name,preferences,status,city\na@there.test,Ann,"{""a"":1}",bounced,Oslo\n',
  }
  for (const [name, csv] of Object.entries(exports)) {
    const preset = name === 'unknown' ? undefined : PRESETS[name as keyof typeof PRESETS]
    const job = { bytes: Buffer.from(csv), file: 'list.csv' }
    const told = await readUpload({ ...job, contacts: { map: new Map(), preset, page: true } })
    const look = await readUpload({ ...job, contacts: { map: new Map(), page: true } })
    assert.ok(typeof look === 'object' && 'uses' in look.columns, name)
    // The program is found by its columns.
    if (preset) assert.equal(look.columns.program, name)
    const chosen = await readUpload({ ...job, contacts: { map: new Map(), uses: look.columns.uses, page: true } })
    assert.ok(typeof told === 'object' && typeof chosen === 'object')
    assert.equal(told.items.length, 1)
    assert.deepEqual(chosen.items, told.items, name)
  }
  const { columns } = contactsIn({ map: new Map() })({ name: 'x', file: '' }, ['email', 'city'])
  assert.deepEqual(columns.uses, ['email', 'field:city'])
})

test('updates existing contacts or keeps them, and always applies unsubscribes', async () => {
  const id = await audience()
  await kit.fill(id, [
    { email: 'old@there.test', name: 'Old' },
    { email: 'gone@there.test', name: 'Gone' },
  ])
  const csv = 'email,name,status\nold@there.test,New,subscribed\ngone@there.test,New,unsubscribed\n'
  const kept = await send(await send(await choose(id, csv), 'check', { existing: 'keep' }), 'import')
  assert.match(words(kept), /0 added, 1 unsubscribed\./)
  const first = await people(id)
  assert.deepEqual([first['old@there.test']![1], first['gone@there.test']![0]], ['Old', 'unsubscribed'])
  const preview = await send(await choose(id, csv), 'check')
  assert.match(words(preview), /New 0 Updated 2/)
  await send(preview, 'import')
  assert.equal((await people(id))['old@there.test']![1], 'New')
})

test('rejects hostile files with a sentence or reads them, without writing anything', async () => {
  const id = await audience()
  const wide = (cells: number) => `email${',a'.repeat(cells)}\n`
  const cases: readonly (readonly [string | Uint8Array<ArrayBuffer>, RegExp, string?])[] = [
    [wide(999_999), /more than 500,000 cells|200 columns/],
    [wide(300), /more than 200 columns/],
    [`email\n"${'x'.repeat(4_900_000)}"\n`, /1 MB/],
    [`email\n${'x'.repeat(6_000_000)}\n`, /larger than 5 MB/],
    ['email\0,name\na@there.test,x\n', /binary data/],
    [
      'PK\u0003\u0004....[Content_Types].xml....xl/workbook.xml',
      /This|is not CSV but an Excel workbook\. Save it as CSV/,
    ],
    ['PK\u0003\u0004....mimetypeapplication/vnd.oasis.opendocument.spreadsheet', /a workbook\. Save it as CSV/],
    ['PK\u0003\u0004....readme.txt', /a zip archive\. Unpack it first/],
    [new Uint8Array([0xd0, 0xcf, 0x11, 0xe0, 1, 2]), /an Excel workbook\. Save it as CSV/],
    ['', /Choose a file/],
    ['\n\n', /empty/],
    ['email,name\n"a@there.test,x\n', /quote is never closed/],
    ['ann@there.test,Ann\nbob@there.test,Bob\n', /starts with a contact/],
  ]
  for (const [bytes, said] of cases) {
    const page = await choose(id, bytes)
    assert.equal(page.status, 200)
    assert.match(words(page), said)
    assert.match(page.text, /name="file"/, 'the first step again')
  }
  // With a repeated title the page requires a choice, and both can be imported under different names.
  const twice = await choose(id, 'email,plan,plan\nann@there.test,a,b\n')
  assert.match(words(twice), /two columns/)
  const preview = await send(twice, 'check', {
    'use:0': 'email',
    'use:1': 'field:plan',
    'use:2': 'new',
    'new:2': 'plan2',
  })
  assert.match(words(preview), /plan: a, plan2: b/)
  // Byte order marks, semicolons, tabs, UTF-16 and Latin-1, as the command reads them.
  const text = 'email;name\nzoe@there.test;Zoë\n'
  const utf16 = new Uint8Array(Buffer.from(`\ufeff${text}`, 'utf16le'))
  for (const bytes of [`\ufeff${text}`, utf16, new Uint8Array(Buffer.from(text, 'latin1')), text.replaceAll(';', '\t')])
    assert.match(words(await send(await choose(id, bytes), 'check')), /zoe@there\.test Zoë/)
  // Markup and formulas stay text.
  const markup = await choose(id, 'email,"<script>x</script>",=cmd()\nann@there.test,"</textarea><b>x</b>",=1+1\n')
  assert.doesNotMatch(markup.text, /<script>x|<\/textarea><b>/)
  assert.doesNotMatch((await send(markup, 'check')).text, /<b>x<\/b>/)
  assert.deepEqual(await people(id), {})
})

test('accepts the list in each step as browsers send it, even with multi-byte characters', async () => {
  const id = await audience()
  const columns = await choose(id, 'email,name\nzoe@there.test,Зоя Петровна\n')
  const preview = await send(columns, 'check')
  for (const { text } of [columns, preview])
    for (const form of text.matchAll(/<form\b([^>]*)>((?:(?!<\/form>)[^])*name="held")/g))
      assert.match(form[1]!, /enctype="multipart\/form-data"/)
  assert.match(words(preview), /Import 1 row/)
  const body = new FormData()
  const held = `email,name\n${Array.from({ length: 13_000 }, (_, at) => `z${at}@there.test,${'Зоя '.repeat(31)}\n`).join('')}`
  assert.ok(encodeURIComponent(held).length > 8 * 1024 * 1024, 'urlencoded, the form would be too long')
  const proof = /name="proof" value="([^"]+)"/.exec(columns.text)![1]!
  for (const [name, value] of Object.entries({ ...fieldsOf(columns.text, 'check'), proof, action: 'check', held }))
    body.set(name, value)
  const large = await ann.open(`/audiences/${id}/import`, { method: 'POST', body })
  assert.equal(large.status, 200)
  assert.match(words(large), /Import 13,000 rows/)
})

test('escapes the list once, in the worker thread', async () => {
  const id = await audience()
  const list = `email,note\nzoe@there.test,"&<>'&amp;</textarea>"\n`
  const bytes = new TextEncoder().encode(list)
  const look = await readUpload({ bytes, file: 'list.csv', contacts: { map: new Map(), page: true } })
  assert.ok(typeof look === 'object' && look.escaped === escapeHtml(list))
  const columns = await choose(id, list)
  assert.ok(columns.text.includes(`tabindex="-1">\n${escapeHtml(list)}</textarea>`))
  assert.match(words(await send(columns, 'check')), /Import 1 row/)
})

test('shows the reason again if a form contains no valid contacts', async () => {
  const id = await audience()
  const preview = await send(await choose(id, 'email,name\nzoe@there.test,Zoe\n'), 'check')
  const done = await send(preview, 'import', { held: 'email,name\nnobody,Zoe\n' })
  assert.equal(done.path, `/audiences/${id}/import`)
  assert.match(words(done), /Step 3 of 3[^]*Line 2: /)
})

test('reads pasted lines like a file, even addresses only', async () => {
  const id = await audience()
  const first = await ann.open(`/audiences/${id}/import`)
  const columns = await send(first, 'columns', { pasted: 'paula@there.test\npeter@there.test\n', from: '' })
  const done = await send(await send(columns, 'check'), 'import')
  assert.match(words(done), /2 added\./)
  assert.deepEqual(Object.keys(await people(id)).toSorted(), ['paula@there.test', 'peter@there.test'])
})

test('warns about a skipped status column before the import', async () => {
  const id = await audience()
  const columns = await choose(id, 'email,Status\nann@there.test,unsubscribed\n')
  assert.match(
    words(await send(columns, 'check', { 'use:1': 'none' })),
    /Column “Status” looks like a subscription status but is not used/,
  )
})

test('requires a use for a column that looks like a status (D225)', async () => {
  const id = await audience()
  const columns = await choose(id, 'email,Aktiv\nann@there.test,ja\nbob@there.test,nein\n')
  assert.match(words(columns), /Choose a use for &quot;Aktiv&quot;: it looks like a subscription status/)
  assert.match(columns.text, /name="use:1"[^>]*required>\s*<option value="" selected>/)
  assert.match(words(await send(columns, 'check')), /Choose a use for every column\./)
  const shown = await send(columns, 'check', { 'use:1': 'subscribed' })
  await send(shown, 'import')
  const found = Object.entries(await people(id)).map(([email, [status]]) => `${email} ${status}`)
  assert.deepEqual(found.toSorted(), ['ann@there.test subscribed', 'bob@there.test unsubscribed'])
})

test('keeps a list of unsubscribed contacts unsubscribed, for all chosen uses', async () => {
  const id = await kit.audience(await postrider.activeDomain('left.test'))
  const columns = await choose(id, 'Email Address,UNSUB_TIME\nleft@there.test,2024-06-01 10:00:00\n')
  assert.match(words(columns), /The people in this list are not subscribed/)
  const done = await send(await send(columns, 'check', { 'use:1': 'none' }), 'import')
  assert.match(words(done), /0 added, 1 unsubscribed/)
})

/** A Mailchimp export without a status: each row's UNSUB_TIME and CLEAN_TIME. */
const timed = (titles: string, cells: (n: number) => string, rows: number): string =>
  `Email Address,Address,${titles}\n${Array.from({ length: rows }, (_, n) => `t${n}@there.test,1 Street,${cells(n)}\n`).join('')}`

test('shows a list with some unsubscribe times row by row, in the columns and in the preview', async () => {
  const id = await kit.audience(await postrider.activeDomain('times.test'))
  const [gone, none] = ['2024-06-01 10:00:00', '']
  const csv = timed('UNSUB_TIME,CLEAN_TIME', (n) => `${n < 20 ? gone : none},${n >= 20 && n < 22 ? gone : none}`, 200)
  const columns = await choose(id, csv)
  assert.doesNotMatch(words(columns), /The people in this list are not subscribed/)
  assert.match(words(columns), /no value UNSUB_TIME 180 Subscribed, unless marked as unsubscribed elsewhere/)
  assert.match(words(columns), /CLEAN_TIME 2 Suppress \(bounced\)/)
  // The street column is called "Address" in the file, and is separate from the email address.
  assert.match(columns.text, /<option value="email" selected>Email address<\/option>/)
  assert.match(columns.text, /name="use:1"[^]*?<option value="field:Address" selected>/)
  const preview = await send(columns, 'check')
  assert.match(words(preview), /New 178 Updated 0 Kept as unsubscribed 20 Suppressed 2 /)
  assert.doesNotMatch(words(preview), /Rejected/)
  assert.match(words(await send(preview, 'import')), /178 added, 20 unsubscribed, 2 suppressed\./)
})

test('reads any text in a column of unsubscribe times as unsubscribed, by row or for the whole list', async () => {
  const id = await kit.audience(await postrider.activeDomain('time.test'))
  const cells = ['', '2024-06-01 10:00:00', '', 'June 1st', '0', '0000-00-00 00:00:00', ' ']
  const mixed = await choose(
    id,
    timed('UNSUB_TIME', (n) => cells[n] ?? '', cells.length),
  )
  assert.doesNotMatch(words(mixed), /The people in this list are not subscribed/)
  assert.match(words(mixed), /no value UNSUB_TIME 3 Subscribed 2024-06-01 10:00:00 UNSUB_TIME 4 Unsubscribed/)
  // Not even a choice of the column as something else makes them subscribers.
  const preview = await send(mixed, 'check', { 'use:2': 'none' })
  assert.match(words(preview), /New 3 Updated 0 Kept as unsubscribed 4 /)
  const all = await choose(
    id,
    timed('UNSUB_TIME', () => '2024-06-01 10:00:00', 30),
  )
  assert.match(words(all), /The people in this list are not subscribed\. All rows: Unsubscribed\./)
  assert.match(words(await send(all, 'check')), /New 0 Updated 0 Kept as unsubscribed 30 /)
  // The file name sets the status of all rows, and the times do not change it.
  const named = await choose(
    id,
    timed('UNSUB_TIME', () => '', 3),
    'unsubscribed_export.csv',
  )
  assert.match(words(named), /The people in this list are not subscribed/)
  assert.match(words(await send(named, 'check')), /New 0 Updated 0 Kept as unsubscribed 3 /)
})

test('imports the valid rows only on request if more than a tenth are invalid', async () => {
  const id = await audience()
  const list = (wrong: number): string =>
    `email\n${Array.from({ length: 20 }, (_, n) => (n < wrong ? `wrong ${n}\n` : `w${n}@there.test\n`)).join('')}`
  const few = await send(await choose(id, list(2)), 'check')
  assert.match(words(few), /Import 18 rows/)
  assert.doesNotMatch(words(few), /more than a tenth/)
  const many = await send(await choose(id, list(3)), 'check')
  assert.match(words(many), /3 of 20 rows are invalid, more than 10%/)
  assert.match(words(many), /Import 17 valid rows/)
  // A form without the confirmation to import only the valid rows, such as an outdated page, is rejected.
  const stopped = await send(many, 'import', { others: '' })
  assert.match(words(stopped), /3 of 20 rows are invalid/)
  assert.deepEqual(await people(id), {})
  assert.match(words(await send(stopped, 'import')), /17 added\./)
})

test('links to the import and to the import history', async () => {
  const id = await audience()
  const { text } = await ann.open(`/audiences/${id}`)
  assert.match(text, /href="\/audiences\/[^"]+\/imports">Import history</)
  assert.match((await ann.open(`/audiences/${id}/imports`)).text, /<h1[^>]*>\s*Import history/)
})

test('lists an import of several parts once, with its user and its rejected lines as a file', async () => {
  const id = await audience()
  const rows = Array.from({ length: 1200 }, (_, n) => `r${n}@there.test,"=cmd ${n}"`).join('\n')
  const csv = `email,note\n${rows}\nnonsense,"=1+1"\nr0@there.test,again\n`
  const done = await send(await send(await choose(id, csv, '../a\u0007b.csv'), 'check'), 'import')
  const name = importOf(done)
  const { body } = await postrider.api('GET', `/audiences/${id}/list-imports`)
  assert.equal(body.data.length, 1)
  const { attributes, id: shown } = body.data[0]
  assert.equal(shown, name)
  assert.equal(attributes.created_by, postrider.user.email)
  assert.ok(!hasControls(attributes.file))
  assert.deepEqual(
    [attributes.created, attributes.skipped, attributes.rejected_count, attributes.suppressed],
    [1200, 2, 1, 0],
  )
  const file = await ann.open(`/audiences/${id}/imports/${name}/rejected.csv`)
  assert.match(file.headers.get('content-type')!, /text\/csv/)
  // A cell that a spreadsheet would run gets an apostrophe (D81).
  assert.equal(file.text, 'line,reason,email,note\r\n1202,"""nonsense"" is not an email address",nonsense,\'=1+1\r\n')
  assert.match(words(await ann.open(`/audiences/${id}/imports`)), /1,200/)
  // Another account, another audience.
  assert.equal((await postrider.asOther('GET', `/list-imports/${name}`)).status, 404)
  assert.equal((await postrider.asOther('GET', `/list-imports/${name}/rejected`)).status, 404)
  assert.equal((await ann.open(`/audiences/${await audience()}/imports/${name}`)).status, 404)
  const foreign = { contacts: [{ email: 'x@there.test' }], continues: name }
  const path = `/audiences/${await audience()}/list-imports`
  assert.equal((await postrider.api('POST', path, document('contacts', foreign))).status, 404)
})

test('lists imports over the API with the name of the token, except dry runs', async () => {
  const id = await audience()
  const path = `/audiences/${id}/list-imports`
  const contacts = [{ email: 'ann@there.test', name: 'Ann' }]
  const trial = await postrider.api('POST', path, document('contacts', { contacts, dry_run: true }))
  assert.equal(trial.body.data.attributes.created, 1)
  assert.deepEqual(await people(id), {})
  await postrider.api('POST', path, document('contacts', { rows: [{ email: 'x' }, { email: 'b@there.test' }] }))
  await kit.fill(id, ['ann@there.test'])
  const { data } = (await postrider.api('GET', path)).body
  assert.deepEqual(
    data.map(({ attributes: a }: { attributes: Record<string, unknown> }) => [
      a['created_by'],
      a['created'],
      a['skipped'],
      a['rejected_count'],
    ]),
    [
      ['test', 1, 0, 0],
      ['test', 1, 1, 1],
    ],
  )
})

test('deletes rejected lines after 30 days and with their audience, and erases addresses in them', async () => {
  const { clock, store } = postrider.appliance.deps
  const lines = (name: string) =>
    store.first<{ rejected: string | null; rejected_until: number | null }>(
      raw('select rejected, rejected_until from list_imports where id = ?', [name]),
    )
  const bring = async (id: string): Promise<string> =>
    importOf(
      await send(
        await send(await choose(id, 'email,note\nok@there.test,x\nbad,eve@there.test said so\n'), 'check'),
        'import',
      ),
    )
  const id = await audience()
  const name = await bring(id)
  assert.match(lines(name)!.rejected!, /eve@there\.test/)
  await forgetRefused(store, clock.now() + 30 * DAY - HOUR)
  assert.notEqual(lines(name)!.rejected, null)
  await forgetRefused(store, clock.now() + 30 * DAY + HOUR)
  assert.deepEqual({ ...lines(name)! }, { rejected: null, rejected_until: null })
  assert.equal((await postrider.api('GET', `/list-imports/${name}/rejected`)).status, 404)
  assert.doesNotMatch((await ann.open(`/audiences/${id}/imports/${name}`)).text, /rejected\.csv/)
  const erased = await bring(await audience())
  assert.equal((await postrider.api('DELETE', '/recipients/eve@there.test/forget')).status, 202)
  await until(() => !/eve@there\.test/.test(lines(erased)!.rejected!))
  const removed = await audience()
  const last = await bring(removed)
  await postrider.api('DELETE', `/audiences/${removed}`)
  assert.equal(lines(last), undefined)
})

test('keeps the last 500 imports of an audience', async () => {
  const id = await audience()
  const { store } = postrider.appliance.deps
  const { key, user_key } = store.one<{ key: number; user_key: number }>(
    db.selectFrom('audiences').select(['key', 'user_key']).where('id', '=', id) as never,
  )
  await store.write((tx) =>
    tx.run(
      raw(
        `with recursive n(n) as (values (1) union all select n + 1 from n where n < 510)
         insert into list_imports (id, user_key, audience_key, created_by, file, created, updated, unsubscribed, suppressed,
           skipped, rejected_count, created_at, updated_at)
         select 'i' || ? || n, ?, ?, '', '', 0, 0, 0, 0, 0, 0, 1, 1 from n`,
        [key, user_key, key],
      ),
    ),
  )
  await kit.fill(id, ['ann@there.test'])
  assert.equal(
    store.one<{ sum: number }>(raw('select count(*) as sum from list_imports where audience_key = ?', [key])).sum,
    500,
  )
})

test('stores no data if a session expires between two steps', async () => {
  const id = await audience()
  const preview = await send(await choose(id, 'email\nann@there.test\n'), 'check')
  const stranger = new Guest(postrider)
  const fields = fieldsOf(preview.text, 'import')!
  await stranger.send(preview, 'import', fields)
  assert.deepEqual(await people(id), {})
})

test('imports 2,000 rows in four parts as one import', async () => {
  const id = await audience()
  const csv = `email,name,city\n${Array.from({ length: 2000 }, (_, n) => `many${n}@there.test,Person ${n},Bergen`).join('\n')}\n`
  const done = await send(await send(await choose(id, csv), 'check'), 'import')
  assert.match(words(done), /2,000 added\./)
  const { data } = (await postrider.api('GET', `/audiences/${id}/list-imports`)).body
  assert.deepEqual([data.length, data[0].attributes.created], [1, 2000])
})

test('limits the number of omitted rows in a request', async () => {
  const id = await audience()
  const attributes = { contacts: [{ email: 'zoe@there.test' }], omitted_count: Number.MAX_SAFE_INTEGER }
  const { body, status } = await postrider.api(
    'POST',
    `/audiences/${id}/list-imports`,
    document('contacts', attributes),
  )
  assert.equal(status, 422)
  assert.match(body.errors[0].detail, /"omitted_count" must be at most/)
})
