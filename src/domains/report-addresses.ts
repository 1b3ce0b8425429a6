// The addresses for reports about a domain's mail. Their host is that of the return path: it always receives here,
// whoever receives for the domain itself (D46), and lies in the same organisational domain, so that no further record
// must allow the reports (RFC 9990 §4).
import type { Domain } from './find.ts'

const LOCAL_PARTS = { dmarc: 'dmarc-reports', tls: 'tls-reports' } as const
type ReportsAbout = keyof typeof LOCAL_PARTS

export const reportsTo = (about: ReportsAbout, domain: Pick<Domain, 'mail_from_prefix' | 'name'>): string =>
  `${LOCAL_PARTS[about]}@${domain.mail_from_prefix}.${domain.name}`

/** What the reports to a local part (in lower case) are about; undefined: it is not for reports. */
export const reportsAbout = (local: string): ReportsAbout | undefined =>
  local === LOCAL_PARTS.dmarc ? 'dmarc' : local === LOCAL_PARTS.tls ? 'tls' : undefined

/** A record with one more address for reports (`rua`); those that it names stay. */
export function withReportsTo(record: string, address: string): string {
  const uri = `mailto:${address}`
  const [tag, before = '', named = ''] = /(;\s*rua\s*=\s*)([^;]*)/i.exec(record) ?? []
  if (tag === undefined) return `${record.trimEnd().replace(/;?$/, ';')} rua=${uri};`
  const known = named.split(',').map((each) =>
    each
      .trim()
      .toLowerCase()
      .replace(/!\d+[kmgt]?$/, ''),
  )
  if (known.includes(uri.toLowerCase())) return record
  const list = named.trim() === '' ? uri : `${named.trimEnd()},${uri}`
  return record.replace(tag, () => `${before}${list}`)
}
