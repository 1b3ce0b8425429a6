// `postrider suppression import`: suppression lists of seven services, in the columns that they are known to have.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Lists } from './lists.ts'

const lists = new Lists()
before(() => lists.open())
after(() => lists.close())

let domains = 0

/** Imports a list into a new domain. Returns the counts and the suppressions. */
async function bring(content: string, options: string[] = [], name?: string) {
  const domain = await lists.domain(`s${++domains}.test`)
  const counts = await lists.commands.json(
    'suppression',
    'import',
    lists.file(content, name),
    '--domain',
    domain,
    ...options,
  )
  return { domain, counts, suppressed: await lists.suppressed(domain) }
}
const none = { created: 0, updated: 0, skipped: 0, errors: [] }

const FORMATS: Record<
  string,
  { file?: string; options: string[]; content: string; suppressed: string[]; skipped?: number; incomplete?: true }
> = {
  'Amazon SES, the list as the AWS CLI prints it': {
    options: ['--from', 'ses'],
    content: JSON.stringify(
      {
        SuppressedDestinationSummaries: [
          { EmailAddress: 'ann@there.test', Reason: 'BOUNCE', LastUpdateTime: '2024-05-06T07:08:09.123000+00:00' },
          { EmailAddress: 'bob@there.test', Reason: 'COMPLAINT', LastUpdateTime: '2024-05-06T07:08:09.123000+00:00' },
        ],
        NextToken: 'more',
      },
      null,
      2,
    ),
    incomplete: true,
    suppressed: ['ann@there.test hard_bounce all', 'bob@there.test complaint all'],
  },
  'Amazon SES, the file for bulk actions': {
    options: ['--from', 'ses'],
    content: 'ann@there.test,BOUNCE\nbob@there.test, COMPLAINT\n',
    suppressed: ['ann@there.test hard_bounce all', 'bob@there.test complaint all'],
  },
  'Amazon SES, JSON on each line': {
    options: ['--from', 'ses'],
    content:
      '{"emailAddress": "ann@there.test", "reason": "BOUNCE"}\n{"emailAddress": "bob@there.test", "reason": "COMPLAINT"}\n',
    suppressed: ['ann@there.test hard_bounce all', 'bob@there.test complaint all'],
  },
  'Mailgun, bounces': {
    options: ['--from', 'mailgun'],
    content:
      'address,code,error,created_at\nann@there.test,550,"550 5.1.1 No such user","Mon, 06 May 2024 07:08:09 UTC"\n',
    suppressed: ['ann@there.test hard_bounce all'],
  },
  'Mailgun, unsubscribes': {
    options: ['--from', 'mailgun'],
    content: 'address,tags,created_at\nann@there.test,*,"Mon, 06 May 2024 07:08:09 UTC"\n',
    suppressed: ['ann@there.test unsubscribe marketing'],
  },
  'Mailgun, complaints': {
    options: ['--from', 'mailgun'],
    content: 'address,created_at\nann@there.test,"Mon, 06 May 2024 07:08:09 UTC"\n',
    suppressed: ['ann@there.test complaint all'],
  },
  'SendGrid, bounces': {
    options: ['--from', 'sendgrid'],
    file: 'suppression_bounces.csv',
    content: 'status,reason,email,created\n5.1.1,"550 5.1.1 unsubscribed, spam, who knows",ann@there.test,1714979289\n',
    suppressed: ['ann@there.test hard_bounce all'],
  },
  'SendGrid, blocks under another name': {
    options: ['--from', 'sendgrid'],
    file: 'export.csv',
    content:
      'email,created,reason,status\nann@there.test,1714979289,"unable to get mx info",4.0.0\nbob@there.test,1714979289,"450 4.7.1 try later",5.0.0\ncid@there.test,1714979289,"550 5.1.1 no such user",5.1.1\n',
    suppressed: ['cid@there.test hard_bounce all'],
    skipped: 2,
  },
  'Mailgun, bounces of which some were for now': {
    options: ['--from', 'mailgun'],
    content:
      'address,code,error,created_at\nann@there.test,421,"too busy",x\nbob@there.test,,"4.2.2 full",x\ncid@there.test,550,"no such user, 450 km away",x\n',
    suppressed: ['cid@there.test hard_bounce all'],
    skipped: 2,
  },
  'a list of reasons with the codes of replies': {
    options: [],
    content:
      'email,reason,smtp_code\nann@there.test,bounce,452\nbob@there.test,complaint,452\ncid@there.test,bounce,550\n',
    suppressed: ['bob@there.test complaint all', 'cid@there.test hard_bounce all'],
    skipped: 1,
  },
  'codes of replies, where the caller says why': {
    options: ['--reason', 'list_import'],
    content: 'email,status\nann@there.test,4.0.0\n',
    suppressed: ['ann@there.test list_import all'],
  },
  'SendGrid, spam reports': {
    options: ['--from', 'sendgrid'],
    file: 'suppression_spam_reports.csv',
    content: 'email,created,ip\nann@there.test,1714979289,192.0.2.1\n',
    suppressed: ['ann@there.test complaint all'],
  },
  'SendGrid, global unsubscribes': {
    options: ['--from', 'sendgrid'],
    file: 'suppression_unsubscribes.csv',
    content: 'email,created\nann@there.test,1714979289\n',
    suppressed: ['ann@there.test unsubscribe marketing'],
  },
  'SendGrid, invalid addresses': {
    options: ['--from', 'sendgrid'],
    file: 'suppression_invalid_emails.csv',
    content: 'reason,email,created\n"Known bad domain",ann@there.test,1714979289\n',
    suppressed: ['ann@there.test hard_bounce all'],
  },
  'Postmark, the dump': {
    options: ['--from', 'postmark'],
    content: JSON.stringify({
      Suppressions: [
        {
          EmailAddress: 'ann@there.test',
          SuppressionReason: 'HardBounce',
          Origin: 'Recipient',
          CreatedAt: '2024-05-06T07:08:09-05:00',
        },
        {
          EmailAddress: 'bob@there.test',
          SuppressionReason: 'SpamComplaint',
          Origin: 'Recipient',
          CreatedAt: '2024-05-06T07:08:09-05:00',
        },
        {
          EmailAddress: 'cid@there.test',
          SuppressionReason: 'ManualSuppression',
          Origin: 'Recipient',
          CreatedAt: '2024-05-06T07:08:09-05:00',
        },
        {
          EmailAddress: 'dan@there.test',
          SuppressionReason: 'ManualSuppression',
          Origin: 'Customer',
          CreatedAt: '2024-05-06T07:08:09-05:00',
        },
      ],
    }),
    suppressed: [
      'ann@there.test hard_bounce all',
      'bob@there.test complaint all',
      'cid@there.test unsubscribe marketing',
      'dan@there.test list_import all',
    ],
  },
  'Postmark, the same as CSV': {
    options: ['--from', 'postmark'],
    content:
      'EmailAddress,SuppressionReason,Origin,CreatedAt\nann@there.test,HardBounce,Recipient,2024-05-06T07:08:09-05:00\nbob@there.test,ManualSuppression,Recipient,2024-05-06T07:08:09-05:00\n',
    suppressed: ['ann@there.test hard_bounce all', 'bob@there.test unsubscribe marketing'],
  },
  'Brevo, contacts': {
    options: ['--from', 'brevo'],
    content:
      'CONTACT ID;EMAIL;EMAIL_BLACKLIST;SMS_BLACKLIST\n1;ann@there.test;true;false\n2;bob@there.test;false;true\n',
    suppressed: ['ann@there.test list_import all'],
    skipped: 1,
  },
  'Brevo, blocked contacts': {
    options: ['--from', 'brevo'],
    content: JSON.stringify({
      count: 4,
      contacts: [
        {
          email: 'ann@there.test',
          senderEmail: 'us@here.test',
          reason: { code: 'hardBounce', message: 'Hard bounced' },
          blockedAt: '2024-05-06T07:08:09Z',
        },
        {
          email: 'bob@there.test',
          senderEmail: 'us@here.test',
          reason: { code: 'contactFlaggedAsSpam', message: 'Flagged as spam' },
          blockedAt: '2024-05-06T07:08:09Z',
        },
        {
          email: 'cid@there.test',
          senderEmail: 'us@here.test',
          reason: { code: 'unsubscribedViaEmail', message: 'Unsubscribed' },
          blockedAt: '2024-05-06T07:08:09Z',
        },
        {
          email: 'dan@there.test',
          senderEmail: 'us@here.test',
          reason: { code: 'adminBlocked', message: 'Admin blocked' },
          blockedAt: '2024-05-06T07:08:09Z',
        },
      ],
    }),
    suppressed: [
      'ann@there.test hard_bounce all',
      'bob@there.test complaint all',
      'cid@there.test unsubscribe marketing',
      'dan@there.test list_import all',
    ],
  },
  'Mailchimp, cleaned': {
    options: ['--from', 'mailchimp'],
    content:
      '"Email Address","First Name",CLEAN_TIME,CLEAN_CAMPAIGN_TITLE,CLEAN_CAMPAIGN_ID,LEID,EUID\nann@there.test,Ann,"2024-05-06 07:08:09",May,1,2,3\n',
    suppressed: ['ann@there.test hard_bounce all'],
  },
  'Mailchimp, unsubscribed': {
    options: ['--from', 'mailchimp'],
    content:
      '"Email Address","First Name",UNSUB_TIME,UNSUB_CAMPAIGN_TITLE,UNSUB_CAMPAIGN_ID,UNSUB_REASON,UNSUB_REASON_OTHER,LEID,EUID\nann@there.test,Ann,"2024-05-06 07:08:09",May,1,NORMAL,,2,3\n',
    suppressed: ['ann@there.test unsubscribe marketing'],
  },
  'Mailchimp, the denylist of transactional mail': {
    options: ['--from', 'mailchimp'],
    content: [
      'email,reason,detail,created_at,last_event_at,expires_at,expired,subaccount',
      'ann@there.test,hard-bounce,550 mailbox does not exist,2024-05-06 07:08:09,2024-05-06 07:08:09,,false,',
      'bob@there.test,spam,,2024-05-06 07:08:09,2024-05-06 07:08:09,,false,',
      'cid@there.test,unsub,,2024-05-06 07:08:09,2024-05-06 07:08:09,,false,',
      'dan@there.test,custom,by hand,2024-05-06 07:08:09,2024-05-06 07:08:09,,false,',
      'eve@there.test,soft-bounce,full,2024-05-06 07:08:09,2024-05-06 07:08:09,2024-05-07 07:08:09,true,',
    ].join('\n'),
    suppressed: [
      'ann@there.test hard_bounce all',
      'bob@there.test complaint all',
      'cid@there.test unsubscribe marketing',
      'dan@there.test list_import all',
    ],
    skipped: 1,
  },
  'listmonk, subscribers': {
    options: ['--from', 'listmonk'],
    content:
      'uuid,email,name,attributes,status,created_at,updated_at\n1,ann@there.test,Ann,{},blocklisted,,\n2,bob@there.test,Bob,{},enabled,,\n3,cid@there.test,Cid,{},disabled,,\n',
    suppressed: ['ann@there.test list_import all', 'cid@there.test list_import all'],
    skipped: 1,
  },
  'a bare list': {
    options: [],
    content: 'ann@there.test\nbob@there.test\n',
    suppressed: ['ann@there.test list_import all', 'bob@there.test list_import all'],
  },
  'a list without reasons': {
    options: [],
    content: 'E-mail,note\nann@there.test,x\n',
    suppressed: ['ann@there.test list_import all'],
  },
  'a list with one reason for all': {
    options: ['--reason', 'complaint'],
    content: 'email\nann@there.test\n',
    suppressed: ['ann@there.test complaint all'],
  },
}

