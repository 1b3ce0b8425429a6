// packaging/monitoring: the alert rules and the dashboard use only metrics that exist. promtool checks them in
// test/interop/monitoring.interop.ts.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { counters, requestSeconds } from '../../src/base/counters.ts'
import { loadParts } from '../../src/server/parts.ts'

const read = (name: string): string =>
  readFileSync(new URL(`../../packaging/monitoring/${name}`, import.meta.url), 'utf8')

const known = new Set([
  ...(await loadParts()).flatMap(({ figures = [] }) => figures.map(({ name }) => name)),
  ...Object.values(counters).map(({ name }) => name),
  ...['bucket', 'sum', 'count'].map((part) => `${requestSeconds.name}_${part}`),
])
const named = (text: string): string[] => [...new Set(text.match(/\bpostrider_[a-z_]+\b/g) ?? [])]

const alerts = read('alerts.yml')
const rules = [...alerts.matchAll(/- alert: (\w+)\n +expr: (.+)\n/g)].map(([, name, expr]) => ({
  name: name!,
  expr: expr!,
}))
const dashboard = JSON.parse(read('dashboard.json')) as {
  panels: { title: string; targets: { expr: string }[] }[]
}

test('alert rules and the dashboard use only metrics of /metrics', () => {
  assert.ok(rules.length >= 7)
  for (const { expr, name } of rules)
    assert.deepEqual(
      named(expr).filter((each) => !known.has(each)),
      [],
      name,
    )
  for (const { targets, title } of dashboard.panels)
    for (const { expr } of targets) {
      assert.ok(named(expr).length > 0 || expr.startsWith('up{'), title)
      assert.deepEqual(
        named(expr).filter((each) => !known.has(each)),
        [],
        title,
      )
    }
})

test('each alert rule has a unit test and a row in docs/monitoring.md', () => {
  const tried = read('alerts-test.yml')
  const page = readFileSync(new URL('../../docs/monitoring.md', import.meta.url), 'utf8')
  for (const { name } of rules) {
    assert.ok(tried.includes(`- name: ${name}\n`), name)
    assert.ok(page.includes(`| \`${name}\` |`), name)
  }
})
