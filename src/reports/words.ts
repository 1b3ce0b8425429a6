// Why a report was refused, in a sentence.
import { WORDS } from './reading/summary.ts'
import type { ReportRow } from './receipt.ts'

const ALL: Record<NonNullable<ReportRow['why']>, string> = {
  ...WORDS,
  unauthenticated: 'No signature of its author’s domain covers it, so anybody may have written it.',
  foreign: 'It is about a domain that is not of this address.',
  duplicate: 'It came before.',
  too_many: 'More reports than this came within a day.',
  virus: 'The scanner found a virus in it.',
}

export const wordsOf = (why: NonNullable<ReportRow['why']>): string => ALL[why]
