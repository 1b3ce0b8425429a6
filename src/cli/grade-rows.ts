// A row of the grade: the test, its result, and the mend.
import type { Config } from '../base/config.ts'
import type { Resolver } from '../base/resolver.ts'
import type { AskDns } from './grade-dns.ts'

export interface Row {
  category: 'ipv6' | 'dnssec' | 'auth' | 'starttls' | 'certificate' | 'dane' | 'rpki'
  test: string
  result: 'pass' | 'fail' | 'not_ours' | 'not_asked'
  /** The mend; null when there is none. */
  mend: string | null
}

export interface GradeDeps {
  config: Config
  resolver: Resolver
  ask: AskDns
}

/** Makes rows of one category; `mend` is shown when the test fails. */
export const judged =
  (category: Row['category']) =>
  (test: string, passes: boolean, mend: string): Row => ({
    category,
    test,
    result: passes ? 'pass' : 'fail',
    mend: passes ? null : mend,
  })
