// Imports of contact lists from other services keep the status of unsubscribed contacts (D71), in the columns that
// those services are known to export.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../src/base/clock.ts'
import { openKeyring } from '../../src/base/keyring.ts'
import { erasedForm } from '../../src/base/recipient-hash.ts'
import { addContact } from '../../src/campaigns/contacts.ts'
import { blockErased } from '../../src/suppressions/forget.ts'
import { raw } from '../../src/store/query.ts'
import { Lists, type Person } from './lists.ts'

const lists = new Lists()
before(() => lists.open())
after(() => lists.close())

let domains = 0

const ASSERTED = { state: 'asserted', source: 'api' } as const

interface Brought {
  counts: Record<string, unknown>
  people: Person[]
  suppressed: string[]
}

/** Imports a list into an audience of a new domain. */
async function bring(content: string, options: string[] = [], name?: string): Promise<Brought> {
  const domain = await lists.domain(`d${++domains}.test`)
  const audience = await lists.audience(`A${domains}`, domain)
  const counts = await lists.commands.json('contacts', 'import', audience, lists.file(content, name), ...options)
  return { counts, people: await lists.people(audience), suppressed: await lists.suppressed(domain) }
}

const stands = ({ people }: Brought): string[] => people.map(({ email, status }) => `${email} ${status}`)
const none = { created: 0, updated: 0, unsubscribed: 0, suppressed: 0, skipped: 0, errors: [] }

const MAILCHIMP =
  '"Email Address","First Name","Last Name",Address,"Phone Number",Birthday,MEMBER_RATING,OPTIN_TIME,OPTIN_IP,CONFIRM_TIME,CONFIRM_IP,LATITUDE,LONGITUDE,GMTOFF,DSTOFF,TIMEZONE,CC,REGION'
const MAILCHIMP_END = 'LAST_CHANGED,LEID,EUID,NOTES,TAGS'
const MAILCHIMP_ROW = (first: string, more = '') =>
  `${first}@there.test,${first},Reader,"1 Street, Town",,03/21,2,"2024-02-01 09:00:00",192.0.2.20,"2024-02-01 09:05:00",192.0.2.21,48.1,11.5,1,2,Europe/Berlin,DE,BY,${more}"2024-05-06 07:08:09",100001,e1f2,,"""vip"",""2024"""`

test('imports the subscribed contacts of Mailchimp without its internal columns', async () => {
  const brought = await bring(
    `${MAILCHIMP},${MAILCHIMP_END}\n${MAILCHIMP_ROW('ann')}\n`,
    ['--from', 'mailchimp'],
    'subscribed_email_audience_export_0a1b.csv',
  )
  assert.deepEqual(brought.counts, { ...none, created: 1 })
  assert.deepEqual(brought.people, [
    {
      email: 'ann@there.test',
      name: 'ann Reader',
      status: 'subscribed',
      custom_fields: {
        'First Name': 'ann',
        'Last Name': 'Reader',
        Address: '1 Street, Town',
        Birthday: '03/21',
        TAGS: '"vip","2024"',
      },
      preferences: null,
    },
  ])
})

