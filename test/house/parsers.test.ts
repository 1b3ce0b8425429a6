// Every parser in src/ has mutation tests (test/mutations), or a reason in the list below. So every new parser of
// untrusted input requires a decision.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PARSERS } from '../mutations/parsers.ts'

const SRC = join(import.meta.dirname, '../../src')

/** Libraries that parse bytes. */
const LIBRARIES =
  'csv-parse|dns-packet|html-to-text|libmime|mailauth|mailparser|sanitize-html|saxes|smol-toml|smtp-server|yauzl|@simplewebauthn/server'
/** Signs of a parser: patterns that are run, JSON, numbers and text in bytes, functions with such names. */
const SIGNS = new RegExp(
  [
    String.raw`\.(?:exec|match|matchAll)\(`,
    String.raw`\bJSON\.parse\(`,
    String.raw`\.readU?Int\w*\(`,
    String.raw`\bnew (?:Text|String)Decoder\(`,
    String.raw`^import (?!type\b)[^;]*?from '(?:${LIBRARIES})(?:/[^']*)?'`,
    String.raw`\bfunction\*? (?:parse|read|decode|split|cut|classify)[A-Z]\w*\(`,
  ].join('|'),
  'm',
)

const REASONS: Record<string, readonly string[]> = {
  'random octets of its own': ['base/ids.ts'],
  'JSON of our own rows, which this program wrote': [
    'base/json.ts',
    'campaigns/import-with-status.ts',
    'campaigns/letters.ts',
    'users/command-token.ts',
    'inbound/recipients.ts',
    'inbound/record.ts',
    'inbound/stored.ts',
    'message/letters.ts',
    'message/stored-body.ts',
    'delivery/alone.ts',
    'delivery/wire/letter.ts',
    'delivery/wire/connect.ts',
    'webhooks/fan-out.ts',
    'webhooks/payload.ts',
    'webhooks/page.ts',
    'users/notices.ts',
    'forms/api.ts',
    'forms/forms.ts',
    'forms/versions.ts',
  ],
  'files that this program or its operator wrote': [
    'acme/certificate-files.ts',
    'mcp/server.ts',
    'http/places.ts',
    'base/config-environment.ts',
    'base/config-values.ts',
    'base/config-file.ts',
    'base/cron.ts',
    'base/config.ts',
    'base/toml.ts',
    'base/doubt.ts',
    'base/keyring.ts',
    'base/plain-file.ts',
    'base/served.ts',
    'store/serving.ts',
    'base/spooled.ts',
    'archive/known.ts',
    'archive/pages.ts',
    'acme/certificates.ts',
    'base/config-edit.ts',
    'users/command-user.ts',
    'views/command/server-names.ts',
    'smtp/security.ts',
    'smtp/shaping.ts',
    'privacy/ledger.ts',
    'store/copy.ts',
    'reports/tls-figures.ts',
    'store/lock.ts',
    'store/log.ts',
    'store/volume.ts',
    'base/standby.ts',
    'store/open.ts',
    'store/integrity.ts',
  ],
  'texts of the program itself: commands, statements, descriptions': [
    'cli/completion.ts',
    'domains/zone-lines.ts',
    'console/browser/editor.ts',
    'console/browser/editor-saving.ts',
    'views/html/reply.ts',
    'views/html/visit.ts',
    'jsonapi/openapi-operations.ts',
    'store/database.ts',
    'archive/schedule.ts',
    'store/statement-tables.ts',
  ],
  'JSON.parse and a check of the result by a parser that is tried, or by a library of the protocol': [
    'mcp/mcp.ts',
    'users/oauth/endpoints.ts',
    'views/html/plain-page.ts',
    'users/sign-in-forms.ts',
    'users/page-join.ts',
    'users/page-sign-in.ts',
    'server/sandbox/receiver.ts',
  ],
  'one pattern from the beginning to the end of a short header field, path or answer': [
    'jsonapi/schemas.ts',
    'domains/lifecycle.ts',
    'archive/check-backup.ts',
    'archive/destinations/s3-requests.ts',
    'inbound/messages.ts',
    'views/html/fields.ts',
    'users/gate.ts',
    'users/oauth/client-documents.ts',
    'http/metrics.ts',
    'http/public.ts',
    'images/serve.ts',
    'forms/page-texts.ts',
    'mail/accept/attachments.ts',
  ],
  'octets of a fixed length, or a text within a limit, of a server or a command that the operator chose': [
    'net/time-server.ts',
    'archive/destinations/command.ts',
    'cli/ask-health.ts',
    'inbound/scan.ts',
  ],
  'a text within a limit, split at fixed characters, whose parts are only shown, or searched for': [
    'webhooks/listmonk.ts',
    'mail/page-contents.ts',
    'mail/page-words.ts',
    'views/html/widgets.ts',
  ],
  'it gives what came to parsers that are tried': [
    'inbound/reader.ts',
    'inbound/receive.ts',
    'jsonapi/body.ts',
    'reports/command-read.ts',
  ],
  'sessions of SMTP: smtp/session.ts reads them, and test/hostile tries all of it': ['smtp/listener.ts'],
  'texts within a limit of a signed version of this program, and the name of a file that it made': [
    'store/way-back.ts',
  ],
  'the OpenAPI document, which this program made': ['console/reference/document.ts'],
  'the sandbox on loopback: its own mail': ['server/sandbox/exchanger.ts'],
}

