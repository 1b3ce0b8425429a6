// Parsers of requests to the compatibility APIs: forms, filter expressions, JSON, keys.
import type { Context } from 'hono'
import { Refusal } from '../../src/base/errors.ts'
import { Keyring } from '../../src/base/keyring.ts'
import { Budget } from '../../src/base/memory.ts'
import { CompatError, type CompatApi, type CompatCall } from '../../src/compat/kit.ts'
import { mailgun } from '../../src/compat/mailgun.ts'
import { listEvents } from '../../src/compat/mailgun-events.ts'
import { parseFilter } from '../../src/compat/mailgun-filter.ts'
import { sendMessage, sendMime, timeIn } from '../../src/compat/mailgun-messages.ts'
import { resend } from '../../src/compat/resend.ts'
import { MAIL_BODY } from '../../src/jsonapi/body.ts'
import { around, both, of, type Parser } from './parser.ts'

const declared = (thrown: unknown): boolean => thrown instanceof CompatError || thrown instanceof Refusal

const bodies = new Budget(Infinity)
const keyring = new Keyring(Buffer.alloc(32))
const config = { http: { public_url: 'https://mx.test' } } as Parameters<typeof mailgun>[0]['config']
const events = listEvents({ keyring, publicUrl: () => 'https://mx.test' })

/** A call whose requests to the API end it: only the translation is tried. */
function callOf(bytes: Uint8Array<ArrayBuffer>, type: string, query: Record<string, string> = {}): CompatCall {
  const end = (): never => {
    throw new CompatError(422, [{ code: 'invalid', detail: 'The end.', field: 'metadata/x' }])
  }
  return {
    context: {
      req: { raw: new Request('http://mx.test/', { method: 'POST', body: bytes }), query: () => query },
    } as unknown as Context,
    ask: async () => end(),
    create: async () => end(),
    askForDomains: async () => [{ type: 'domains', id: '1', attributes: { name: 'here.test' } }],
    owner: 1,
    params: { domain: 'here.test' },
    limits: { most: MAIL_BODY, budget: bodies },
    header: (name) => (name === 'content-type' ? type : undefined),
  }
}

const plain = (bytes: Buffer): Uint8Array<ArrayBuffer> => new Uint8Array(bytes)

/** Reads a request, and writes the error in the client's words. */
async function answered(api: CompatApi, run: () => Promise<unknown>): Promise<void> {
  try {
    await run()
  } catch (thrown) {
    if (thrown instanceof CompatError) api.answerError(thrown)
    throw thrown
  }
}

const MAILGUN = mailgun({ config, keyring })
const MULTIPART = 'multipart/form-data; boundary=b'
const part = (name: string, value: string): string =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
const BEGIN = part('from', 'a@here.test') + part('to', 'b@there.test') + part('subject', 'x') + part('text', 'x')

const messageOf = (bytes: Buffer): Promise<void> =>
  answered(MAILGUN, () =>
    sendMessage(callOf(plain(bytes), bytes[0] === 0x2d ? MULTIPART : 'application/x-www-form-urlencoded')),
  )

const mimeOf = (bytes: Buffer): Promise<void> => {
  const form = Buffer.concat([
    Buffer.from(
      `${part('to', 'b@there.test')}--b\r\nContent-Disposition: form-data; name="message"; filename="m"\r\n\r\n`,
    ),
    bytes,
    Buffer.from('\r\n--b--\r\n'),
  ])
  return answered(MAILGUN, () => sendMime(callOf(plain(form), MULTIPART)))
}

async function eventsOf(bytes: Buffer): Promise<void> {
  const query = Object.fromEntries(new URLSearchParams(bytes.toString('latin1')))
  await answered(MAILGUN, () => events(callOf(new Uint8Array(), '', query)))
}

async function resendOf(bytes: Buffer): Promise<void> {
  const run = resend.endpoints.filter(({ method }) => method !== 'GET').map((endpoint) => endpoint.run)
  let last: unknown
  for (const each of run)
    await answered(resend, () => each(callOf(plain(bytes), ''))).catch((thrown: unknown) => {
      if (!declared(thrown)) throw thrown
      last = thrown
    })
  if (last !== undefined) throw last
}