test('imports the unsubscribed, cleaned and non-subscribed contacts of Mailchimp', async () => {
  const unsub = `${MAILCHIMP},UNSUB_TIME,UNSUB_CAMPAIGN_TITLE,UNSUB_CAMPAIGN_ID,UNSUB_REASON,UNSUB_REASON_OTHER,${MAILCHIMP_END}`
  const row = MAILCHIMP_ROW('bob', '"2024-06-01 10:00:00","June news",77,NORMAL,,')
  // Detected by its columns, under any file name.
  for (const [options, name] of [
    [['--from', 'mailchimp'], 'unsubscribed_email_audience_export_0a1b.csv'],
    [[], 'members.csv'],
  ] as const) {
    const brought = await bring(`${unsub}\n${row}\n`, [...options], name)
    assert.deepEqual(brought.counts, { ...none, unsubscribed: 1 })
    assert.deepEqual(stands(brought), ['bob@there.test unsubscribed'])
    assert.deepEqual(brought.suppressed, ['bob@there.test unsubscribe marketing'])
  }
  // By its name alone.
  const named = await bring('Email Address\nbob@there.test\n', [], 'unsubscribed_members_export_99.csv')
  assert.deepEqual(stands(named), ['bob@there.test unsubscribed'])
  const cleaned = await bring(
    `${MAILCHIMP},CLEAN_TIME,CLEAN_CAMPAIGN_TITLE,CLEAN_CAMPAIGN_ID,${MAILCHIMP_END}\n${MAILCHIMP_ROW('cid', '"2024-06-01 10:00:00","June news",77,')}\n`,
    ['--from', 'mailchimp'],
  )
  assert.deepEqual(cleaned.counts, { ...none, suppressed: 1 })
  assert.deepEqual(cleaned.suppressed, ['cid@there.test hard_bounce all'])
  assert.deepEqual(stands(cleaned), ['cid@there.test bounced'])
  const never = await bring('Email Address\ndan@there.test\n', [], 'nonsubscribed_email_audience_export_0a1b.csv')
  assert.deepEqual([never.counts, never.people, never.suppressed], [{ ...none, skipped: 1 }, [], []])
  // Both in one file: each row has its own status, and a row without either is subscribed.
  const both = await bring(
    'Email Address,UNSUB_TIME,CLEAN_TIME\ne@there.test,2024-06-01 10:00:00,\nf@there.test,,2024-06-01 10:00:00\ng@there.test,,\n',
  )
  assert.deepEqual(stands(both), ['e@there.test unsubscribed', 'f@there.test bounced', 'g@there.test subscribed'])
  assert.deepEqual(both.counts, { ...none, created: 1, unsubscribed: 1, suppressed: 1 })
  // Neither "there is no status" nor a time called something else makes them subscribers.
  for (const map of ['status=', 'status=UNSUB_TIME', 'unsubscribed=UNSUB_TIME', 'since=UNSUB_TIME']) {
    const mapped = await bring(
      'Email Address,UNSUB_TIME,CLEAN_TIME\ne@there.test,June 1st,\nf@there.test,,June 1st\ng@there.test,,\n',
      ['--map', map],
    )
    assert.deepEqual(stands(mapped), ['e@there.test unsubscribed', 'f@there.test bounced', 'g@there.test subscribed'])
  }
})

test('applies EMAIL_BLACKLIST of Brevo', async () => {
  const brought = await bring(
    [
      'CONTACT ID;EMAIL;FIRSTNAME;LASTNAME;SMS;EMAIL_BLACKLIST;SMS_BLACKLIST;ADDED_TIME;MODIFIED_TIME;OPT_IN',
      '1;ann@there.test;Ann;Reader;491701234567;false;true;2024-01-02 03:04:05;2024-01-02 03:04:05;true',
      '2;bob@there.test;Bob;;;true;false;2024-01-02 03:04:05;2024-01-02 03:04:05;true',
      '3;cid@there.test;;;;1;false;2024-01-02 03:04:05;2024-01-02 03:04:05;',
    ].join('\r\n'),
    ['--from', 'brevo'],
  )
  assert.deepEqual(brought.counts, { ...none, created: 1, suppressed: 2 })
  assert.deepEqual(brought.suppressed, ['bob@there.test list_import all', 'cid@there.test list_import all'])
  assert.deepEqual(
    brought.people.map(({ email, name, custom_fields }) => [email, name, custom_fields]),
    [['ann@there.test', 'Ann Reader', { FIRSTNAME: 'Ann', LASTNAME: 'Reader', SMS: '491701234567', OPT_IN: 'true' }]],
  )
})

