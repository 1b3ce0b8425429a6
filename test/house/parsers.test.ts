// Every file of src/ that takes text or octets apart is tried with mutations (test/mutations), or stands here with the
// reason why it is not: a parser of strangers' octets cannot be written without somebody deciding this.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PARSERS } from '../mutations/parsers.ts'

const SRC = join(import.meta.dirname, '../../src')

/** Libraries that take octets apart. */
const LIBRARIES =
  'csv-parse|dns-packet|html-to-text|libmime|mailauth|mailparser|sanitize-html|saxes|smol-toml|smtp-server|yauzl|@simplewebauthn/server'
/** What taking apart looks like: patterns that are run, JSON, numbers and text in octets, functions that say so. */
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
    'accounts/command-token.ts',
    'inbound/recipients.ts',
    'inbound/record.ts',
    'inbound/stored.ts',
    'message/letters.ts',
    'message/stored-body.ts',
    'delivery/wire/intact.ts',
    'delivery/wire/letter.ts',
    'delivery/wire/sts.ts',
    'webhooks/fan-out.ts',
    'webhooks/inbound-payload.ts',
    'webhooks/page.ts',
    'webhooks/payload.ts',
    'accounts/notices.ts',
    'reports/reading/summary.ts',
    'reports/pieces.ts',
    'reports/days.ts',
    'reports/dmarc-figures.ts',
  ],
  'files that this program or its operator wrote': [
    'acme/certificate-files.ts',
    'http/places.ts',
    'base/config-environment.ts',
    'base/backup-target.ts',
    'base/config-values.ts',
    'base/config-file.ts',
    'base/cron.ts',
    'base/config.ts',
    'base/toml.ts',
    'base/doubt.ts',
    'base/keyring.ts',
    'base/plain-file.ts',
    'base/served.ts',
    'base/spooled.ts',
    'archive/backup-archive.ts',
    'acme/certificates.ts',
    'cli/installation.ts',
    'commands/open.ts',
    'commands/server-names.ts',
    'smtp/security.ts',
    'smtp/shaping-file.ts',
    'reputation/alarm-rules.ts',
    'privacy/ledger.ts',
    'store/copy.ts',
    'reports/tls-figures.ts',
    'store/lock.ts',
    'store/log-scan.ts',
    'store/open.ts',
  ],
  'texts of the program itself: commands, statements, descriptions': [
    'cli/completion-places.ts',
    'domains/zone-lines.ts',
    'console/browser/editor.ts',
    'console/browser/editor-saving.ts',
    'webui/visit.ts',
    'jsonapi/openapi-operations.ts',
    'store/database.ts',
    'archive/schedule.ts',
    'store/statement-tables.ts',
  ],
  'JSON.parse and a check of the result by a parser that is tried, or by a library of the protocol': [
    'http/mcp/modern.ts',
    'http/mcp/mcp.ts',
    'http/oauth.ts',
    'webui/plain-page.ts',
    'console/sign-in-forms.ts',
    'console/join.ts',
    'console/sign-in.ts',
    'server/sandbox/receiver.ts',
  ],
  'one pattern from the beginning to the end of a short header field, path or answer': [
    'archive/look.ts',
    'archive/places/web.ts',
    'inbound/messages.ts',
    'webui/fields.ts',
    'jsonapi/gate.ts',
    'http/client-documents.ts',
    'http/metrics.ts',
    'http/public.ts',
    'images/serve.ts',
    'mail/accept/attachments.ts',
    'campaigns/page-recipients.ts',
  ],
  'octets of a fixed length, or a text within a limit, of a server or a command that the operator chose': [
    'net/time-server.ts',
    'archive/places/exec.ts',
    'archive/places/sftp.ts',
    'checks/grade-tls.ts',
    'checks/grade.ts',
    'cli/ask-health.ts',
    'inbound/scan.ts',
  ],
  'a text within a limit, split at fixed characters, whose parts are only shown, or searched for': [
    'mail/page-contents.ts',
    'mail/page-list.ts',
    'mail/page-words.ts',
    'webui/widgets.ts',
  ],
  'it gives what came to parsers that are tried': [
    'inbound/reader.ts',
    'inbound/receive.ts',
    'jsonapi/body.ts',
    'reports/command-read.ts',
  ],
  'sessions of SMTP: smtp/strict-stream.ts reads them, and test/hostile tries all of it': [
    'smtp/listener.ts',
    'smtp/server.ts',
    'smtp/session.ts',
  ],
  'texts within a limit of a signed version of this program, and the name of a file that it made': [
    'archive/upgrade-trial.ts',
    'store/way-back.ts',
  ],
  'the OpenAPI document, which this program made': ['console/reference/document.ts'],
  'the sandbox on loopback: its own mail': ['server/sandbox/exchanger.ts'],
}

const withoutComments = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`\\])\/\/.*$/gm, '$1')

/** Whether code takes text or octets apart. */
const takesApart = (text: string): boolean => SIGNS.test(withoutComments(text))

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => /(?<!\.d)\.ts$/.test(file))
const found = files.filter((file) => takesApart(readFileSync(join(SRC, file), 'utf8')))
const tried = new Set(Object.values(PARSERS).flatMap(({ files: each }) => each))
const reasoned = Object.values(REASONS).flat()

test('every parser is tried with mutations, or has a reason', () => {
  assert.ok(found.length > 80)
  assert.deepEqual(
    found.filter((file) => !tried.has(file) && !reasoned.includes(file)),
    [],
    'add it to test/mutations, or here with its reason',
  )
})

test('no file is named that needs no reason, or is none', () => {
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

test('what takes apart is seen', () => {
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

/** Libraries whose work grows faster than what a stranger wrote, and the files that give them nothing uncounted. */
const COUNTED: Record<string, readonly string[]> = {
  'sanitize-html': ['webui/harmless.ts'],
  'html-to-text': ['message/compose.ts'],
  'csv-parse': ['lists/rows.ts'],
}

test('a library of pages and lists is imported where its input is counted first, and nowhere else (D125, D126)', () => {
  for (const [library, places] of Object.entries(COUNTED)) {
    const importing = new RegExp(`^import (?!type\\b)[^;]*?from '${library}'`, 'm')
    assert.deepEqual(
      files.filter((file) => importing.test(readFileSync(join(SRC, file), 'utf8'))),
      places,
    )
  }
})

test('the console reads pages and lists of strangers in its worker threads alone (D125)', () => {
  const calls = /\b(?:harmless|harmlessPage|render)\(/
  assert.deepEqual(
    files.filter(
      (file) => /^(?:console|webui)\//.test(file) && calls.test(withoutComments(readFileSync(join(SRC, file), 'utf8'))),
    ),
    ['webui/apart-worker.ts', 'webui/harmless.ts'],
  )
  // An uploaded list is in memory: a file of the command is read from the disk.
  assert.deepEqual(
    files.filter((file) => /\b(?:heldSource|readUpload)\b/.test(readFileSync(join(SRC, file), 'utf8'))),
    ['lists/csv-source.ts', 'lists/list-worker.ts', 'lists/upload.ts'],
  )
})