const withoutComments = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`\\])\/\/.*$/gm, '$1')

/** Whether code parses text or bytes. */
const takesApart = (text: string): boolean => SIGNS.test(withoutComments(text))

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => /(?<!\.d)\.ts$/.test(file))
const found = files.filter((file) => takesApart(readFileSync(join(SRC, file), 'utf8')))
const tried = new Set(Object.values(PARSERS).flatMap(({ files: each }) => each))
const reasoned = Object.values(REASONS).flat()

test('every parser has mutation tests or a reason', () => {
  assert.ok(found.length > 80)
  assert.deepEqual(
    found.filter((file) => !tried.has(file) && !reasoned.includes(file)),
    [],
    'add it to test/mutations, or here with its reason',
  )
})

test('every listed file is a parser and needs its reason', () => {
  assert.deepEqual(
    reasoned.filter((file) => !found.includes(file) || tried.has(file)),
    [],
  )
  assert.deepEqual(
    reasoned.filter((file, at) => reasoned.indexOf(file) !== at),
    [],
  )
  assert.deepEqual(
    [...tried].filter((file) => !files.includes(file)),
    [],
  )
})

test('the check finds every form of parser', () => {
  for (const code of [
    'const [, a] = /a/.exec(text) ?? []',
    'for (const a of text.matchAll(A)) b(a)',
    'return JSON.parse(text)',
    'bytes.readUInt16BE(0)',
    "const decoder = new TextDecoder('utf-8')",
    "import {\n  parse,\n} from 'csv-parse/sync'",
    'export function parseThing(text: string): Thing {',
  ])
    assert.ok(takesApart(code), code)
  for (const code of ['// JSON.parse(text)', "import type { A } from 'mailauth'", '/* a.exec(b) */', 'a.test(text)'])
    assert.ok(!takesApart(code), code)
})

/** Libraries whose work grows faster than untrusted input, and the files that limit their input. */
const COUNTED: Record<string, readonly string[]> = {
  'sanitize-html': ['views/html/harmless.ts'],
  'html-to-text': ['message/compose.ts'],
  'csv-parse': ['lists/rows.ts'],
}

test('parsers of HTML and lists are imported only where their input is limited first (D125, D126)', () => {
  for (const [library, places] of Object.entries(COUNTED)) {
    const importing = new RegExp(`^import (?!type\\b)[^;]*?from '${library}'`, 'm')
    assert.deepEqual(
      files.filter((file) => importing.test(readFileSync(join(SRC, file), 'utf8'))),
      places,
    )
  }
})

test('the console parses untrusted HTML and lists only in its worker threads (D125)', () => {
  const calls = /\b(?:harmless|harmlessPage|render)\(/
  assert.deepEqual(
    files.filter(
      (file) =>
        /^(?:console|views\/html)\//.test(file) && calls.test(withoutComments(readFileSync(join(SRC, file), 'utf8'))),
    ),
    ['views/html/apart-worker.ts', 'views/html/harmless.ts'],
  )
  // An uploaded list is in memory: a file of the command is read from the disk.
  assert.deepEqual(
    files.filter((file) => /\b(?:heldSource|readUpload)\b/.test(readFileSync(join(SRC, file), 'utf8'))),
    ['lists/csv-source.ts', 'lists/list-worker.ts', 'lists/upload.ts'],
  )
})
