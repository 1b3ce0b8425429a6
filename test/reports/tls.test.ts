// The members of TLS reports and their meaning.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TlsReport } from '../../src/reports/reading/report.ts'
import { BEGIN, END, policy, TIMES, tls } from './written.ts'
import { readReport } from './whole.ts'

const bytesOf = (more: object): Buffer => Buffer.from(JSON.stringify(tls(more)))

function read(bytes: Buffer): TlsReport {
  const reading = readReport(bytes, TIMES)
  assert.equal(reading.outcome, 'read', reading.outcome === 'refused' ? reading.why : '')
  assert.ok(reading.outcome === 'read' && reading.report.kind === 'tls')
  return reading.report
}

function why(bytes: Buffer | string, times: { now: number; oldest: number | null } = TIMES): string {
  const reading = readReport(Buffer.from(bytes), times)
  return reading.outcome === 'refused' ? reading.why : 'read'
}

describe('policies', () => {
  test('are counted by the summary, even if the details have another sum', () => {
    const details = [
      { 'result-type': 'certificate-expired', 'failed-session-count': 5 },
      { 'result-type': 'a-type-of-tomorrow', 'failed-session-count': 7 },
      { 'result-type': 'certificate-expired', 'failed-session-count': 1 },
    ]
    const { policies } = read(bytesOf({ policies: [policy('sts', { 'failure-details': details })] }))
    assert.deepEqual(policies, [
      {
        type: 'sts',
        domain: 'example.com',
        success: 10,
        failure: 2,
        results: [
          { type: 'certificate-expired', sessions: 6 },
          { type: 'a-type-of-tomorrow', sessions: 7 },
        ],
      },
    ])
  })

  test('of unknown types are skipped and counted, and a report without a known type is rejected', () => {
    const { policies, skippedPolicies } = read(
      bytesOf({ policies: [policy('dnssec'), policy('TLSA'), policy('no-policy-found'), 1, null, [], {}] }),
    )
    assert.deepEqual([policies.map(({ type }) => type), skippedPolicies], [['tlsa', 'no-policy-found'], 5])
    for (const none of [[], [policy('dnssec')], {}, null, undefined, 'a'])
      assert.equal(why(bytesOf({ policies: none })), 'no_policy')
  })

  test('with invalid counts count 0 and have no result', () => {
    for (const count of [-1, 1.5, '5', null, {}, 2 ** 31, 1e300, true]) {
      const summary = { 'total-successful-session-count': count, 'total-failure-session-count': count }
      const details = [{ 'result-type': 'a', 'failed-session-count': count }, { 'result-type': 5 }, null, 'a']
      const { policies } = read(bytesOf({ policies: [policy('sts', { summary, 'failure-details': details })] }))
      const { failure, results, success } = policies[0]!
      assert.deepEqual([success, failure, results], [0, 0, []], JSON.stringify(count))
    }
  })

  test('can have the names of inherited members', () => {
    const details = ['__proto__', 'constructor', 'toString'].map((type) => ({
      'result-type': type,
      'failed-session-count': 1,
    }))
    const { policies } = read(bytesOf({ policies: [policy('sts', { 'failure-details': details })] }))
    assert.deepEqual(
      policies[0]!.results.map(({ type }) => type),
      ['__proto__', 'constructor', 'toString'],
    )
    const inherited = JSON.stringify(tls({ policies: [] })).replace('"policies":[]', '"__proto__":{"policies":[]}')
    assert.equal(why(inherited), 'no_policy')
  })

  test('have domains and texts in canonical form', () => {
    const made = policy('sts', { policy: { 'policy-type': 'sts', 'policy-domain': ' MX.Example.COM. ' } })
    const report = read(bytesOf({ policies: [made], 'organization-name': ' a\u0000\nb\ud800 ' }))
    assert.equal(report.policies[0]!.domain, 'mx.example.com')
    assert.equal(report.org, 'a b\ufffd')
    assert.equal(report.email, 'tls@reporter.example')
  })
})

describe('a TLS report needs', () => {
  const ranged = (start: unknown, end: unknown): Buffer =>
    bytesOf({ 'date-range': { 'start-datetime': start, 'end-datetime': end } })

  test('an id and a period', () => {
    assert.equal(why(bytesOf({ 'report-id': undefined })), 'no_id')
    assert.equal(why(bytesOf({ 'report-id': 5 })), 'no_id')
    assert.equal(why(bytesOf({ 'date-range': undefined })), 'date_range')
    assert.equal(why(ranged('2026-09-21', '2026-09-22T00:00:00Z')), 'date_range')
    assert.equal(why(ranged('2026-13-21T00:00:00Z', '2026-09-22T00:00:00Z')), 'date_range')
    assert.equal(why(ranged('2026-09-22T00:00:00Z', '2026-09-21T00:00:00Z')), 'date_range')
    assert.equal(why(ranged('2099-09-21T00:00:00Z', '2099-09-22T00:00:00Z')), 'date_range')
    assert.equal(why(ranged('2026-07-01T00:00:00Z', '2026-09-22T00:00:00Z')), 'date_range')
    assert.equal(why(bytesOf({}), { now: TIMES.now, oldest: (END + 1) * 1000 }), 'too_old')
  })

  test('times, with or without zone and fraction', () => {
    for (const start of [
      '2026-09-21T00:00:00Z',
      '2026-09-21T00:00:00',
      '2026-09-21 00:00:00.999999999',
      '2026-09-21t02:00:00+02:00',
      '2026-09-20T19:00:00.5-05:00',
    ]) {
      const { begin, end } = read(ranged(start, '2026-09-21T23:59:59Z'))
      assert.deepEqual([begin, end], [BEGIN, END], start)
    }
  })

  test('rejects other JSON as not_a_report, and half a report as malformed', () => {
    for (const json of ['[]', '{}', '{"a":1}', '[{"policies":[]}]', '{"__proto__":{"policies":[]}}'])
      assert.equal(why(json), 'not_a_report', json)
    for (const json of ['{', '{"policies":[}', '{"a":1}}', '{"a":1,}', "{'a':1}", '[1'])
      assert.equal(why(json), 'malformed', json)
    const whole = JSON.stringify(tls())
    for (let length = 1; length < whole.length; length++) assert.equal(why(whole.slice(0, length)), 'malformed')
    assert.equal(why(`\ufeff \r\n${whole}\n`), 'read')
  })

  test('replaces invalid bytes and adds a warning', () => {
    const latin1 = Buffer.from(JSON.stringify(tls({ 'organization-name': 'Größe' })), 'latin1')
    const { faults, org } = read(latin1)
    assert.deepEqual([org, faults], ['Gr\ufffd\ufffde', ['encoding']])
  })
})