test('imports the status and the attributes of listmonk', async () => {
  const brought = await bring(
    [
      'uuid,email,name,attributes,status,created_at,updated_at',
      '0b7a,ann@there.test,Ann,"{""city"": ""Bengaluru"", ""likes"": [1, 2], ""n"": 3}",enabled,2024-01-02 03:04:05 +0000 UTC,2024-01-02 03:04:05 +0000 UTC',
      '1b7a,bob@there.test,Bob,{},disabled,2024-01-02 03:04:05 +0000 UTC,2024-01-02 03:04:05 +0000 UTC',
      '2b7a,cid@there.test,Cid,{},blocklisted,2024-01-02 03:04:05 +0000 UTC,2024-01-02 03:04:05 +0000 UTC',
    ].join('\n'),
    ['--from', 'listmonk'],
  )
  assert.deepEqual(brought.counts, { ...none, created: 1, suppressed: 2 })
  assert.deepEqual(brought.suppressed, ['bob@there.test list_import all', 'cid@there.test list_import all'])
  assert.deepEqual(brought.people[0]!.custom_fields, { city: 'Bengaluru', likes: [1, 2], n: 3 })
  assert.equal(brought.people.length, 1)
})

test('imports contacts of SendGrid, and reports where its unsubscribed contacts are', async () => {
  const list =
    'EMAIL,FIRST_NAME,LAST_NAME,ADDRESS_LINE_1,ADDRESS_LINE_2,CITY,STATE_PROVINCE_REGION,POSTAL_CODE,COUNTRY,ALTERNATE_EMAILS,PHONE_NUMBER,WHATSAPP,LINE,FACEBOOK,UNIQUE_NAME,CREATED_AT,UPDATED_AT,CONTACT_ID\n' +
    'ann@there.test,Ann,Reader,1 Street,,Town,,12345,DE,other@there.test,,,,,,2024-01-02T03:04:05Z,2024-01-02T03:04:05Z,ab-cd\n'
  const { counts, people } = await bring(list, ['--from', 'sendgrid'])
  assert.deepEqual(counts, { ...none, created: 1 })
  assert.deepEqual(people[0]!.custom_fields, {
    FIRST_NAME: 'Ann',
    LAST_NAME: 'Reader',
    ADDRESS_LINE_1: '1 Street',
    CITY: 'Town',
    POSTAL_CODE: '12345',
    COUNTRY: 'DE',
  })
  const told = await lists.commands.run([
    'contacts',
    'import',
    await lists.audience('Told'),
    lists.file(list),
    '--from',
    'sendgrid',
  ])
  assert.match(told.stdout, /SendGrid exports unsubscribed contacts as suppressions\. Import them as well/)
})

test('imports the Status of MailerLite, and its first name from the column Name', async () => {
  const brought = await bring(
    [
      'Subscriber,Name,Last name,Status,Subscribed,Sent,Opens,Clicks,Location',
      'ann@there.test,Ann,Reader,active,2024-01-02 03:04:05,5,4,1,Germany',
      'bob@there.test,Bob,,unsubscribed,2024-01-02 03:04:05,5,4,1,',
      'cid@there.test,,,bounced,2024-01-02 03:04:05,5,4,1,',
      'dan@there.test,,,junk,2024-01-02 03:04:05,5,4,1,',
      'eve@there.test,,,unconfirmed,,0,0,0,',
    ].join('\n'),
    ['--from', 'mailerlite'],
  )
  assert.deepEqual(brought.counts, { ...none, created: 1, unsubscribed: 1, suppressed: 2, skipped: 1 })
  assert.deepEqual(stands(brought), [
    'ann@there.test subscribed',
    'bob@there.test unsubscribed',
    'cid@there.test bounced',
    'dan@there.test complained',
  ])
  assert.equal(brought.people[0]!.name, 'Ann Reader')
})

