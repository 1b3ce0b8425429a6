// Parsers of requests: JSON:API, registrations of programs, passkeys, sealed tokens.
import { readRegistration, hostOf, readDocument as readDescription, urlFault } from '../../src/users/oauth/clients.ts'
import { PasskeyCeremonies } from '../../src/users/passkeys.ts'
import { addUser } from '../../src/users/users.ts'
import { resourcesOf } from '../../src/http/server.ts'
import { loadParts } from '../../src/server/parts.ts'
import { Refusal } from '../../src/base/errors.ts'
import { Keyring } from '../../src/base/keyring.ts'
import { parseEndpoint } from '../../src/base/network.ts'
import { readUnsubscribeToken, unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import { readCursor, writeCursor } from '../../src/jsonapi/cursor.ts'
import { JsonGuard } from '../../src/jsonapi/json-guard.ts'
import { checkAccept, checkContentType } from '../../src/jsonapi/media.ts'
import { parseQuery, type Types } from '../../src/jsonapi/query.ts'
import { checkForbidden, checkIdentity, parseDocument, readRelationships, validate } from '../../src/jsonapi/request.ts'
import type { Param, Resource } from '../../src/jsonapi/resource.ts'
import {
  readReturnPathToken,
  readUnsubscribeLocalPart,
  returnPathToken,
  unsubscribeLocalPart,
} from '../../src/message/return-path.ts'
import { fieldsOf, inputOf } from '../../src/forms/signup-input.ts'
import {
  confirmUrl,
  isChecked,
  readConfirmToken,
  readFormToken,
  sealCheck,
  sealFormToken,
} from '../../src/forms/tokens.ts'
import type { FormTexts } from '../../src/forms/versions.ts'
import { openToken } from '../../src/base/sealed-token.ts'
import { dataUrl } from '../../src/recipients/data-link.ts'
import { acceptedLanguages, languageIn } from '../../src/recipients/languages.ts'
import { pixelOf, readClickToken, readOpenToken, trackedUrl } from '../../src/message/tracking.ts'
import { allOf, searched } from '../../src/mail/search.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { silentLog } from '../../src/base/log.ts'
import { ManualClock } from '../kit/clock.ts'
import { around, both, of, text, type Parser } from './parser.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const resources = resourcesOf(await loadParts())

const refused = (thrown: unknown): boolean => thrown instanceof Refusal

const TYPES: Types = new Map(resources.map((each) => [each.type, each as Resource<never>]))
const MAILS = TYPES.get('outbound-emails')!
const PARAMS: readonly Param[] = ['filter', 'sort', 'include', 'fields', 'page']

const DOCUMENTS = (): Buffer[] =>
  [
    { type: 'outbound-emails', attributes: { from: 'a@here.test', to: 'b@there.test', subject: 'x', html: '<p>x' } },
    { type: 'webhooks', attributes: { url: 'https://x.test', event_types: ['email.sent'] } },
    {
      type: 'campaigns',
      id: '1',
      attributes: {},
      relationships: { audience: { data: { type: 'audiences', id: '1' } } },
    },
    { type: 'contacts', attributes: { contacts: [{ email: 'a@b.test', custom_fields: { a: null, b: [1, {}] } }] } },
  ].map((data) => Buffer.from(JSON.stringify({ data })))

function readDocument(bytes: Buffer): void {
  // In one piece, as a small body is read, and in several, as a large one is.
  for (const piece of [bytes.length, 5000]) {
    const guard = new JsonGuard()
    for (let at = 0; at < bytes.length; at += piece) guard.push(bytes.subarray(at, at + piece))
  }
  const document = parseDocument(bytes.toString('utf8'))
  const asCreation = (resource: Resource<never>): void => {
    checkForbidden(document, resource)
    readRelationships(document, resource)
    checkIdentity(document, resource.type)
  }
  for (const resource of TYPES.values())
    for (const each of [
      () => asCreation(resource),
      () => checkIdentity(document, resource.type, '1'),
      () => validate(resource, 'create', document),
      () => validate(resource, 'update', document),
    ])
      try {
        each()
      } catch (thrown) {
        if (!refused(thrown)) throw thrown
      }
}

const clock = new ManualClock()
const keyring = new Keyring(Buffer.alloc(32))

const PUBLIC_URL = 'https://here.test'
const session = { id: 'one' }

async function opened() {
  const store = openStore(temporaryDirectory('store'))
  const user = await addUser({ store, clock }, { email: 'ann@here.test', name: 'Ann' })
  return {
    store,
    user,
    passkeys: new PasskeyCeremonies({
      store,
      clock,
      keyring,
      log: silentLog,
      config: { http: { public_url: PUBLIC_URL } },
    }),
  }
}
let deps: ReturnType<typeof opened> | undefined
/** A database with one person, made when a parser asks for it. */
const deskNow = (): ReturnType<typeof opened> => (deps ??= opened())

/** An attestation of no statement (WebAuthn §8.7), its key one of P-256. */
const ATTESTATION = Buffer.concat([
  Buffer.from('a363666d74646e6f6e656761747453746d74a068617574684461746158a4', 'hex'),
  Buffer.alloc(32, 1),
  Buffer.from('4500000000', 'hex'),
  Buffer.alloc(16),
  Buffer.from('0020', 'hex'),
  Buffer.alloc(32, 2),
  Buffer.from('a5010203262001215820', 'hex'),
  Buffer.alloc(32, 3),
  Buffer.from('225820', 'hex'),
  Buffer.alloc(32, 4),
])

async function registered(bytes: Buffer): Promise<boolean> {
  const { passkeys, user } = await deskNow()
  const { challenge } = (await passkeys.register({ user, session })) as { challenge: string }
  const said = JSON.stringify({ type: 'webauthn.create', challenge, origin: PUBLIC_URL })
  const id = Buffer.alloc(32, 2).toString('base64url')
  const result = await passkeys.registered({ user, session }, 'key', {
    id,
    rawId: id,
    type: 'public-key',
    clientExtensionResults: {},
    response: {
      clientDataJSON: Buffer.from(said).toString('base64url'),
      attestationObject: bytes.toString('base64url'),
    },
  })
  return result !== undefined
}

const PROGRAM = 'https://program.test/client.json'
const SCOPE = { userKey: 1, collection: '/outbound-emails', sort: '-created_at' }
const TRACKING = { base: PUBLIC_URL, key: 'AAAA' }
const SHOWN_FORM = { id: 'form', version: 1 }
const FORM_TEXTS: FormTexts = {
  language: 'en',
  languages: { en: { title: 'News', intro: null, consent_text: 'Yes.', button: null, labels: {} } },
  fields: [
    { key: 'name', label: null, required: true },
    { key: 'city', label: 'City', required: false },
  ],
  consent_checkbox: true,
  controller: null,
  privacy_url: null,
}
const SIGNUPS = (): Buffer[] => {
  const given = { email: 'a@b.test', name: 'Eve', 'field.city': 'Ghent', consent: 'yes', message: 'x' }
  const check = sealCheck(keyring, SHOWN_FORM, new Map(Object.entries(given)), 0)
  const all = Object.entries({ ...given, check })
  const parts = all.map(([name, value]) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
  return [String(new URLSearchParams(all)), `${parts.join('')}--b--\r\n`].map((each) => Buffer.from(each))
}
const lastOf = (path: string): string =>
  path
    .split('/')
    .at(-1)!
    .replace(/\.gif.*$/, '')
const TOKENS = (): Buffer[] =>
  [
    writeCursor(keyring, SCOPE, { values: [1], key: 1 }, 'after', 0),
    lastOf(unsubscribeUrl(keyring, PUBLIC_URL, { delivery: 1, domain: 1, audience: 1, email: 'a@b.test' })),
    lastOf(dataUrl(keyring, PUBLIC_URL, { domain: { key: 1, name: 'x', user_key: 1 }, email: 'a@b.test' }, 0)),
    returnPathToken(keyring, 1),
    unsubscribeLocalPart(keyring, 1),
    sealFormToken(keyring, SHOWN_FORM, 0),
    lastOf(confirmUrl(keyring, PUBLIC_URL, { consent: 1, form: 1, email: 'a@b.test', until: 1 })),
    lastOf(trackedUrl(TRACKING, 1, 'https://x.test')),
    lastOf(pixelOf(TRACKING, 1)),
  ].map((token) => Buffer.from(token))

export const REQUESTS: Record<string, Parser> = {
  'documents of requests': {
    files: ['jsonapi/json-guard.ts', 'jsonapi/request.ts', 'base/issues.ts'],
    seeds: both(DOCUMENTS, of('[', '{"a":', '"\\u', ',', '"a":1,', '{"data":{"type":"a","attributes":{"a":[[')),
    parse: readDocument,
    declared: refused,
  },
  queries: {
    files: ['jsonapi/query.ts'],
    seeds: of(
      'filter[search]=a&sort=-created_at,subject&include=deliveries&fields[outbound-emails]=subject,to&page[size]=10&',
      'page%5Bcursor%5D=a&',
      'filter[status]=sent,',
      'include=a.b,',
      'sort=-',
      '%',
      '[]',
    ),
    parse: (bytes) => parseQuery(new URLSearchParams(text(bytes)), MAILS, PARAMS, TYPES),
    declared: refused,
  },
  'media types': {
    files: ['jsonapi/media.ts'],
    seeds: of('application/vnd.api+json; profile="a, b"; q=0.5, ', ';', '"', '\\', ' = ', 'q=1,'),
    parse(bytes) {
      for (const check of [checkAccept, checkContentType])
        try {
          check(text(bytes))
        } catch (thrown) {
          if (!refused(thrown)) throw thrown
        }
    },
  },
  searches: {
    files: ['mail/search.ts'],
    seeds: of(
      'to:ann@there.test subject:"two words" after:2026-01-01 from:shop status:sent ',
      'a"',
      ':',
      '%_\\',
      'before:9 ',
      'campaign:"',
      '\0',
    ),
    async parse(bytes) {
      const { store } = await deskNow()
      const { parameters, sql } = allOf((await searched(store, 1, bytes.toString('utf8').slice(0, 500))).conditions)
      return store.all(raw(`select key from outbound_emails where ${sql}`, parameters))
    },
    declared: refused,
  },
  'registrations of programs': {
    files: ['users/oauth/clients.ts'],
    seeds: both(
      of('https://x.test/a?b=c', 'http://127.0.0.1:', 'a:', '%', 'http://[::1]/', '*'),
      around(['{"redirect_uris":["https://a.test/', 'b/', '"],"client_name":"A"}']),
    ),
    parse(bytes) {
      const said = bytes.toString('utf8')
      const allowed = { origins: ['https://a.test', 'http://127.0.0.1'], addresses: ['https://b.test/c/*', 'd:e'] }
      readRegistration({ redirect_uris: [said], client_name: said.slice(0, 200) }, allowed)
      let body: unknown
      try {
        body = JSON.parse(said)
      } catch {
        return
      }
      readRegistration(body, allowed)
    },
  },
  'descriptions of programs': {
    files: ['users/oauth/clients.ts'],
    seeds: both(
      of('https://a.test/', 'https://a.test/../', 'https://%', 'https://[::1]:1/', 'https://\xe9.test/x?', 'x'),
      around([`{"client_id":"${PROGRAM}","redirect_uris":["https://a.test/`, 'b/","https://b.test/c/', '"]}']),
      around([`{"client_id":"${PROGRAM}","redirect_uris":["https://a.test/"],"grant_types":["`, 'code","', '"]}']),
    ),
    parse(bytes) {
      const said = bytes.toString('utf8')
      const allowed = { origins: ['https://a.test'], addresses: ['https://b.test/c/*'] }
      const faults = [urlFault(said), hostOf(`https:${said}`)]
      let body: unknown
      try {
        body = JSON.parse(said)
      } catch {
        return faults
      }
      return [...faults, readDescription(PROGRAM, body, allowed)]
    },
  },
  'answers of passkeys': {
    files: ['users/passkeys.ts'],
    seeds: both(() => [ATTESTATION], of('\xa1', '\x81', '\xbf\x61a', '\x9f', '\x5f\x41a', '\xc2')),
    parse: registered,
  },
  'sealed tokens': {
    files: [
      'jsonapi/cursor.ts',
      'base/sealed-token.ts',
      'campaigns/unsubscribe.ts',
      'forms/tokens.ts',
      'message/return-path.ts',
      'message/tracking.ts',
      'recipients/data-link.ts',
    ],
    seeds: both(TOKENS, of('a', '-_', '=', '\xff')),
    parse(bytes) {
      const token = text(bytes)
      const key = keyring.derive('tracking')
      return [
        readCursor(keyring, SCOPE, token, 0),
        readUnsubscribeToken(keyring, token),
        openToken(keyring, 'recipient data', token),
        readReturnPathToken(keyring, token),
        readUnsubscribeLocalPart(keyring, token),
        readFormToken(keyring, SHOWN_FORM, token),
        readConfirmToken(keyring, token),
        readOpenToken(key, token),
        readClickToken(key, token),
      ]
    },
  },
  'sign-ups from a form': {
    files: ['forms/signup-input.ts'],
    seeds: both(SIGNUPS, of('email=a%40b.test&name=%', '--b', 'a=b&=&&%00=%ff')),
    parse: async (bytes) => {
      const type = bytes[0] === 0x2d ? 'multipart/form-data; boundary=b' : 'application/x-www-form-urlencoded'
      const posted = await fieldsOf(Buffer.from(bytes), type)
      if (!posted) return undefined
      return [
        inputOf(posted, { audience_key: 1 }, { texts: FORM_TEXTS, language: 'de' }),
        inputOf(posted, { audience_key: null }, { texts: FORM_TEXTS, language: 'en' }),
        isChecked(keyring, SHOWN_FORM, posted, 1),
      ]
    },
  },
  'languages of a browser': {
    files: ['recipients/languages.ts'],
    seeds: of('de-AT,de;q=0.9, en;q=0.5', '*;q=0', 'a;q=', ',;', 'x-\xff'),
    parse: (bytes) => acceptedLanguages(text(bytes)).map(languageIn),
  },
  endpoints: {
    files: ['base/network.ts'],
    seeds: of('127.0.0.1:25', '[::1]:25', ':', '[', 'a'),
    parse: (bytes) => parseEndpoint(text(bytes)),
  },
}
