// Status columns with titles of other services (D225): each is applied, or stops the import until it is mapped. An
// unsubscribed contact is never resubscribed.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { StatusLike } from '../../src/lists/status-like.ts'
import { Lists } from './lists.ts'

const lists = new Lists()
before(() => lists.open())
after(() => lists.close())

let made = 0

const audience = async (): Promise<string> => {
  const domain = await lists.domain(`l${++made}.test`)
  return lists.audience(`L${made}`, domain)
}

async function statuses(content: string, options: string[] = []): Promise<Record<string, string>> {
  const into = await audience()
  await lists.commands.json('contacts', 'import', into, lists.file(content), ...options)
  return Object.fromEntries((await lists.people(into)).map(({ email, status }) => [email.split('@')[0]!, status]))
}

const refusal = async (content: string, options: string[] = []): Promise<string> => {
  const into = await audience()
  const said = await lists.commands.fails('contacts', 'import', into, lists.file(content), ...options)
  assert.deepEqual(await lists.people(into), [])
  return said
}

const map = (...maps: string[]): string[] => maps.flatMap((one) => ['--map', one])

const OBEYED: Record<string, { titles: string; rows: Record<string, string>; expected: Record<string, string> }> = {
  Ghost: {
    titles:
      'id,email,name,note,subscribed_to_emails,complimentary_plan,stripe_customer_id,created_at,deleted_at,labels,tiers',
    rows: {
      ann: '7,ann@p.test,Ann,,true,false,,2025-03-04T05:06:07.000Z,,news,',
      bob: '8,bob@p.test,Bob,,false,false,,2025-03-04T05:06:07.000Z,,,',
      cid: '9,cid@p.test,Cid,,true,false,,2025-03-04T05:06:07.000Z,2025-04-04T05:06:07.000Z,,',
    },
    expected: { ann: 'subscribed', bob: 'unsubscribed', cid: 'unsubscribed' },
  },
  Substack: {
    titles: 'email,active_subscription,expiry,plan,email_disabled,created_at,first_payment_at',
    rows: {
      ann: 'ann@p.test,true,2027-01-01,yearly,false,2025-03-04T05:06:07.000Z,',
      bob: 'bob@p.test,false,,other,true,2025-03-04T05:06:07.000Z,',
    },
    expected: { ann: 'subscribed', bob: 'unsubscribed' },
  },
  MailPoet: {
    titles: 'Email,First name,List,Global status,List status',
    rows: {
      ann: 'ann@p.test,Ann,News,Subscribed,Subscribed',
      bob: 'bob@p.test,Bob,News,Subscribed,Unsubscribed',
      cid: 'cid@p.test,Cid,News,Bounced,Subscribed',
    },
    expected: { ann: 'subscribed', bob: 'unsubscribed', cid: 'bounced' },
  },
  'Constant Contact': {
    titles:
      '"Email address","First name","Email permission status","Email update source","Confirmed opt-out date","Confirmed opt-out reason"',
    rows: {
      ann: 'ann@p.test,Ann,Express,Website,,',
      bob: 'bob@p.test,Bob,Unsubscribed,Contact,2025-02-03,too many',
      cid: 'cid@p.test,Cid,Implied,Contact,2025-02-03,',
    },
    expected: { ann: 'subscribed', bob: 'unsubscribed', cid: 'unsubscribed' },
  },
  Buttondown: {
    titles: 'email,notes,metadata,tags,subscriber_type,source,creation_date,unsubscription_date',
    rows: {
      ann: 'ann@p.test,,{},,regular,api,2025-03-04,',
      bob: 'bob@p.test,,{},,unsubscribed,api,2025-03-04,2025-03-05',
      cid: 'cid@p.test,,{},,undeliverable,api,2025-03-04,',
    },
    expected: { ann: 'subscribed', bob: 'unsubscribed', cid: 'bounced' },
  },
  'German titles': {
    titles: 'E-Mail;Vorname;Status;Anmeldedatum;Abgemeldet am;Gesperrt',
    rows: {
      ann: 'ann@p.test;Ann;aktiv;2025-03-04;;nein',
      bob: 'bob@p.test;Bob;abgemeldet;2025-03-04;;nein',
      cid: 'cid@p.test;Cid;aktiv;2025-03-04;04.05.2025;nein',
      dan: 'dan@p.test;Dan;Angemeldet;2025-03-04;;WAHR',
    },
    // Blocked contacts get a suppression and are not in the audience.
    expected: { ann: 'subscribed', bob: 'unsubscribed', cid: 'unsubscribed' },
  },
}