for (const [name, { content, file, incomplete, options, skipped = 0, suppressed }] of Object.entries(FORMATS))
  test(name, async () => {
    const brought = await bring(content, options, file)
    assert.deepEqual(brought.suppressed, suppressed)
    const page = incomplete ? { incomplete } : {}
    assert.deepEqual(brought.counts, { ...none, ...page, created: suppressed.length, skipped })
    const again = await lists.commands.json(
      'suppression',
      'import',
      lists.file(content, file),
      '--domain',
      brought.domain,
      ...options,
    )
    assert.deepEqual(again, { ...none, ...page, skipped: suppressed.length + skipped })
  })

test('rejects rows of pending entries, and reports that a file is one page of several', async () => {
  const domain = await lists.domain('pending.test')
  const file = lists.file('email,status\nann@there.test,bounced\nbob@there.test,pending\n')
  const { errors, skipped } = await lists.commands.json('suppression', 'import', file, '--domain', domain, '--force')
  assert.deepEqual([skipped, errors], [1, [{ line: 3, reason: 'has the unknown status "pending"' }]])
  for (const token of ['NextToken', 'nextToken', 'next_token']) {
    const page = { [token]: 'more', list: [{ email: 'ann@there.test', reason: 'BOUNCE' }] }
    const told = await lists.commands.run([
      'suppression',
      'import',
      lists.file(JSON.stringify(page)),
      '--domain',
      domain,
    ])
    assert.match(told.stdout, /one page of several/, token)
  }
})

