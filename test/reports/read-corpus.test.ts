// Every file of the corpus of aggregate reports, read in a worker thread like a received one.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { reportReader } from '../../src/reports/reading/readers.ts'
import { summaryOf } from '../../src/reports/command-read.ts'

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
const FOLDER = join(CORPORA, 'aggregate')
const skip = existsSync(FOLDER) ? false : `no corpus at ${FOLDER}; set POSTRIDER_CORPORA`
/** When the newest report of the corpus was a month old. */
const TIMES = { now: Date.parse('2026-11-25'), oldest: null }

interface Label {
  outcome: 'read' | 'refused'
  note?: string
  why?: string
}

test('reads every report of the corpus as labelled', { skip }, async () => {
  const labels = JSON.parse(readFileSync(join(FOLDER, 'labels.json'), 'utf8')) as Record<string, Label>
  const reader = reportReader()
  const outcomes = { read: 0, refused: 0 }
  for (const [file, { note: _, ...label }] of Object.entries(labels)) {
    const summary = await summaryOf(reader, readFileSync(join(FOLDER, file)), TIMES)
    assert.equal(summary.outcome, label.outcome, file)
    // If two reasons apply, either is right.
    if (summary.outcome === 'read') assert.deepEqual(summary, label, file)
    outcomes[summary.outcome]++
  }
  await reader.close()
  assert.deepEqual(outcomes, { read: 69, refused: 26 })
})

test('reads an email like the file in it', { skip }, async () => {
  const labels = JSON.parse(readFileSync(join(FOLDER, 'labels.json'), 'utf8')) as Record<string, Label>
  const files = Object.keys(labels).filter((file) => !file.endsWith('.eml') && labels[file]!.why !== 'not_a_report')
  const reader = reportReader()
  for (const file of files) {
    const bytes = readFileSync(join(FOLDER, file))
    const encoded = bytes.toString('base64').replace(/.{76}/g, '$&\r\n')
    const mail = Buffer.from(`From: a@b.test\r\nContent-Transfer-Encoding: base64\r\n\r\n${encoded}\r\n`)
    assert.deepEqual(await reader.read(mail, TIMES), await reader.read(bytes, TIMES), file)
  }
  await reader.close()
  assert.ok(files.length > 60)
})
