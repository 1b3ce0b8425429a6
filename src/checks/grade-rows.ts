// A row of the grade: the test, its result, and the remedy.
import type { Config } from '../base/config.ts'
import type { Resolver } from '../net/resolver.ts'
import type { AskDns } from '../net/dns-question.ts'

export interface GradeRow {
  category: 'ipv6' | 'dnssec' | 'auth' | 'starttls' | 'certificate' | 'dane' | 'rpki'
  test: string
  result: 'pass' | 'fail' | 'not_ours' | 'not_asked'
  /** The remedy; null when there is none. */
  mend: string | null
}

export interface GradeDeps {
  config: Config
  resolver: Resolver
  ask: AskDns
}

/** Makes rows of one category; `mend` is shown when the test fails. */
export const judged =
  (category: GradeRow['category']) =>
  (test: string, passes: boolean, mend: string): GradeRow => ({
    category,
    test,
    result: passes ? 'pass' : 'fail',
    mend: passes ? null : mend,
  })

/** A failed row that another party has to correct: the DNS host, or the operator that `who` names. */
export const theirs = (row: GradeRow, who?: string): GradeRow =>
  row.result === 'fail'
    ? { ...row, result: 'not_ours', mend: who === undefined ? row.mend : `${who} must correct this: ${row.mend}` }
    : row

/** Whether an exchanger is this server; all others have other operators. */
export const isOurs = ({ config }: Pick<GradeDeps, 'config'>, host: string): boolean =>
  host.toLowerCase() === config.hostname.toLowerCase()

const ORDER: readonly GradeRow['result'][] = ['fail', 'not_ours', 'not_asked', 'pass']

/** The worse of two results of the same test. */
export const worse = (a: GradeRow, b: GradeRow): GradeRow =>
  ORDER.indexOf(a.result) <= ORDER.indexOf(b.result) ? a : b