test('applies any status column in any case, and the most serious of several', async () => {
  for (const [title, cell, stood] of [
    ['Subscription Status', 'Unsubscribed', 'unsubscribed'],
    ['subscription_status', 'ACTIVE', 'subscribed'],
    ['STATUS', 'cleaned', 'bounced'],
    ['Unsubscribed', 'yes', 'unsubscribed'],
    ['unsubscribed', '2024-05-06 07:08:09', 'unsubscribed'],
    ['unsubscribed_at', '1717236000', 'unsubscribed'],
    ['Unsubscribed', '', 'subscribed'],
    ['Unsubscribed', '0000-00-00 00:00:00', 'subscribed'],
    ['subscribed', 'false', 'unsubscribed'],
    ['Subscribed', '2024-05-06', 'subscribed'],
    ['Accepts Email Marketing', 'no', 'unsubscribed'],
    ['Opted out', 'TRUE', 'unsubscribed'],
    ['complained', '1', 'complained'],
  ] as const) {
    const brought = await bring(`email,${title}\nann@there.test,${cell}\n`)
    assert.deepEqual(stands(brought), [`ann@there.test ${stood}`], `${title}: ${cell}`)
    assert.deepEqual(brought.people[0]!.custom_fields, {}, title)
  }
  const two = await bring('email,status,unsubscribed\nann@there.test,active,true\nbob@there.test,spam,true\n')
  assert.deepEqual(stands(two), ['ann@there.test unsubscribed', 'bob@there.test complained'])
})

