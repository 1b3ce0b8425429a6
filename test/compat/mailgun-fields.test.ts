// The table of Mailgun's fields is true: each field is read, refused or ignored as it says, and no other is read.
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { MailgunForm } from '../../src/compat/mailgun-form.ts'
import { MAILGUN_FIELDS } from '../../src/compat/mailgun-messages.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { DAY } from '../mail/mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'], open: true }))
ofFile(() => postrider.activeDomain('here.test'))

const MESSAGE = { from: 'ann@here.test', to: 'bob@there.test', subject: 'Hello', html: '<p>Hi</p>' }

/** Values of fields that cannot be "yes". */
const VALUES: Readonly<Record<string, () => string | File>> = {
  from: () => MESSAGE.from,
  to: () => MESSAGE.to,
  cc: () => 'carl@there.test',
  bcc: () => 'eve@there.test',
  attachment: () => new File(['a'], 'a.txt'),
  inline: () => new File(['b'], 'b.txt'),
  'h:Reply-To': () => 'visitor@elsewhere.test',
  'h:Message-Id': () => '<one@here.test>',
  'h:List-Unsubscribe': () => '<https://here.test/u/1>',
  'h:X-Mailgun-Variables': () => '{"order":"1"}',
  'o:deliverytime': () => String((postrider.clock.now() + DAY) / 1000),
  'o:tracking': () => 'no',
  'o:tracking-opens': () => 'no',
  'o:tracking-clicks': () => 'no',
  'recipient-variables': () => '{}',
}

/** Posts a message with one field more, or with another value of a field that it has. */
async function post(name: string, value: string | File) {
  const form = new FormData()
  for (const [field, text] of Object.entries(MESSAGE)) if (field !== name) form.append(field, text)
  form.append(name, value as string)
  const { body, headers, status } = await postrider.raw('/v3/here.test/messages', {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`api:${postrider.token}`).toString('base64')}` },
    body: form,
  })
  return { body, status, ignored: headers.get('postrider-ignored') }
}

/** A field whose name begins with a prefix of the table. */
const sampleOf = (name: string): string => name.replace('*', 'X-Other')

test('each field of the table is read, refused or ignored as it says', async () => {
  for (const { fate, name } of MAILGUN_FIELDS) {
    const field = sampleOf(name)
    const { body, ignored, status } = await post(field, VALUES[name]?.() ?? 'yes')
    const found =
      status === 400 && body.errors[0].field === field
        ? 'refused'
        : status === 200 && ignored === field
          ? 'ignored'
          : status === 200 && ignored === null
            ? undefined
            : JSON.stringify({ body, status, ignored })
    assert.equal(found, fate, name)
  }
})

test('no field is read that the table does not have', async () => {
  const readers = (['texts', 'files', 'content'] as const).map((name) => mock.method(MailgunForm.prototype, name))
  try {
    for (const name of ['recipient-variables', 'h:List-Unsubscribe', 'colour', 'o:dkim', 'amp-html'])
      await post(name, VALUES[name]?.() ?? 'yes')
    const listed = (field: string): boolean =>
      MAILGUN_FIELDS.some(
        ({ fate, name }) =>
          fate !== 'ignored' && (name.endsWith('*') ? field.startsWith(name.slice(0, -1)) : field === name),
      )
    const read = new Set(readers.flatMap(({ mock: { calls } }) => calls.map(({ arguments: [name] }) => name)))
    assert.ok(read.size > 15, String(read.size))
    assert.deepEqual(
      [...read].filter((name) => !listed(name)),
      [],
    )
  } finally {
    mock.restoreAll()
  }
})
