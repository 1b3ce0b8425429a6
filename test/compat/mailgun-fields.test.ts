// The table of Mailgun's fields is true: each field is read, refused or ignored as it says, and no other is read.
import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { CompatError } from '../../src/compat/kit.ts'
import { MailgunForm } from '../../src/compat/mailgun-form.ts'
import { MAILGUN_FIELDS } from '../../src/compat/mailgun-messages.ts'
import { fieldsIn } from '../../src/compat/mailgun-multipart.ts'
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

function formOf(fields: readonly [string, string | File][]): FormData {
  const form = new FormData()
  for (const [name, value] of fields) form.append(name, value as string)
  return form
}

/** Posts a form with these fields. */
const postFields = (
  fields: [string, string][],
  path = 'messages',
  form: (fields: [string, string][]) => FormData | URLSearchParams = formOf,
) =>
  postrider.raw(`/v3/here.test/${path}`, {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`api:${postrider.token}`).toString('base64')}` },
    body: form(fields),
  })

/** A field whose name begins with a prefix of the table. */
const sampleOf = (name: string): string => name.replace('*', 'X-Other')

test('each field of the table is read, refused or ignored as it says', async () => {
  for (const { fate, name } of MAILGUN_FIELDS) {
    const field = sampleOf(name)
    const { body, ignored, status } = await post(field, VALUES[name]?.() ?? 'yes')
    const found =
      status === 400 && body.errors[0].field === field
        ? 'refused'
        : status === 200 && ignored === field.toLowerCase()
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

/** The body of a multipart form. `more`: further lines of the part's header. */
const part = (name: string, text: string, more = ''): string =>
  `--between\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${text}\r\n`
const END = '--between--\r\n'
const MULTIPART = 'multipart/form-data; boundary=between'
const URLENCODED = 'application/x-www-form-urlencoded'
const latin1 = (text: string): Buffer<ArrayBuffer> => Buffer.from(text, 'latin1')

describe('a form is read as by the parser of the runtime', () => {
  const read = async (fields: Iterable<[string, string | File]>) =>
    Promise.all(
      [...fields].map(async ([name, value]) => [
        name,
        typeof value === 'string' ? value : [value.name, latin1(await value.text()).toString()],
      ]),
    )
  const forms: Record<string, [form: string, type?: string]> = {
    texts: [part('from', 'a') + part('v:x', 'b\r\n--betwee\r\n') + part('from', '') + END],
    'no line end behind it': [`${part('a', 'b')}--between--`],
    'no field': [END],
    'a byte order mark': [part('text', '\xef\xbb\xbfa') + END],
    'a file': [part('a', 'b', '; filename="c%22\xc3\xa4.txt"\r\nContent-Type: text/plain') + END],
    'a file of base64': [part('a', 'YWI=', '; filename="c"\r\nContent-Transfer-Encoding: base64') + END],
    'a quoted boundary': [part('a', 'b') + END, 'multipart/form-data; charset=utf-8; boundary="between"'],
    'an escaped name': [part('a%22', 'b') + END],
    'a type of a part': [part('a', '\xc3\xa4', '\r\nContent-Type: text/plain; charset=UTF-8') + END],
    'an urlencoded form': ['a=b&&c&d=%c3%a4+%2B%zz%4&=e&f==', URLENCODED],
    'an empty urlencoded form': ['', `${URLENCODED}; charset=utf-8`],
  }
  for (const [what, [form, type = MULTIPART]] of Object.entries(forms))
    test(what, async () => {
      const expected = await new Response(latin1(form), { headers: { 'Content-Type': type } }).formData()
      assert.deepEqual(
        fieldsIn(latin1(form), type).map(([name, value]) => [
          name,
          typeof value === 'string' ? value : [value.filename, value.bytes.toString()],
        ]),
        await read(expected as unknown as Iterable<[string, string | File]>),
      )
    })
})

describe('a form is refused with 400', () => {
  const forms: Record<string, [form: string, names: RegExp, type?: string]> = {
    'without its boundary': [part('a', 'b') + END, /must be a form/, 'multipart/form-data'],
    'with a part without its end': [part('a', 'b'), /must be a form/],
    'with a part without a header': [`--between\r\n\r\n${END}`, /must be a form/],
    'with a part without a name': [`--between\r\nContent-Type: text/plain\r\n\r\na\r\n${END}`, /must be a form/],
    'with a header without its end': [
      `--between\r\nContent-Disposition: form-data; name="a"\r\n${END}`,
      /must be a form/,
    ],
    'with a boundary that only begins like it': [part('a', 'b').replace('between', 'betweenX') + END, /must be a form/],
    'that is empty': ['', /must be a form/],
    'of another type': ['{}', /must be a form/, 'application/json'],
    'with a text that is not UTF-8': [part('text', '\xe4') + END, /"text" is not valid UTF-8/],
    'with an urlencoded text that is not UTF-8': ['subject=%e4', /"subject" is not valid UTF-8/, URLENCODED],
    'with an unknown charset': [part('text', 'a', '\r\nContent-Type: text/plain; charset=x-none') + END, /"x-none"/],
    'with an unknown encoding': [part('text', 'a', '\r\nContent-Transfer-Encoding: uuencode') + END, /"uuencode"/],
  }
  for (const [what, [form, names, type = MULTIPART]] of Object.entries(forms))
    test(what, () =>
      assert.throws(
        () => fieldsIn(latin1(form), type),
        (thrown) => thrown instanceof CompatError && thrown.status >= 400 && names.test(thrown.message),
      ),
    )
})

describe('a form in another charset is decoded', () => {
  test('if its Content-Type names the charset', () =>
    assert.deepEqual(fieldsIn(latin1('subject=Gr%FC%DFe'), `${URLENCODED}; charset=ISO-8859-1`), [
      ['subject', 'Grüße'],
    ]))
  test('if the Content-Type of a part names the charset', () =>
    assert.deepEqual(
      fieldsIn(
        latin1(part('a', 'Gr\xfc\xdfe', '\r\nContent-Type: text/plain; charset="windows-1252"') + END),
        MULTIPART,
      ),
      [['a', 'Grüße']],
    ))
})

describe('a message is refused', () => {
  const refusedWith = async (fields: [string, string][], field: string, names: RegExp, path = 'messages') => {
    const { body, status } = await postFields([...fields, ...(path === 'messages' ? missing(fields) : [])], path)
    assert.equal(status, 400, JSON.stringify(body))
    assert.equal(body.errors[0].field, field)
    assert.match(body.message, names)
  }
  const missing = (fields: [string, string][]) =>
    Object.entries(MESSAGE).filter(([name]) => !fields.some(([other]) => other.toLowerCase() === name))
  for (const name of ['from', 'subject', 'html', 'o:deliverytime', 'o:tracking', 'recipient-variables', 'v:a', 'h:X-A'])
    test(`if it has "${name}" twice`, () => {
      const value = MESSAGE[name as 'from'] ?? (name === 'recipient-variables' ? '{}' : 'no')
      return refusedWith(
        [
          [name, value],
          [name, value],
        ],
        name,
        /can have one value, and the request has 2/,
      )
    })
  test('if the name of a refused option has another case', () =>
    refusedWith([['o:Testmode', 'yes']], 'o:testmode', /no test mode/))
  test('if it has a placeholder for an unsubscribe link of Mailgun, with recipient variables or without', async () => {
    for (const placeholder of ['%unsubscribe_url%', '%tag_unsubscribe_url%', '%mailing_list_unsubscribe_url%'])
      for (const [field, fields] of [
        ['html', [['html', `<a href="${placeholder}">`]]],
        ['text', [['text', placeholder]]],
        ['subject', [['subject', placeholder]]],
        ['h:X-A', [['h:X-A', placeholder]]],
      ] as [string, [string, string][]][]) {
        await refusedWith(fields, field, /is not supported in "[\w:-]+"/i)
        await refusedWith([...fields, ['recipient-variables', '{}']], field, /is not supported in "[\w:-]+"/i)
      }
  })
  test('if it is a MIME message with recipient variables or a placeholder for an unsubscribe link', async () => {
    const mime = 'From: ann@here.test\r\nSubject: x\r\n\r\nHello %recipient.name%\r\n'
    const to: [string, string] = ['to', MESSAGE.to]
    await refusedWith(
      [to, ['message', mime], ['recipient-variables', `{"${MESSAGE.to}":{"name":"Bob"}}`]],
      'recipient-variables',
      /cannot have recipient variables/,
      'messages.mime',
    )
    await refusedWith([to, ['message', `${mime}%unsubscribe_url%`]], 'message', /%unsubscribe_url%/, 'messages.mime')
  })
  test('if the time zone of its time does not exist, or is missing', async () => {
    for (const time of ['Fri, 14 Oct 2011 23:10:10 +9900', 'Fri, 14 Oct 2011 23:10:10 -1401', '14 Oct 2011 23:10:10'])
      await refusedWith([['o:deliverytime', time]], 'o:deliverytime', /time zone up to 14 hours/)
  })
})

test('members with the name __proto__ are kept', async () => {
  const { body, headers, status } = await postFields([
    ...Object.entries(MESSAGE),
    ['v:__proto__', 'a'],
    ['h:X-Mailgun-Variables', '{"constructor":"b"}'],
  ])
  assert.equal(status, 200, JSON.stringify(body))
  const email = await postrider.api('GET', `/outbound-emails/${headers.get('postrider-email')}`)
  assert.deepEqual(email.body.data.attributes.metadata, JSON.parse('{"__proto__":"a","constructor":"b"}'))
  const header = await postFields([...Object.entries(MESSAGE), ['h:__proto__', 'a']])
  assert.equal(header.status, 200, JSON.stringify(header.body))
  const withHeader = await postrider.api('GET', `/outbound-emails/${header.headers.get('postrider-email')}`)
  assert.deepEqual(Object.entries(withHeader.body.data.attributes.headers), [['__proto__', 'a']])
  const batch = await postFields([
    ...Object.entries(MESSAGE).filter(([name]) => name !== 'html'),
    ['html', 'Hello %recipient.__proto__%'],
    ['h:X-Mailgun-Variables', '{"__proto__":"%recipient.__proto__%"}'],
    ['recipient-variables', `{"${MESSAGE.to}":{"__proto__":"Bob"}}`],
  ])
  assert.equal(batch.status, 200, JSON.stringify(batch.body))
  const emails = await postrider.api('GET', `/outbound-emails?filter[batch]=${batch.headers.get('postrider-batch')}`)
  const one = await postrider.api('GET', `/outbound-emails/${emails.body.data[0].id}`)
  assert.deepEqual(
    [one.body.data.attributes.html, one.body.data.attributes.metadata['__proto__']],
    ['Hello Bob', 'Bob'],
  )
})

test('a form has at most 2,500 fields', async () => {
  const fields = (count: number): [string, string][] => [
    ...Object.entries(MESSAGE),
    ...Array.from({ length: count - Object.keys(MESSAGE).length }, (_, index): [string, string] => [`x${index}`, '']),
  ]
  const asText = (all: [string, string][]) => new URLSearchParams(all)
  for (const form of [asText, undefined]) {
    assert.equal((await postFields(fields(2500), 'messages', form)).status, 200)
    assert.equal((await postFields(fields(2501), 'messages', form)).status, 413)
  }
})

test('large files of a form are stored byte for byte', async () => {
  const files = [1_100_000, 9_000_000, 1_100_000].map((size, index) => Buffer.alloc(size, `${index} file of a form `))
  const form = formOf(Object.entries(MESSAGE))
  for (const [index, file] of files.entries()) form.append('attachment', new File([file], `${index}.bin`))
  const { body, headers, status } = await postrider.raw('/v3/here.test/messages', {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`api:${postrider.token}`).toString('base64')}` },
    body: form,
  })
  assert.equal(status, 200, JSON.stringify(body))
  const raw = await postrider.api('GET', `/outbound-emails/${headers.get('postrider-email')}/raw`)
  const text = String(raw.body).replaceAll('\r\n', '')
  for (const file of files) assert.ok(text.includes(file.toString('base64')))
})