const EMAIL = '{"from":"a@here.test","to":"b@there.test","subject":"x","html":"<p>","'

export const COMPAT: Record<string, Parser> = {
  'forms for Mailgun': {
    files: [
      'compat/mailgun-form.ts',
      'compat/mailgun-multipart.ts',
      'compat/mailgun-messages.ts',
      'compat/mailgun-unsubscribe.ts',
      'compat/mailgun.ts',
      'compat/kit.ts',
    ],
    seeds: both(
      around(
        [BEGIN, part('h:X-A', 'a'), '--b--\r\n'],
        [
          BEGIN,
          part('v:%recipient.a%', '%recipient.b%'),
          `${part('recipient-variables', '{"b@there.test":{"b":1}}')}--b--\r\n`,
        ],
      ),
      around([
        'from=a@here.test&text=x&to=',
        '"a, b" <b@there.test>, ',
        '&o:deliverytime=Fri, 14 Oct 2011 23:10:10 %2B0000',
      ]),
      around([
        BEGIN,
        '--b\r\nContent-Disposition: form-data; name*=utf-8\'\'a; filename="%22"\r\nContent-Type: a; charset=latin1\r\n',
        'Content-Transfer-Encoding: base64\r\n\r\nYQ==\r\n--b--\r\n',
      ]),
      around(['from=a@here.test&text=x&to=b@there.test&h:List-Unsubscribe=', '<https://x.test/>,', '']),
    ),
    parse: messageOf,
    declared,
  },
  'MIME messages for Mailgun': {
    files: ['compat/mailgun-messages.ts'],
    seeds: both(
      around(['From: a@here.test\r\n', 'X-Mailgun-Tag: a\r\n b\r\n', '\r\nHello\r\n']),
      around(['X-Mailgun-Variables: {"a":"', 'b', '"}\r\nX-Mailgun-Deliver-By: 1\r\n\r\n']),
    ),
    parse: mimeOf,
    declared,
  },
  'events for Mailgun': {
    files: ['compat/mailgun-events.ts', 'compat/mailgun-filter.ts'],
    seeds: both(
      around(
        ['event=', 'delivered OR "a b" AND c ', '&begin=1&end=2'],
        ['tags=', 'a AND ', 'b&recipient=a@b.test&limit=3'],
      ),
      of('begin=Fri, 14 Oct 2011 23:10:10 %2B0000&'),
    ),
    parse: eventsOf,
    declared,
  },
  'words for Mailgun': {
    files: ['compat/mailgun-filter.ts', 'compat/mailgun.ts', 'compat/records.ts'],
    seeds: both(
      of('a OR ', '"a" AND ', '"', 'a '),
      of('1795535030.118', 'Basic YTpi', 'Fri, 14 Oct 2011 23:10:10 GMT '),
    ),
    parse: (bytes) => {
      const words = bytes.toString('latin1')
      MAILGUN.authorization(words)
      for (const each of [parseFilter, timeIn])
        try {
          each('event', words)
        } catch (thrown) {
          if (!declared(thrown)) throw thrown
        }
    },
  },
  'emails for Resend': {
    files: ['compat/resend.ts', 'compat/kit.ts'],
    seeds: both(
      around(
        [`${EMAIL}attachments":[{"content":{"type":"Buffer","data":[0`, ',1', ']}}]}'],
        [`${EMAIL}attachments":[{"content":"`, 'YQ==\\n', '","path":"https://x.test/a"}]}'],
      ),
      around(
        [`${EMAIL}headers":{"List-Unsubscribe":"`, '<https://x.test/>,', '"}}'],
        [`${EMAIL}tags":[`, '{"name":"a","value":"b"},', '{}]}'],
      ),
      around(['{"scheduled_at":"in ', '1', ' min"}'], ['[', `${EMAIL}text":"x"},`, '{}]']),
    ),
    parse: resendOf,
    declared,
  },
}
