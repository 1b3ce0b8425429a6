// Reads the openspf test suite for RFC 7208: scenarios of a zone and the checks made in it. Only so much of YAML is
// understood as that file uses.
import { readFileSync } from 'node:fs'
import type { ResolverAnswer, Mx } from '../../src/net/resolver.ts'

export interface Check {
  name: string
  helo: string
  host: string
  mailFrom: string
  /** Any of these is right. */
  results: string[]
}

export interface Scenario {
  name: string
  checks: Check[]
  look: (ask: { name: string; type: string }) => ResolverAnswer<string | Mx>
}

type Zone = Map<string, { type: string; value: string[] }[]>

/** A plain, quoted or [listed] value. In quotes \xNN and \0 are bytes. */
function scalars(text: string): string[] {
  const trimmed = text.trim()
  if (!trimmed.startsWith('[')) return [scalar(trimmed)]
  const items = trimmed.slice(1, -1).match(/"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,\s][^,]*/g) ?? []
  return items.map((item) => scalar(item.trim()))
}

function scalar(text: string): string {
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'")
  if (!text.startsWith('"')) return text
  return text
    .slice(1, -1)
    .replace(/\\(?:x([0-9A-Fa-f]{2})|(.))/g, (_, hex: string | undefined, one: string) =>
      hex ? String.fromCharCode(parseInt(hex, 16)) : one === '0' ? '\0' : one,
    )
}

export function readSuite(file: string): Scenario[] {
  return readFileSync(file, 'latin1')
    .split(/^---$/m)
    .filter((part) => /^tests:/m.test(part))
    .map((part) => {
      const zone: Zone = new Map()
      const checks: Record<string, string>[] = []
      let section = ''
      let open = ''
      let description = ''
      // A line that is indented further than an item belongs to it.
      for (const line of part.replace(/\n {5,}(?=\S)/g, ' ').split('\n')) {
        if (/^\s*(?:#.*)?$/.test(line)) continue
        const [, top, rest = ''] = /^(\w+):\s*(.*)$/.exec(line) ?? []
        const [, second] = /^ {2}(\S.*):$/.exec(line) ?? []
        const [, key, value = ''] = /^ {4}(\w+):\s*(.*)$/.exec(line) ?? []
        const [, type, data = ''] = /^ {4}- (\w+)(?::\s*(.*))?$/.exec(line) ?? []
        if (top) {
          section = top
          if (top === 'description') description = rest
        } else if (second && section === 'tests') checks.push({ name: second })
        else if (second) zone.set((open = scalar(second).toLowerCase()), [])
        else if (key && section === 'tests') checks.at(-1)![key] = value
        else if (type) zone.get(open)!.push({ type, value: data === '' ? [] : scalars(data) })
      }
      return {
        name: description,
        checks: checks.map((check) => ({
          name: check['name']!,
          helo: scalar(check['helo'] ?? ''),
          host: scalar(check['host'] ?? ''),
          mailFrom: scalar(check['mailfrom'] ?? ''),
          results: scalars(check['result'] ?? ''),
        })),
        look: ({ name, type }) => look(zone, name.toLowerCase().replace(/\.$/, ''), type, 0),
      }
    })
}

/** SPF records of a name count as its TXT records if it does not have any (the suite was made for both types). */
function look(zone: Zone, name: string, type: string, hops: number): ResolverAnswer<string | Mx> {
  const records = zone.get(name)
  if (!records || name.split('.').some((label) => label.length > 63)) return { kind: 'nxdomain' }
  const exact = records.filter((record) => record.type === type)
  const found = exact.length > 0 || type !== 'TXT' ? exact : records.filter((record) => record.type === 'SPF')
  // "TXT: NONE" excludes the SPF records.
  const there = found.filter(({ value }) => value[0] !== 'NONE')
  if (there.length > 0)
    return {
      kind: 'found',
      records: there.map(({ value }) =>
        type === 'MX' ? { priority: Number(value[0]), exchange: value[1] ?? '' } : value.join(''),
      ),
    }
  const alias = records.find((record) => record.type === 'CNAME')
  if (alias && hops < 8) return look(zone, alias.value[0]!.toLowerCase().replace(/\.$/, ''), type, hops + 1)
  return records.some((record) => record.type === 'TIMEOUT') ? { kind: 'failed', reason: 'ETIMEOUT' } : { kind: 'none' }
}