for (const [program, { expected, rows, titles }] of Object.entries(OBEYED))
  test(`obeys the status columns of a ${program} export`, async () => {
    assert.deepEqual(await statuses([titles, ...Object.values(rows)].join('\n')), expected)
  })

/** Titles and cells that are in no table. The last cell is that of an unsubscribed contact. */
const STOPS: [title: string, ...cells: string[]][] = [
  ['active', '1', '0'],
  ['enabled', '1', '0'],
  ['accept', '1', '0'],
  ['Aktiv', 'ja', 'nein'],
  ['Newsletter', 'x', ''],
  ['Einwilligung', 'Ja', 'Nein'],
  ['Empfänger gesperrt', '', 'ja'],
  ['newsletter_disabled', 'false', 'true'],
  ['Do not email me', '', 'x'],
  ['Opted out of email: News', '', '2025-02-03'],
  ['Desuscrito el', '', '03/02/2025'],
  ['Consentement', 'oui', 'non'],
  ['Mailing list status', 'in', 'out'],
  ['Zustand', 'aktiv', 'abgemeldet'],
  ['type', 'regular', 'unsubscribed'],
  ['x', 'active', 'cancelled'],
  ['Estado', 'Activo', 'Baja'],
  ['Fecha de baja', '', '2024-01-01'],
  ['Situação', 'Ativo', 'Descadastrado'],
  ['Статус', 'Активен', 'Отписан'],
  ['Wypisany', 'nie', 'tak'],
  ['LISTE_NOIRE_EMAIL', '0', '1'],
]

test('finds unknown status columns by their titles and cells', () => {
  for (const [title, ...cells] of STOPS) {
    const like = new StatusLike([title], [0], false)
    for (const cell of cells) like.see([cell])
    assert.deepEqual(
      like.found.map(({ index }) => index),
      [0],
      title,
    )
  }
})

test('stops an import with an unknown status column, and explains how to map it', async () => {
  const said = await refusal('email,Aktiv\nann@p.test,ja\nbob@p.test,nein\n')
  assert.match(said, /"Aktiv".*nothing was imported.*--map "subscribed=Aktiv".*--map "unsubscribed=Aktiv"/)
})

test('takes columns about other things as fields', () => {
  for (const [title, ...cells] of [
    ['subscribed_at', '2025-01-02', '1717236000'],
    ['Subscription plan', 'yes', 'active'],
    ['Unsubscribe reason', 'too many', 'no'],
    ['SMS opt-in', 'yes', 'no'],
    ['Membership status', 'gold', 'active'],
    ['VIP', 'yes', 'no'],
    ['City', 'Rome', ''],
    ['Newsletter', '', ''],
  ] as const) {
    const like = new StatusLike([title], [0], false)
    for (const cell of cells) like.see([cell])
    assert.deepEqual(like.found, [], title)
  }
})

test('reads yes and no of a mapped column by its title or by --map', async () => {
  const file = (title: string): string => `email,${title}\nann@p.test,true\nbob@p.test,false\n`
  const [stays, leaves] = [
    { ann: 'subscribed', bob: 'unsubscribed' },
    { ann: 'unsubscribed', bob: 'subscribed' },
  ]
  assert.deepEqual(await statuses(file('subscribed_to_emails'), map('status=subscribed_to_emails')), stays)
  assert.deepEqual(await statuses(file('gets_newsletter'), map('status=gets_newsletter')), stays)
  assert.deepEqual(await statuses(file('mail_disabled'), map('status=mail_disabled')), leaves)
  assert.deepEqual(await statuses(file('active'), map('subscribed=active')), stays)
  assert.deepEqual(await statuses(file('active'), map('unsubscribed=active')), leaves)
  assert.deepEqual(await statuses(file('active'), map('active=active')), { ann: 'subscribed', bob: 'subscribed' })
  assert.deepEqual(await statuses(file('active'), map('status=')), { ann: 'subscribed', bob: 'subscribed' })
  assert.match(await refusal(file('x'), map('status=x')), /unknown x "true".*"subscribed" or "unsubscribed"/)
})

