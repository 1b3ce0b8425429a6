// Reads a TLS report (RFC 8460 §4): JSON, whose depth and number of values are limited before it is parsed.
import { isUtf8 } from 'node:buffer'
import { isObject, jsonOf } from '../../base/json.ts'
import {
  LIMITS,
  TLS_POLICY_TYPES,
  UnreadableReport,
  type ReadingTimes,
  type TlsPolicyReport,
  type TlsReport,
  type TlsResult,
} from './report.ts'
import { demandPeriod, domainOf, lineOf, MOST_COUNT } from './values.ts'

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const OPENING = new Set([0x5b, 0x7b])
const CLOSING = new Set([0x5d, 0x7d])

/** Throws if JSON is too deep or has too many values. The bytes need not be JSON. */
function demandShape(bytes: Buffer): void {
  let depth = 0
  let values = 1
  let quoted = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (quoted) {
      if (byte === BACKSLASH) at++
      else if (byte === QUOTE) quoted = false
    } else if (byte === QUOTE) quoted = true
    else if (byte === COMMA) values++
    else if (OPENING.has(byte)) {
      depth++
      values++
    } else if (CLOSING.has(byte)) depth--
    if (depth > LIMITS.depth || values > LIMITS.values) throw new UnreadableReport('too_large', false)
  }
}

/** An own member of an object. */
const memberOf = (value: unknown, name: string): unknown =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined

/** A text within the limit, or '' for any other value. */
function lineIn(value: unknown, name: string, most: number = LIMITS.text): string {
  const text = memberOf(value, name)
  if (typeof text !== 'string') return ''
  if (text.length > most) throw new UnreadableReport('too_large')
  return lineOf(text)
}

/** A number of sessions, or 0 for any other value. */
function sessionsIn(value: unknown, name: string): number {
  const count = memberOf(value, name)
  return typeof count === 'number' && Number.isInteger(count) && count >= 0 && count <= MOST_COUNT ? count : 0
}

const listIn = (value: unknown, name: string): unknown[] => {
  const list = memberOf(value, name)
  return Array.isArray(list) ? list : []
}

/** A date and time (RFC 3339 §5.6). Microsoft omits the zone, which is UTC. */
const DATE_TIME = /^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?)(Z|[+-]\d\d:\d\d)?$/

/** A date and time in whole seconds. */
function timeIn(value: unknown, name: string): number | undefined {
  const [, local, zone] = DATE_TIME.exec(lineIn(value, name).toUpperCase()) ?? []
  const ms = local === undefined ? NaN : Date.parse(local.replace(' ', 'T') + (zone ?? 'Z'))
  return ms >= 0 ? Math.floor(ms / 1000) : undefined
}

function resultsOf(details: readonly unknown[]): TlsResult[] {
  const sums = new Map<string, number>()
  for (const detail of details) {
    const type = lineIn(detail, 'result-type', LIMITS.name)
    const sessions = sessionsIn(detail, 'failed-session-count')
    if (type !== '' && sessions > 0) sums.set(type, (sums.get(type) ?? 0) + sessions)
  }
  return [...sums].map(([type, sessions]) => ({ type, sessions }))
}

/** The policies of known types, and the number of others. */
function policiesOf(report: unknown): { policies: TlsPolicyReport[]; skippedPolicies: number } {
  const all = listIn(report, 'policies')
  if (all.length > LIMITS.policies) throw new UnreadableReport('too_large')
  const policies: TlsPolicyReport[] = []
  let details = 0
  for (const each of all) {
    const policy = memberOf(each, 'policy')
    const failures = listIn(each, 'failure-details')
    details += failures.length
    if (details > LIMITS.details) throw new UnreadableReport('too_large')
    const name = lineIn(policy, 'policy-type').toLowerCase()
    const type = TLS_POLICY_TYPES.find((known) => known === name)
    if (type === undefined) continue
    const summary = memberOf(each, 'summary')
    policies.push({
      type,
      domain: domainOf(lineIn(policy, 'policy-domain')),
      success: sessionsIn(summary, 'total-successful-session-count'),
      failure: sessionsIn(summary, 'total-failure-session-count'),
      results: resultsOf(failures),
    })
  }
  return { policies, skippedPolicies: all.length - policies.length }
}

const MEMBERS = ['organization-name', 'date-range', 'report-id', 'policies']

/** Reads a TLS report. Throws UnreadableReport. */
export function readTls(bytes: Buffer, times: ReadingTimes): TlsReport {
  demandShape(bytes)
  const report = jsonOf(bytes.toString('utf8').replace(/^\ufeff/, ''))
  if (report === undefined) throw new UnreadableReport('malformed', false)
  if (MEMBERS.every((name) => memberOf(report, name) === undefined)) throw new UnreadableReport('not_a_report', false)
  const { policies, skippedPolicies } = policiesOf(report)
  const reportId = lineIn(report, 'report-id')
  if (reportId === '') throw new UnreadableReport('no_id')
  const range = memberOf(report, 'date-range')
  const begin = timeIn(range, 'start-datetime')
  const period = demandPeriod({ begin, end: timeIn(range, 'end-datetime') }, times)
  if (policies.length === 0) throw new UnreadableReport('no_policy')
  return {
    kind: 'tls',
    org: lineIn(report, 'organization-name'),
    email: lineIn(report, 'contact-info'),
    reportId,
    ...period,
    policies,
    skippedPolicies,
    faults: isUtf8(bytes) ? [] : ['encoding'],
  }
}
