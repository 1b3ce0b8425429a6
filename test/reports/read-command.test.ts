// `postrider report read FILE`: prints the contents of a file without storing them.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { inFolder } from '../commands/beside.ts'
import { BEGIN, dmarc, END, gzip, mail, part, policy, record, tls } from './written.ts'

const { commands, folder } = inFolder('postrider-report-')

const fileOf = (name: string, content: string | Buffer): string => {
  writeFileSync(join(folder, name), content)
  return name
}
const run = async (...argv: string[]) => commands.run(argv, { bare: true })

test('prints a DMARC report as JSON and as text', async () => {
  const records = record() + record({ address: '::1', count: '4', evaluated: '' }) + record({ count: 'x' })
  const file = fileOf('mail.eml', mail(part(gzip(dmarc({ records })))))
  const { code, stderr, stdout } = await run('--json', 'report', 'read', file)
  assert.deepEqual([code, stderr], [0, ''])
  const { sha256, ...said } = JSON.parse(stdout) as { sha256: string }
  assert.match(sha256, /^[0-9a-f]{16}$/)
  assert.deepEqual(said, {
    kind: 'dmarc',
    outcome: 'read',
    form: 'rfc7489',
    org: 'Reporter',
    email: 'dmarc@reporter.example',
    report_id: 'one',
    domain: 'example.com',
    begin: BEGIN,
    end: END,
    policy: { p: 'none' },
    records: 2,
    messages: 7,
    dkim_pass: 3,
    spf_pass: 0,
    pass: 3,
    fail: 4,
    disposition: { none: 7 },
    sources: 2,
    skipped_records: 1,
  })
  const words = await run('report', 'read', file)
  assert.equal(
    words.stdout,
    [
      'DMARC report (RFC 7489) from Reporter, id one',
      'From 2026-09-21 00:00 to 2026-09-21 23:59 UTC',
      'Policy of example.com: p=none',
      '7 messages from 2 IP addresses, in 2 records: 3 pass (DKIM 3, SPF 0), 4 fail',
      'Disposition: none 7',
      '1 record without an address or a count skipped',
      '',
    ].join('\n'),
  )
})

test('prints a TLS report as JSON and as text', async () => {
  const file = fileOf('tls.json', JSON.stringify(tls({ policies: [policy(), policy('tlsa'), policy('new')] })))
  const { code, stdout } = await run('--json', 'report', 'read', file)
  const { sha256: _, ...said } = JSON.parse(stdout) as { sha256: string }
  const each = { domain: 'example.com', success: 10, failure: 2, results: { 'certificate-expired': 2 } }
  assert.equal(code, 0)
  assert.deepEqual(said, {
    kind: 'tlsrpt',
    outcome: 'read',
    org: 'Reporter',
    report_id: 'one',
    begin: BEGIN,
    end: END,
    policies: [
      { type: 'sts', ...each },
      { type: 'tlsa', ...each },
    ],
    success: 20,
    failure: 4,
    skipped_policies: 1,
  })
  const words = (await run('report', 'read', file)).stdout
  assert.match(words, /^20 connections succeeded, 4 failed$/m)
  assert.match(words, /^tlsa +example\.com +10 +2 +certificate-expired 2$/m)
})

test('prints the reason for a rejection and exits 1', async () => {
  const file = fileOf('refused.xml', dmarc({ before: '<!DOCTYPE feedback>' }))
  const { code, stdout } = await run('--json', 'report', 'read', file)
  const { sha256: _, ...said } = JSON.parse(stdout) as { sha256: string }
  assert.deepEqual([code, said], [1, { outcome: 'refused', why: 'doctype' }])
  const words = await run('report', 'read', file)
  assert.deepEqual(
    [words.code, words.stdout],
    [1, 'Rejected (doctype). The XML contains a DOCTYPE, which is not allowed.\n'],
  )
})

test('removes control characters of a report from the output', async () => {
  const metadata = '<org_name>&#x9b;31m&#x202e;gpj.exe</org_name>'
  const { stdout } = await run('report', 'read', fileOf('evil.xml', dmarc({ metadata })))
  assert.doesNotMatch(stdout, /[\u009b\u202e]/)
})

test('reads a report of any age without storing it, and rejects a missing file, a directory and a huge file', async () => {
  const old = dmarc({ range: '<begin>0</begin><end>1</end>' })
  assert.equal((await run('report', 'read', fileOf('old.xml', old))).code, 0)
  mkdirSync(join(folder, 'inside'))
  truncateSync(join(folder, fileOf('huge.xml', '')), 65 * 1024 * 1024)
  const before = readdirSync(folder)
  for (const name of ['nothing.xml', 'inside', 'huge.xml']) {
    const { code, stderr } = await run('report', 'read', name)
    assert.equal(code, 1)
    assert.match(stderr, /^postrider: [^\n]+\.\n$/, name)
  }
  assert.deepEqual(readdirSync(folder), before)
})
