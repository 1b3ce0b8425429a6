// The table of Mailgun's fields is true: each field is read, refused or ignored as it says, and no other is read.
import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { MailgunForm, textFields } from '../../src/compat/mailgun-form.ts'
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

describe('a multipart form is read as by the parser of the runtime', () => {
  const TYPE = 'multipart/form-data; boundary=between'
  const part = (name: string, text: string, more = ''): string =>
    `--between\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${text}\r\n`
  const end = '--between--\r\n'
  const forms: Record<string, [form: string, isFast: boolean, type?: string]> = {
    texts: [part('from', 'a') + part('v:x', 'b\r\n--betwee\r\n') + part('from', '') + end, true],
    'bytes that are not UTF-8': [part('text', '\xc3\xff\xef\xbb\xbf') + end, true],
    'no line end behind it': [`${part('a', 'b')}--between--`, true],
    'no field': [end, true],
    'a byte order mark': [part('text', '\xef\xbb\xbfa') + end, false],
    'a file': [part('a', 'b', '; filename="c"') + end, false],
    'an escaped name': [part('a%22', 'b') + end, false],
    'a type of a part': [part('a', 'b', '\r\nContent-Type: text/plain') + end, false],
    'a long boundary': [
      `${part('a', 'b')}${end}`.replaceAll('between', 'b'.repeat(71)),
      false,
      TYPE.replace('between', 'b'.repeat(71)),
    ],
    'a part without its end': [part('a', 'b'), false],
    'a part without a header': [`--between\r\n\r\n${end}`, false],
    'a header without its end': [`--between\r\nContent-Disposition: form-data; name="a"\r\n${end}`, false],
    'a boundary that only begins like it': [
      `--betweenX\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n${end}`,
      false,
    ],
    'an end in the header': [
      `--between\r\nContent-Disposition: form-data; name="a"\r\n${end}\r\n${part('a', 'b')}${end}`,
      false,
    ],
    nothing: ['', false],
  }
  for (const [what, [form, isFast, type = TYPE]] of Object.entries(forms))
    test(what, async () => {
      const bytes = Buffer.from(form, 'latin1')
      const texts = textFields(bytes, type)
      assert.equal(texts !== undefined, isFast)
      const other = () => new Response(bytes, { headers: { 'Content-Type': type } }).formData()
      if (texts) assert.deepEqual(texts, [...((await other()) as unknown as Iterable<[string, string]>)])
    })
})
