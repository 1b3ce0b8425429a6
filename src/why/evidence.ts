// The types of an explanation: sources return rows of evidence, and every cause has at least one row (D162).
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
  config: Pick<Config, 'data_dir' | 'delivery' | 'hostname' | 'warmup'>
  /** The present problems of the process. A command next to the server does not have them. */
  troubles?: Pick<Troubles, 'list'> | undefined
}

/** A time within a sentence. */
export const moment = (at: number): string => `${iso(at).slice(0, 16).replace('T', ' ')} UTC`

/** The text of a row after the address or domain and its result. */
export const quoted = (text: string): string => text.slice(text.indexOf(': ') + 2)

export interface WhyRow {
  at: number
  text: string
  /** The console page of the row, or null. */
  href: string | null
  /** The word by which causes find the row: the name of a cause, or another word. */
  fact: string
  /** The meaning of a reply, if it is known. */
  reason?: ReplyReason | undefined
  /** How often the reply was received. The default is once. */
  times?: number
}

export interface EvidenceSource {
  name: string
  kinds: readonly WhySubject['kind'][]
  /** Only operators see it, because it concerns the whole server. */
  operator?: true
  /** `off`: the source does not work on this server. */
  ask: (deps: WhyDeps, subject: WhySubject) => WhyRow[] | 'off'
}

export class Found {
  readonly subject: WhySubject
  readonly #rows: ReadonlyMap<string, readonly WhyRow[]>

  constructor(subject: WhySubject, rows: ReadonlyMap<string, readonly WhyRow[]>) {
    this.subject = subject
    this.#rows = rows
  }

  /** Returns the rows with a fact, from all sources. */
  with(fact: string): FoundWhyRow[] {
    return [...this.#rows.keys()].flatMap((source) => this.of(source, fact))
  }

  /** Returns the rows of a source. With `facts`, only those with one of them. */
  of(source: string, ...facts: readonly string[]): FoundWhyRow[] {
    const rows = this.#rows.get(source) ?? []
    return rows.filter(({ fact }) => facts.length === 0 || facts.includes(fact)).map((row) => ({ ...row, source }))
  }
}

export type FoundWhyRow = WhyRow & { source: string }

export const CONFIDENCES = ['confirmed', 'likely', 'possible'] as const
export type Confidence = (typeof CONFIDENCES)[number]

/** The scope of a cause, in the order of an explanation: this subject, all email to its receiver, the whole server. */
export const REACHES = ['subject', 'receiver', 'server'] as const
type CauseReach = (typeof REACHES)[number]

export interface CauseEntry {
  cause: string
  /** The subject by default. */
  reach?: CauseReach | ((subject: WhySubject) => CauseReach)
  /** Confirmed by default. */
  confidence?: Confidence | ((subject: WhySubject) => Confidence)
  /** The rows that prove the cause, by default those whose fact is the cause. Without rows, it is not named. */
  rows?: (found: Found) => FoundWhyRow[]
  says: (rows: readonly [FoundWhyRow, ...FoundWhyRow[]], subject: WhySubject) => string
  fix: string | ((rows: readonly [FoundWhyRow, ...FoundWhyRow[]], subject: WhySubject) => string)
}
