// What an explanation is made of: sources give rows, causes are read from rows, and nothing is said without one (D162).
import { iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Troubles } from '../base/trouble.ts'
import type { ReplyReason } from '../smtp/reply-reason.ts'
import type { Reader } from '../store/database.ts'
import type { WhySubject } from './subject.ts'

export interface WhyDeps {
  store: Reader
  keyring: Keyring
  config: Pick<Config, 'delivery' | 'hostname' | 'warmup'>
  /** The present troubles of the process; a command beside the server does not know them. */
  troubles?: Pick<Troubles, 'list'> | undefined
}

/** A point in time inside a sentence. */
export const moment = (at: number): string => `${iso(at).slice(0, 16).replace('T', ' ')} UTC`

/** One piece of evidence that can be shown. */
export interface WhyRow {
  at: number
  text: string
  /** The page of the console that shows it; null: there is none. */
  href: string | null
  /** What the row says, in a word that causes look for. */
  fact: string
  /** What a reply means, where that is known. */
  reason?: ReplyReason | undefined
  /** How often it was said; once when absent. */
  times?: number
}

export interface EvidenceSource {
  name: string
  kinds: readonly WhySubject['kind'][]
  /** It concerns the whole server: operators alone ask it (DV95). */
  operator?: true
  /** `off`: the source exists, and does not work here. */
  ask: (deps: WhyDeps, subject: WhySubject) => WhyRow[] | 'off'
}

/** The rows by the names of their sources. */
export class Found {
  readonly subject: WhySubject
  readonly #rows: ReadonlyMap<string, readonly WhyRow[]>

  constructor(subject: WhySubject, rows: ReadonlyMap<string, readonly WhyRow[]>) {
    this.subject = subject
    this.#rows = rows
  }

  /** The rows of a source; with `facts`, those that say one of them. */
  of(source: string, ...facts: readonly string[]): FoundWhyRow[] {
    const rows = this.#rows.get(source) ?? []
    return rows.filter(({ fact }) => facts.length === 0 || facts.includes(fact)).map((row) => ({ ...row, source }))
  }
}

export type FoundWhyRow = WhyRow & { source: string }

export const STRENGTHS = ['shown', 'likely', 'possible'] as const
export type Strength = (typeof STRENGTHS)[number]

/** How far a cause reaches, in the order of an answer: this subject, its receiver with all mail, the whole server. */
export const REACHES = ['subject', 'receiver', 'server'] as const
type CauseReach = (typeof REACHES)[number]

export interface CauseEntry {
  cause: string
  reach: CauseReach | ((subject: WhySubject) => CauseReach)
  strength: Strength | ((subject: WhySubject) => Strength)
  /** The rows that speak for it; none: it is not named. */
  rows: (found: Found) => FoundWhyRow[]
  says: (rows: readonly [FoundWhyRow, ...FoundWhyRow[]], subject: WhySubject) => string
  mend: string | ((rows: readonly [FoundWhyRow, ...FoundWhyRow[]], subject: WhySubject) => string)
}