test('changes contacts at once', async () => {
  const domain = await lists.domain('follow.test')
  const audience = await lists.audience('Follow', domain)
  await lists.commands.json('contacts', 'import', audience, lists.file('ann@there.test\nbob@there.test\n'))
  await lists.commands.json(
    'suppression',
    'import',
    lists.file('email,reason\nann@there.test,unsubscribe\nbob@there.test,BOUNCE\n'),
    '--domain',
    domain,
  )
  assert.deepEqual(
    (await lists.people(audience)).map(({ status }) => status),
    ['unsubscribed', 'bounced'],
  )
})

test('widens an entry and never weakens it', async () => {
  const { domain } = await bring(
    'email,reason,scope,expires_at\nann@there.test,manual,all,\nbob@there.test,manual,marketing,2999-01-01T00:00:00Z\n',
  )
  const file = lists.file(
    'email,reason,scope,expires_at\nann@there.test,manual,marketing,2999-01-01T00:00:00Z\nbob@there.test,manual,all,\n',
  )
  assert.deepEqual(await lists.commands.json('suppression', 'import', file, '--domain', domain), {
    ...none,
    updated: 1,
    skipped: 1,
  })
  assert.deepEqual(await lists.suppressed(domain), ['ann@there.test manual all', 'bob@there.test manual all'])
  const { stdout } = await lists.commands.run(['suppression', 'export', '--domain', domain])
  assert.doesNotMatch(stdout, /2999/)
})