test('keeps obeying known columns beside a mapped one, and takes several', async () => {
  const list =
    'email,active,accept,unsubscribed\nann@p.test,1,1,\nbob@p.test,0,1,\ncid@p.test,1,0,\ndan@p.test,1,1,yes\n'
  const expected = { ann: 'subscribed', bob: 'unsubscribed', cid: 'unsubscribed', dan: 'unsubscribed' }
  assert.deepEqual(await statuses(list, map('subscribed=active', 'subscribed=accept')), expected)
  assert.match(await refusal(list, map('subscribed=active')), /"accept"/)
})

test('distinguishes 1 from -1, and maps values with --status', async () => {
  const list = 'email,status\nann@p.test,1\nbob@p.test,-1\ncid@p.test,0\n'
  assert.match(await refusal(list), /unknown .* "1"/)
  const words = ['1=subscribed', '-1=unsubscribed', '0=unconfirmed'].flatMap((word) => ['--status', word])
  assert.deepEqual(await statuses(list, words), { ann: 'subscribed', bob: 'unsubscribed' })
  assert.match(await refusal(list, ['--status', '1=gone']), /--status must be VALUE=STATUS/)
})

test('never subscribes a contact with an empty cell under "subscribed"', async () => {
  assert.match(await refusal('email,subscribed\nann@p.test,\n'), /no value in subscribed/)
})

test('stops a list of suppressions with an unknown status column until it is mapped', async () => {
  const suppress = async (content: string, ...options: string[]): Promise<string[]> => {
    const domain = await lists.domain(`l${++made}.test`)
    await lists.commands.json('suppression', 'import', lists.file(content), '--domain', domain, ...options)
    return lists.suppressed(domain)
  }
  const list = 'email,active\nann@p.test,yes\nbob@p.test,no\n'
  assert.match(
    await lists.commands.fails('suppression', 'import', lists.file(list), '--domain', 'here.test'),
    /"active".*--map status=COLUMN/,
  )
  const [ann, bob] = ['ann@p.test', 'bob@p.test']
  assert.deepEqual(await suppress(list, ...map('subscribed=active')), [`${bob} unsubscribe marketing`])
  assert.deepEqual(await suppress(list, ...map('note=active')), [`${ann} list_import all`, `${bob} list_import all`])
  assert.deepEqual(await suppress('email,subscribed_to_emails\nann@p.test,true\nbob@p.test,false\n'), [
    `${bob} unsubscribe marketing`,
  ])
})

test('takes blank rows as empty and cells left out at the end as empty cells', async () => {
  const list =
    'email,name,unsubscribed,city\nann@p.test,Ann,,Rome,,\n,,,\n"","",""\n  , ,\nbob@p.test\ncid@p.test,Cid,yes\n'
  const into = await audience()
  const counts = await lists.commands.json('contacts', 'import', into, lists.file(list))
  assert.deepEqual([counts['created'], counts['unsubscribed'], counts['skipped']], [2, 1, 0])
  const domain = await lists.domain(`l${++made}.test`)
  const suppressions = lists.file(',\nemail,reason\nann@p.test,\n,\n,\nbob@p.test\ncid@p.test,complaint\n')
  await lists.commands.json('suppression', 'import', suppressions, '--domain', domain)
  assert.deepEqual(await lists.suppressed(domain), [
    'ann@p.test list_import all',
    'bob@p.test list_import all',
    'cid@p.test complaint all',
  ])
})

test('finds columns whose titles have accents', async () => {
  for (const [titles, name] of [
    ['Correo electrónico,Nombre,Apellidos', 'José Núñez'],
    ['Adresse e-mail,Prénom,Nom', 'José Núñez'],
    ['Correo electro\u0301nico,NOMBRE,APELLIDOS', 'José Núñez'],
  ]) {
    const into = await audience()
    await lists.commands.json('contacts', 'import', into, lists.file(`${titles}\nann@p.test,José,Núñez\n`))
    assert.equal((await lists.people(into))[0]!.name, name)
  }
})
