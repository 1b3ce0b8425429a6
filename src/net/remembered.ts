// Caches DNS answers for a short time: SPF and DMARC look up the same names for each message from a sender. Failed
// lookups are not cached.
import { SECOND, type Clock } from '../base/clock.ts'
import { askType, type ResolverAnswer, type Mx, type Resolver } from './resolver.ts'

/** An answer, and the time in epoch ms at which it expires. A failed lookup has expired already. */
export interface RememberedAnswer {
  answer: ResolverAnswer<string | Mx>
  until: number
}

/** Shorter than the usual TTL of mail records, but long enough for a burst of mail. */
const LIFETIME = 30 * SECOND
/**
 * The most answers kept (the oldest are dropped first), characters of
 * an answer, and characters of a name (RFC 1035 §2.3.4).
 */
const MOST = 500
const MAX_LETTERS = 4096
const MAX_NAME = 255

/** Answers, or promises of them, by question. */
export class AnswerMemory<T> {
  readonly #kept = new Map<string, { answer: T; until: number }>()
  readonly #most: number

  constructor(most = MOST) {
    this.#most = most
  }

  get(name: string, type: string, now: number): T | undefined {
    const known = this.#kept.get(questionOf(name, type))
    return known && now < known.until ? known.answer : undefined
  }

  /** Keeps an answer until a time in epoch ms. Returns a function that forgets it. */
  keep(name: string, type: string, answer: T, until: number): () => void {
    const question = questionOf(name, type)
    this.#kept.delete(question)
    this.#kept.set(question, { answer, until })
    if (this.#kept.size > this.#most) this.#kept.delete(this.#kept.keys().next().value!)
    return () => void (this.#kept.get(question)?.answer === answer && this.#kept.delete(question))
  }

  /** Sets the end of an answer that is still kept. */
  shorten(name: string, type: string, answer: T, until: number): void {
    const kept = this.#kept.get(questionOf(name, type))
    if (kept?.answer === answer) kept.until = until
  }
}

const questionOf = (name: string, type: string): string => `${type} ${name.toLowerCase()}`

/**
 * Returns a function that looks up a name by type and caches the answer for half a minute. Equal lookups at the same
 * time share one query.
 */
export function remembering(
  resolver: Resolver,
  clock: Clock,
): (name: string, type: string) => Promise<RememberedAnswer> {
  const memory = new AnswerMemory<Promise<RememberedAnswer>>()
  return (name, type) => {
    const now = clock.now()
    const known = memory.get(name, type, now)
    if (known) return known
    const until = now + LIFETIME
    const asked = askType(resolver, name, type).then((answer) => ({
      answer,
      until: name.length <= MAX_NAME && isWorthKeeping(answer) ? until : 0,
    }))
    if (name.length > MAX_NAME) return asked
    const forget = memory.keep(name, type, asked, until)
    asked.then((found) => void (found.until > 0 || forget()), forget)
    return asked
  }
}

function isWorthKeeping(found: ResolverAnswer<string | Mx>): boolean {
  if (found.kind !== 'found') return found.kind !== 'failed'
  const letters = found.records.reduce((sum, record) => sum + lettersOf(record), 0)
  return letters <= MAX_LETTERS
}

const lettersOf = (record: string | Mx): number => (typeof record === 'string' ? record : record.exchange).length