test('imports the statuses and address titles of other products', async () => {
  for (const [word, stood] of [
    ['Awaiting confirmation', 'unconfirmed'],
    ['churned', 'unsubscribed'],
    ['premium', 'subscribed'],
  ] as const)
    assert.deepEqual(
      stands(await bring(`E-mailadres,Status\nann@there.test,${word}\n`)),
      stood === 'unconfirmed' ? [] : [`ann@there.test ${stood}`],
      word,
    )
  for (const title of ['E-mailadres', 'Email 1', 'Subscriber'])
    assert.deepEqual(stands(await bring(`${title},Email 2\nann@there.test,\n`)), ['ann@there.test subscribed'], title)
  for (const word of ['Inactive', 'past_due', 'Pending']) {
    const { counts } = await bring(`email,status\nann@there.test,active\nbob@there.test,${word}\n`, ['--force'])
    assert.match(JSON.stringify(counts['errors']), /--status \\"\w+=unconfirmed\\""/)
  }
})

test('rejects rows of pending contacts', async () => {
  const list = 'email,status\nann@there.test,active\nbob@there.test,Pending\n'
  const brought = await bring(list, ['--force'])
  assert.deepEqual(brought.counts, {
    ...none,
    created: 1,
    skipped: 1,
    errors: [
      { line: 3, reason: 'has the unknown status "Pending"; map the value, such as --status "pending=unconfirmed"' },
    ],
  })
})

test('rejects rows with an unknown status, and rejects the file if they are more than a tenth', async () => {
  const rows = (wrong: number) =>
    `email,status\n${Array.from({ length: 20 }, (_, n) => `n${n}@there.test,${n < wrong ? 'lead' : 'active'}`).join('\n')}\n`
  const fine = await bring(rows(2))
  assert.deepEqual(fine.counts, {
    ...none,
    created: 18,
    skipped: 2,
    errors: [2, 3].map((line) => ({
      line,
      reason: 'has the unknown status "lead"; map the value, such as --status "lead=unconfirmed"',
    })),
  })
  const audience = await lists.audience('Stopped')
  const list = lists.file(rows(3))
  const said = await lists.commands.fails('contacts', 'import', audience, list)
  assert.match(
    said,
    /^.*\.csv has 3 invalid rows out of 20 \(line 2 has the unknown status "lead".*nothing was imported.*--map.*--force\.$/,
  )
  assert.deepEqual(await lists.people(audience), [])
  const tried = await lists.commands.json('contacts', 'import', audience, list, '--dry-run')
  assert.deepEqual([tried.stops, tried.created, tried.errors.length], [true, 17, 3])
  assert.deepEqual(await lists.people(audience), [])
  assert.equal((await lists.commands.json('contacts', 'import', audience, list, '--force')).created, 17)
  // Where the column is about something else.
  const other = await bring(rows(20), ['--map', 'status='])
  assert.equal(other.counts['created'], 20)
  assert.deepEqual(other.people[0]!.custom_fields, { status: 'lead' })
  const empty = await lists.commands.fails('contacts', 'import', audience, lists.file('email,status\na@there.test,\n'))
  assert.match(empty, /no value in status/)
})

test('never resubscribes a contact, and never removes or weakens a suppression', async () => {
  const domain = await lists.domain('left.test')
  const audience = await lists.audience('Left', domain)
  const bringIn = (content: string) => lists.commands.json('contacts', 'import', audience, lists.file(content))
  const list = (status: string) =>
    `email,name,status\n${['ann', 'bob', 'cid', 'dan'].map((who) => `${who}@there.test,${who},${status}`).join('\n')}\n`
  await bringIn(list('active'))
  await bringIn(
    'email,status\nann@there.test,unsubscribed\nbob@there.test,bounced\ncid@there.test,spam\ndan@there.test,disabled\n',
  )
  const before = await lists.suppressed(domain)
  assert.deepEqual(before, [
    'ann@there.test unsubscribe marketing',
    'bob@there.test hard_bounce all',
    'cid@there.test complaint all',
    'dan@there.test list_import all',
  ])
  assert.deepEqual(await bringIn(list('active')), { ...none, skipped: 4 })
  const stood = ['ann unsubscribed', 'bob bounced', 'cid complained', 'dan subscribed']
  assert.deepEqual(
    (await lists.people(audience)).map(({ name, status }) => `${name} ${status}`),
    stood,
  )
  assert.deepEqual(await lists.suppressed(domain), before)
  // In another audience of the domain as well.
  const second = await lists.audience('Second', domain)
  const counts = await lists.commands.json('contacts', 'import', second, lists.file(list('active')))
  assert.deepEqual(counts, { ...none, created: 1, unsubscribed: 1, suppressed: 2 })
  // A later row resubscribes no contact, and an earlier one does not hide an unsubscribed status.
  const third = await lists.audience('Third', domain)
  const twice =
    'email,status\neve@there.test,unsubscribed\neve@there.test,active\nfay@there.test,active\nFAY@there.test,unsubscribed\n'
  assert.deepEqual(await lists.commands.json('contacts', 'import', third, lists.file(twice)), {
    ...none,
    created: 1,
    unsubscribed: 2,
    skipped: 1,
  })
  assert.deepEqual(
    (await lists.people(third)).map(({ status }) => status),
    ['unsubscribed', 'unsubscribed'],
  )
})

test('does not import an erased address from an old list', async () => {
  const domain = await lists.domain('erased.test')
  const audience = await lists.audience('Erased', domain)
  await lists.within(async (store) => {
    const keyring = openKeyring(lists.data)
    const { user_key } = store.first<{ user_key: number }>(
      raw('select user_key from domains where name = ?', [domain]),
    )!
    await store.write((tx) => blockErased(tx, user_key, erasedForm(keyring, 'gone@there.test'), systemClock.now()))
  })
  const counts = await lists.commands.json(
    'contacts',
    'import',
    audience,
    lists.file('email,status\ngone@there.test,active\nGone@there.test,unsubscribed\n'),
  )
  assert.deepEqual(counts, { ...none, skipped: 1, suppressed: 1 })
  assert.deepEqual(await lists.people(audience), [])
  assert.ok((await lists.suppressed(domain)).every((line) => line.startsWith('#')))
})

test('updates fields that are in the list and keeps the others', async () => {
  const audience = await lists.audience('Renewed')
  const bringIn = (content: string) => lists.commands.json('contacts', 'import', audience, lists.file(content))
  await bringIn('email,name,city,plan\nann@there.test,Ann,Berlin,a\nbob@there.test,Bob,Bonn,b\n')
  assert.deepEqual(await bringIn('email,name,city\nann@there.test,,Bremen\nbob@there.test,Bob,Bonn\n'), {
    ...none,
    updated: 1,
    skipped: 1,
  })
  assert.deepEqual(
    (await lists.people(audience)).map(({ custom_fields, name }) => [name, custom_fields]),
    [
      ['Ann', { city: 'Bremen', plan: 'a' }],
      ['Bob', { city: 'Bonn', plan: 'b' }],
    ],
  )
})

test('takes a field from the column of --map', async () => {
  const { counts, people } = await bring(
    'Kontakt,Anrede,Ort,Zustand,gone\nann@there.test,Ann,Berlin,active,no\nbob@there.test,Bob,Bonn,abgemeldet,yes\n',
    ['email=Kontakt', 'name=anrede', 'city=Ort', 'unsubscribed=gone', 'Zustand=Zustand'].flatMap((map) => [
      '--map',
      map,
    ]),
  )
  assert.deepEqual(counts, { ...none, created: 1, unsubscribed: 1 })
  assert.deepEqual(
    people.map(({ custom_fields, name, status }) => [name, status, custom_fields]),
    [
      ['Ann', 'subscribed', { city: 'Berlin', Zustand: 'active' }],
      ['Bob', 'unsubscribed', { city: 'Bonn', Zustand: 'abgemeldet' }],
    ],
  )
  const flagged = await bring('email,x\nann@there.test,blacklisted\n', ['--map', 'status=x'])
  assert.deepEqual(flagged.suppressed, ['ann@there.test list_import all'])
  const audience = await lists.audience('Mapped')
  const list = lists.file('email,city\nann@there.test,Berlin\n')
  const fails = (...options: string[]) => lists.commands.fails('contacts', 'import', audience, list, ...options)
  assert.match(
    await fails('--map', 'name=Anrede'),
    /--map name=Anrede: .* no column with that name; its columns are: email, city\./,
  )
  assert.match(await fails('--map', 'name'), /--map must be field=column/)
  assert.match(await fails('--map', 'a=city', '--map', 'a=email'), /twice/)
  assert.match(await fails('--from', 'mailchimp'), /not in the format of Mailchimp.*Email Address/)
  await lists.commands.misused('contacts', 'import', audience, list, '--from', 'elsewhere')
})

test('reads a list of addresses without a title', async () => {
  const { counts, people } = await bring('Ann@there.test\nbob@there.test\n\nann@there.test\n')
  assert.deepEqual(counts, { ...none, created: 2, skipped: 1 })
  assert.deepEqual(
    people.map(({ email }) => email),
    ['ann@there.test', 'bob@there.test'],
  )
})

test('previews the rows and the result with --dry-run, without writing them', async () => {
  const domain = await lists.domain('dry.test')
  const audience = await lists.audience('Dry', domain)
  const list = lists.file(
    'email,name,status,city\nann@there.test,Ann,active,Berlin\nbob@there.test,Bob,unsubscribed,\ncid@there.test,,spam,\n',
  )
  const shown = await lists.commands.json('contacts', 'import', audience, list, '--dry-run')
  assert.deepEqual(shown, {
    dry_run: true,
    ...none,
    created: 1,
    unsubscribed: 1,
    suppressed: 1,
    stops: false,
    columns: { email: 'email', name: ['name'], status: ['status'], fields: ['city'] },
    rows: [
      { line: 2, email: 'ann@there.test', name: 'Ann', status: 'subscribed', custom_fields: { city: 'Berlin' } },
      { line: 3, email: 'bob@there.test', name: 'Bob', status: 'unsubscribed', custom_fields: null },
      { line: 4, email: 'cid@there.test', name: null, status: 'complained', custom_fields: null },
    ],
  })
  assert.deepEqual([await lists.people(audience), await lists.suppressed(domain)], [[], []])
  const { stdout } = await lists.commands.run(['contacts', 'import', audience, list, '--dry-run'])
  assert.match(stdout, /LINE {2}EMAIL .*\n2 .*ann@there\.test.*subscribed.*city=Berlin/)
  assert.match(
    stdout,
    /1 contact would be added to Dry, 1 unsubscribed, 1 suppressed, 0 skipped\.\nThis was a dry run; remove --dry-run to import\.\n$/,
  )
})

test('reads standard input for "-", and leaves no copy', async () => {
  const audience = await lists.audience('Piped')
  const program = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
  const run = (input: string) =>
    spawnSync(process.execPath, [program, '--config', lists.config, '--json', 'contacts', 'import', audience, '-'], {
      input,
      encoding: 'utf8',
    })
  const { status, stderr, stdout } = run('email,status\nann@there.test,active\nbob@there.test,unsubscribed\n')
  assert.equal(status, 0, stderr)
  assert.deepEqual(JSON.parse(stdout), { ...none, created: 1, unsubscribed: 1 })
  assert.equal(run('').status, 1)
  assert.deepEqual(
    readdirSync(lists.data).filter((name) => name.includes('import')),
    [],
  )
})

test('imports an exported audience without changes', async () => {
  const domain = await lists.domain('round.test')
  const audience = await lists.audience('Round', domain)
  const hostile = {
    city: 'Köln; "am Rhein", 1\nsecond line\r\nthird',
    spaced: ' on both sides ',
    empty: '',
    number: 3,
    list: [1, { a: null }],
    control: 'a\u0000b\u001b[31m',
    name: 'not the name',
    status: 'not the status',
    'Unsubscribed At': 'nor this',
    'who@where.test': 'a title like an address',
    attributes: '{"x"}',
    ' edge': '1',
    formula: '=1+1',
    __proto: 'x',
  }
  await lists.within(async (store) => {
    const deps = { store, clock: systemClock, keyring: openKeyring(lists.data) }
    const found = store.first(raw('select * from audiences where id = ?', [audience])) as never
    await addContact(deps, found, {
      consent: ASSERTED,
      email: 'ann@there.test',
      name: 'Ann "A", x',
      custom_fields: hostile,
      preferences: { a: [1] },
    })
    await addContact(deps, found, { consent: ASSERTED, email: 'bob@there.test', custom_fields: { city: 'Bonn' } })
  })
  const more =
    'email,status\ncid@there.test,unsubscribed\ndan@there.test,bounced\neve@there.test,spam\nfay@there.test,active\ngus@there.test,active\n'
  await lists.commands.json('contacts', 'import', audience, lists.file(more))
  // Manually blocked: the export must not list the contact as "subscribed".
  await lists.commands.json('suppression', 'add', 'gus@there.test', '--domain', domain)
  const { code, stderr, stdout } = await lists.commands.run(['contacts', 'export', audience])
  assert.deepEqual([code, stderr], [0, ''])
  assert.match(stdout, /^email,name,status,[^\r\n]*attributes,preferences\r\n/)
  assert.ok(!stdout.includes('\u001b'))
  const here = await lists.people(audience)
  assert.deepEqual(await lists.commands.json('contacts', 'import', audience, lists.file(stdout)), {
    ...none,
    skipped: 7,
  })

  const elsewhere = await lists.domain('elsewhere.test')
  const other = await lists.audience('Elsewhere', elsewhere)
  assert.deepEqual(await lists.commands.json('contacts', 'import', other, lists.file(stdout)), {
    ...none,
    created: 3,
    unsubscribed: 1,
    suppressed: 3,
  })
  assert.deepEqual(
    await lists.people(other),
    here.filter(({ email }) => email !== 'gus@there.test'),
  )
  assert.ok((await lists.suppressed(elsewhere)).includes('gus@there.test list_import all'))
  const json = await lists.commands.json<unknown[]>('contacts', 'export', audience)
  assert.equal(json.length, 7)
  assert.match(await lists.commands.fails('contacts', 'export', 'Nobody'), /no audience "Nobody"/)
})
