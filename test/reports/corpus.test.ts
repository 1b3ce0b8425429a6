// Every report of the corpus, received by SMTP: its row and the figures agree with its label.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { ofFile } from '../kit/of-file.ts'
import { mailWith, reporterOf, reportsOf, type ReportShown } from './reporter.ts'

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
const FOLDER = join(CORPORA, 'aggregate')
const skip = existsSync(FOLDER) ? false : `no corpus at ${FOLDER}; set POSTRIDER_CORPORA`

interface Label {
  kind: 'dmarc' | 'tlsrpt'
  outcome: 'read' | 'refused'
  form?: string
  org?: string
  report_id?: string
  domain?: string
  records?: number
  skipped_records?: number
  messages?: number
  pass?: number
  fail?: number
  sources?: number
  policies?: { domain: string; success: number; failure: number }[]
  success?: number
  failure?: number
  skipped_policies?: number
  faults?: string[]
}

const labels = skip ? {} : (JSON.parse(readFileSync(join(FOLDER, 'labels.json'), 'utf8')) as Record<string, Label>)
const HOME = 'home.test'

/** The domain that a report has to be about, to count. */
const domainOf = ({ domain, policies }: Label): string =>
  domain ?? policies?.find((each) => each.domain !== '')?.domain.replace(/^mx\./, '') ?? HOME

/** An email of the corpus under another header, which keeps the fields about the encoding of its body. */
function underOwnHeader(mail: Buffer, from: string, to: string): string {
  const text = mail.toString('latin1').replaceAll('\r\n', '\n').replace(/^\n+/, '')
  const [head = '', ...body] = text.split('\n\n')
  const kept = head
    .replace(/\n(?=[ \t])/g, '\u0000')
    .split('\n')
    .filter((line) => /^(?:content-|mime-version)/i.test(line))
    .map((line) => line.replaceAll('\u0000', '\n'))
  return [`From: ${from}`, `To: ${to}`, 'Subject: A report', ...kept, '', body.join('\n\n')].join('\n')
}

describe('the corpus', { skip }, () => {
  // Later than every report of the corpus.
  const postrider = ofFile(() =>
    startTestAppliance({ clock: new ManualClock(Date.UTC(2026, 9, 1)), config: { retention: { reports: '0' } } }),
  )
  const ids = new Map<string, string>()
  let count = 0

  async function hosted(name: string): Promise<string> {
    const known = ids.get(name)
    if (known !== undefined) return known
    await postrider.activeDomain(name)
    const { body } = await postrider.api('GET', `/domains?filter[name]=${name}`)
    ids.set(name, body.data[0].id)
    return body.data[0].id
  }

  /** Sends a file from a new reporter, because some reports occur twice. Returns its row. */
  async function delivered(file: string, domain: string): Promise<ReportShown> {
    const id = await hosted(domain)
    const from = `reporter${++count}.test`
    const { send } = await reporterOf(postrider, from, ' s=tlsrpt:email;')
    const bytes = readFileSync(join(FOLDER, file))
    const to = `${file.startsWith('tls') ? 'tls' : 'dmarc'}-reports@bounce.${domain}`
    const author = `noreply@${from}`
    const mail = file.endsWith('.eml')
      ? underOwnHeader(bytes, author, to)
      : mailWith(bytes, { from: author, to }, 'application/octet-stream')
    await send(mail, to)
    const row = (await reportsOf(postrider, id)).find((each) => each.reporter === from)
    assert.ok(row, 'a row')
    return row
  }

  /** The sums of all figures. */
  const sums = () => ({
    dmarc: postrider.appliance.deps.store.one(
      raw<{ messages: number; pass: number }>(
        'select total(messages) as messages, total(pass) as pass from dmarc_figures',
      ),
    ),
    tls: postrider.appliance.deps.store.one(
      raw<{ success: number; failure: number }>(
        'select total(success) as success, total(failure) as failure from tls_figures',
      ),
    ),
  })

  for (const [file, label] of Object.entries(labels))
    test(`${file} is ${label.outcome}`, async () => {
      const before = sums()
      const about = domainOf(label)
      const row = await delivered(file, about)
      assert.equal(row.outcome, label.outcome, String(row.reason))
      if (label.outcome === 'refused') return
      assert.equal(row.authenticated, true)
      const shown = {
        kind: row.kind === 'tls' ? 'tlsrpt' : row.kind,
        report_id: row.report_id,
        skipped: row.skipped_records,
        faults: row.warnings.toSorted(),
        ...(row.kind === 'dmarc'
          ? { form: row.format, records: row.records, messages: row.messages, pass: row.pass, fail: row.fail }
          : { records: row.records, success: row.successful_sessions, failure: row.failed_sessions }),
      }
      const dmarc = {
        form: label.form,
        records: label.records,
        messages: label.messages,
        pass: label.pass,
        fail: label.fail,
      }
      assert.deepEqual(shown, {
        kind: label.kind,
        report_id: label.report_id,
        skipped: label.skipped_records ?? label.skipped_policies ?? 0,
        faults: (label.faults ?? []).toSorted(),
        ...(label.kind === 'dmarc'
          ? dmarc
          : { records: label.policies?.length, success: label.success, failure: label.failure }),
      })
      if (label.org) assert.equal(row.org_name, label.org)
      const { dmarc: messages, tls } = sums()
      const own = (label.policies ?? []).filter(({ domain }) => domain === '' || domain.endsWith(about))
      const sum = (of: 'success' | 'failure'): number => own.reduce((all, each) => all + each[of], 0)
      assert.deepEqual(
        [messages.messages - before.dmarc.messages, messages.pass - before.dmarc.pass],
        [label.messages ?? 0, label.pass ?? 0],
      )
      assert.deepEqual(
        [tls.success - before.tls.success, tls.failure - before.tls.failure],
        [sum('success'), sum('failure')],
      )
    })
})
