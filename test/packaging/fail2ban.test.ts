// The fail2ban filter: it matches every failed sign-in that the server logs, and no text from an untrusted sender.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createLog, type LogFields } from '../../src/base/log.ts'
import { forTerminalJson } from '../../src/base/clean-text.ts'
import { ManualClock } from '../kit/clock.ts'
import { LOG_EVENTS, type LogEvent } from '../../src/base/log-events.ts'

const CONF = readFileSync(new URL('../../packaging/fail2ban/postrider.conf', import.meta.url), 'utf8')
/** The values with which fail2ban replaces its tags (fail2ban/server/failregex.py). */
const ADDRESS = '(?<address>\\d{1,3}(?:\\.\\d{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*)'
const expressions = /^failregex = (.*(?:\n[ \t]+.*)*)/m
  .exec(CONF)![1]!
  .split('\n')
  .map((line) => new RegExp(line.trim().replace(/<(?:ADDR|HOST)>/, () => ADDRESS)))

const banned = (line: string): string | undefined =>
  expressions.map((each) => each.exec(line)?.groups?.['address']).find((address) => address !== undefined)

/** The line as each form of the log has it. */
function logged(event: LogEvent, fields: LogFields): string[] {
  const lines: string[] = []
  for (const form of ['json', 'journal', 'text'] as const)
    createLog({
      clock: new ManualClock(),
      level: 'info',
      form,
      write: (line) => lines.push(form === 'text' ? line : forTerminalJson(line)),
    }).warn(event, fields)
  return lines
}

/** A line as fail2ban gets it: bare, from the journal, from a file of syslog whose date is cut out. */
const carried = (line: string): string[] => [
  line,
  `mail postrider[4711]: ${line}`,
  `mail.example.org postrider: ${line}`,
  ` mail postrider[4711]: ${line}`,
]

test('the filter finds the address of every failed sign-in', () => {
  for (const service of ['api', 'submission', 'sign-in'])
    for (const [address, expected] of [
      ['192.0.2.7', '192.0.2.7'],
      ['::ffff:192.0.2.7', '192.0.2.7'],
      ['2001:db8::7', '2001:db8::7'],
    ] as const) {
      const [json, journal] = logged('authentication_failed', { service, address })
      for (const line of [...carried(json!), ...carried(journal!)]) assert.equal(banned(line), expected, line)
    }
})

test('the filter also matches the lines of 0.2.0', () => {
  const line = '{"event":"authentication failed","service":"api","address":"192.0.2.7","level":"warn"}'
  for (const each of [...carried(line), ...carried(`<4>${line}`)]) assert.equal(banned(each), '192.0.2.7', each)
})

test('each expression is anchored at the start of the line', () => {
  assert.ok(expressions.length > 0)
  for (const { source } of expressions) assert.match(source, /^\^(?!.*\.\*)/)
})

test('untrusted text in a log line never bans an address', () => {
  const failed = JSON.stringify({
    event: 'authentication_failed',
    message: LOG_EVENTS.authentication_failed,
    service: 'api',
    address: '198.51.100.77',
    level: 'warn',
  })
  const hostile = [
    '550 authentication_failed service=submission address=198.51.100.77',
    'WARN authentication_failed: A password, code or token is wrong service=api address=198.51.100.77',
    failed,
    `\n${failed}`,
    `\r\n<4>${failed}`,
    `mail postrider[1]: ${failed}`,
    failed.slice(1),
    `x"},${failed}`,
    `x\u2028${failed}`,
  ]
  for (const text of hostile)
    for (const [event, fields] of [
      ['delivery_attempted', { message_id: text, to: text, result: 'bounced', code: 550, response: text, host: text }],
      ['webhook_attempted', { error: text, url: text }],
      ['authentication_failed', { service: text, address: text }],
      [
        'problem_reported',
        { nested: { event: 'authentication_failed', service: 'api', address: '198.51.100.77' }, text },
      ],
    ] as [LogEvent, LogFields][])
      for (const line of logged(event, fields).flatMap((one) => carried(one)))
        for (const part of line.split('\n')) assert.equal(banned(part), undefined, part)
})
