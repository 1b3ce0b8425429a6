// The answer to "why": causes in order, each with its rows, what is not known, and what was read.
//
// Guarantees: no cause without a row (D162); never a claim about inbox or spam; the same answer while nothing changed
// (D162); at most 10 causes of 5 rows.
import { iso } from '../base/clock.ts'
import {
  Found,
  REACHES,
  STRENGTHS,
  type CauseEntry,
  type WhyRow,
  type FoundWhyRow,
  type Strength,
  type WhyDeps,
} from './evidence.ts'
import type { Store } from '../store/database.ts'
import { readyReports } from './sources-reports.ts'
import { summaryOf, unknownsOf, type NotKnown } from './standing.ts'
import { subjectOf, type WhyQuestion, type WhySubject } from './subject.ts'
import { CAUSES, SOURCES } from './tables.ts'

const MOST_CAUSES = 10
const MOST_ROWS = 5

export interface ExplainedCause {
  rank: number
  cause: string
  strength: Strength
  says: string
  mend: string
  evidence: { source: string; at: string; text: string; href: string | null }[]
}

export interface AskedSource {
  source: string
  state: 'read' | 'empty' | 'off'
  rows: number
  since: string
}

export interface Explanation {
  subject: string
  kind: WhySubject['kind']
  summary: string
  causes: ExplainedCause[]
  not_known: NotKnown[]
  asked: AskedSource[]
}

interface NamedCause {
  entry: CauseEntry
  reach: number
  strength: Strength
  rows: readonly [FoundWhyRow, ...FoundWhyRow[]]
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

/** The newest first; of one time, by their words. */
const byTime = (one: WhyRow, other: WhyRow): number => other.at - one.at || compare(one.text, other.text)

const byRank = (one: NamedCause, other: NamedCause): number =>
  one.reach - other.reach ||
  STRENGTHS.indexOf(one.strength) - STRENGTHS.indexOf(other.strength) ||
  other.rows[0].at - one.rows[0].at ||
  compare(one.entry.cause, other.entry.cause)

function named(found: Found): NamedCause[] {
  return CAUSES.flatMap((entry) => {
    const [first, ...more] = entry.rows(found).toSorted(byTime)
    if (!first) return []
    const { subject } = found
    const strength = typeof entry.strength === 'function' ? entry.strength(subject) : entry.strength
    const reach = typeof entry.reach === 'function' ? entry.reach(subject) : entry.reach
    return [{ entry, reach: REACHES.indexOf(reach), strength, rows: [first, ...more] as const }]
  }).toSorted(byRank)
}

const shown = ({ entry, rows, strength }: NamedCause, at: number, subject: WhySubject): ExplainedCause => ({
  rank: at + 1,
  cause: entry.cause,
  strength,
  says: entry.says(rows, subject),
  mend: typeof entry.mend === 'string' ? entry.mend : entry.mend(rows, subject),
  evidence: rows.slice(0, MOST_ROWS).map(({ at: time, href, source, text }) => ({ source, at: iso(time), text, href })),
})

/** Reads every source that fits the subject; a source that does not work here says so. */
function asking(deps: WhyDeps, subject: WhySubject): { found: Found; asked: AskedSource[] } {
  const rows = new Map<string, readonly WhyRow[]>()
  const fitting = SOURCES.filter(
    ({ kinds, operator }) => kinds.includes(subject.kind) && (operator !== true || subject.operator),
  )
  const asked = fitting.map(({ ask, name }): AskedSource => {
    const answer = ask(deps, subject)
    const all = answer === 'off' ? [] : answer
    rows.set(name, all)
    const state = answer === 'off' ? 'off' : all.length === 0 ? 'empty' : 'read'
    return { source: name, state, rows: all.length, since: iso(subject.since) }
  })
  return { found: new Found(subject, rows), asked }
}

/** As `explain`; what is large was summed before in small steps, so that nothing else waits for it. */
export async function explained(deps: WhyDeps & { store: Store }, question: WhyQuestion): Promise<Explanation> {
  await readyReports(deps, subjectOf(deps.store, question))
  return explain(deps, question)
}

/** Explains a subject. Throws 404 when the account has none of this name. */
export function explain(deps: WhyDeps, question: WhyQuestion): Explanation {
  const subject = subjectOf(deps.store, question)
  const { asked, found } = asking(deps, subject)
  const causes = named(found)
    .slice(0, MOST_CAUSES)
    .map((each, at) => shown(each, at, subject))
  return {
    subject: subject.name,
    kind: subject.kind,
    summary: summaryOf(subject, causes[0]?.says),
    causes,
    not_known: unknownsOf(
      found,
      causes.map(({ cause }) => cause),
    ),
    asked,
  }
}