test('imports exported suppressions without changes', async () => {
  const { domain } = await bring(
    'email,reason,scope,expires_at\nann@there.test,hard_bounce,all,\nbob@there.test,soft_bounce,all,2999-01-01T00:00:00.000Z\ncid@there.test,unsubscribe,marketing,\ndan@there.test,manual,marketing,\n',
  )
  const { code, stderr, stdout } = await lists.commands.run(['suppression', 'export', '--domain', domain])
  assert.deepEqual([code, stderr], [0, ''])
  assert.match(stdout, /^email,reason,scope,source,expires_at,created_at\r\nann@there\.test,hard_bounce,all,import,,2/)
  const elsewhere = await lists.domain('copy.test')
  assert.equal(
    (await lists.commands.json('suppression', 'import', lists.file(stdout), '--domain', elsewhere)).created,
    4,
  )
  assert.deepEqual(await lists.suppressed(elsewhere), await lists.suppressed(domain))
  const again = await lists.commands.run(['suppression', 'export', '--domain', elsewhere])
  const withoutTimes = (text: string) => text.replaceAll(/,[^,]*\r\n/g, '\n')
  assert.equal(withoutTimes(again.stdout), withoutTimes(stdout))
  assert.equal((await lists.commands.json<unknown[]>('suppression', 'export', '--domain', domain)).length, 4)
})

test('rejects invalid files with the remedy', async () => {
  const domain = await lists.domain('refused.test')
  const fails = (content: string | Uint8Array, options: string[] = [], name?: string) =>
    lists.commands.fails('suppression', 'import', lists.file(content, name), '--domain', domain, ...options)
  assert.match(await fails('name\nAnn\n'), /no email address column, such as "email"; its first line is: name\./)
  assert.match(
    await fails('email,created\nann@there.test,1\n', ['--from', 'sendgrid'], 'list.csv'),
    /--reason hard_bounce\|complaint/,
  )
  assert.match(
    await fails(
      'status,reason,email,created\n4,x,ann@there.test,1\n',
      ['--from', 'sendgrid'],
      'suppression_blocks.csv',
    ),
    /keeps sending to.*--reason/,
  )
  assert.match(await fails('email,reason\nann@there.test,because\n'), /line 2 has the unknown reason "because"/)
  assert.match(await fails('{"a": 1}'), /no email address column/)
  assert.match(await fails('[1, 2]'), /not valid JSON/)
  assert.match(await fails(''), /empty/)
  assert.match(
    await fails('email,reason,expires_at\nann@there.test,manual,soon\n'),
    /has the expires_at "soon", which is not a time/,
  )
  assert.match(await fails('email,scope\nann@there.test,some\n'), /has the scope "some" instead of all or marketing/)
  assert.match(
    await lists.commands.fails('suppression', 'import', 'none.csv', '--domain', domain),
    /the file does not exist/,
  )
  assert.match(
    await lists.commands.fails('suppression', 'import', lists.file('ann@there.test\n'), '--domain', 'no.test'),
    /no domain no\.test/,
  )
  assert.deepEqual(await lists.suppressed(domain), [])
  const forced = await lists.commands.json(
    'suppression',
    'import',
    lists.file('email,reason\nann@there.test,because\nbob@there.test,spam\n'),
    '--domain',
    domain,
    '--force',
  )
  assert.deepEqual([forced.created, forced.skipped, forced.errors.length], [1, 1, 1])
})
