// The explanation: ranked causes, each with its evidence, open questions, and the sources.
//
// Guarantees: no cause without a row (D162), and never a claim about inbox or spam. The result is the same while the
// data is (D162). There are at most 10 causes of 5 rows.
import { iso } from '../base/clock.ts'
import { forInstance } from '../base/named-instance.ts'
import {
  Found,
  REACHES,
  CONFIDENCES,
  type CauseEntry,
  type WhyRow,
  type FoundWhyRow,
  type Confidence,
  type WhyDeps,
} from './evidence.ts'
import { MAIL_CAUSES } from './causes-mail.ts'
import { SENDER_CAUSES } from './causes-sender.ts'
import { SERVER_CAUSES } from './causes-server.ts'
import { MAIL_SOURCES } from './sources-mail.ts'
import { REPORT_SOURCES } from './sources-reports.ts'
import { SENDER_SOURCES } from './sources-sender.ts'
import { SERVER_SOURCES } from './sources-server.ts'
import { summaryOf, unknownsOf, type NotKnown } from './summary.ts'
import { subjectOf, type WhyQuestion, type WhySubject } from './subject.ts'

const SOURCES = [...MAIL_SOURCES, ...SENDER_SOURCES, ...SERVER_SOURCES, ...REPORT_SOURCES]
const CAUSES = [...MAIL_CAUSES, ...SENDER_CAUSES, ...SERVER_CAUSES]

const MOST_CAUSES = 10
const MOST_ROWS = 5

export interface ExplainedCause {
  rank: number
  cause: string
  confidence: Confidence
  message: string
  fix: string
  evidence: { source: string; at: string; text: string; href: string | null }[]
}

export interface ReadSource {
  source: string
  state: 'read' | 'empty' | 'unavailable'
  rows: number
  since: string
}

export interface Explanation {
  subject: string
  kind: WhySubject['kind']
  summary: string
  causes: ExplainedCause[]
  unknowns: NotKnown[]
  sources: ReadSource[]
}

interface NamedCause {
  entry: CauseEntry
  reach: number
  confidence: Confidence
  rows: readonly [FoundWhyRow, ...FoundWhyRow[]]
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

/** Newest first, then by text. */
const byTime = (one: WhyRow, other: WhyRow): number => other.at - one.at || compare(one.text, other.text)

const byRank = (one: NamedCause, other: NamedCause): number =>
  one.reach - other.reach ||
  CONFIDENCES.indexOf(one.confidence) - CONFIDENCES.indexOf(other.confidence) ||
  other.rows[0].at - one.rows[0].at ||
  compare(one.entry.cause, other.entry.cause)

function named(found: Found): NamedCause[] {
  return CAUSES.flatMap((entry) => {
    const [first, ...more] = (entry.rows?.(found) ?? found.with(entry.cause)).toSorted(byTime)
    if (!first) return []
    const { subject } = found
    const { confidence = 'confirmed', reach = 'subject' } = entry
    return [
      {
        entry,
        reach: REACHES.indexOf(typeof reach === 'function' ? reach(subject) : reach),
        confidence: typeof confidence === 'function' ? confidence(subject) : confidence,
        rows: [first, ...more] as const,
      },
    ]
  }).toSorted(byRank)
}

const shown = ({ entry, rows, confidence }: NamedCause, at: number, subject: WhySubject): ExplainedCause => ({
  rank: at + 1,
  cause: entry.cause,
  confidence,
  message: entry.says(rows, subject),
  fix: forInstance(typeof entry.fix === 'string' ? entry.fix : entry.fix(rows, subject)),
  evidence: rows.slice(0, MOST_ROWS).map(({ at: time, href, source, text }) => ({ source, at: iso(time), text, href })),
})

/** Reads every source that applies to the subject. */
function asking(deps: WhyDeps, subject: WhySubject): { found: Found; sources: ReadSource[] } {
  const rows = new Map<string, readonly WhyRow[]>()
  const fitting = SOURCES.filter(
    ({ kinds, operator }) => kinds.includes(subject.kind) && (operator !== true || subject.operator),
  )
  const sources = fitting.map(({ ask, name }): ReadSource => {
    const answer = ask(deps, subject)
    const all = answer === 'off' ? [] : answer
    rows.set(name, all)
    const state = answer === 'off' ? 'unavailable' : all.length === 0 ? 'empty' : 'read'
    return { source: name, state, rows: all.length, since: iso(subject.since) }
  })
  return { found: new Found(subject, rows), sources }
}

/** Explains a subject. Throws 404 if the account has no subject of this name. */
export function explain(deps: WhyDeps, question: WhyQuestion): Explanation {
  const subject = subjectOf(deps.store, question)
  const { found, sources } = asking(deps, subject)
  const causes = named(found)
    .slice(0, MOST_CAUSES)
    .map((each, at) => shown(each, at, subject))
  return {
    subject: subject.name,
    kind: subject.kind,
    summary: summaryOf(subject, causes[0]?.message),
    causes,
    unknowns: unknownsOf(
      found,
      causes.map(({ cause }) => cause),
    ),
    sources,
  }
}
