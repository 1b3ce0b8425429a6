// Caches DNS answers for a short time: SPF and DMARC ask for the same names with every mail of one sender.
// A failed question is asked again.
import { SECOND, type Clock } from '../base/clock.ts'
import { askType, type ResolverAnswer, type Mx, type Resolver } from './resolver.ts'

type RememberedAnswer = ResolverAnswer<string | Mx>

/** Shorter than the usual TTL of mail records, long enough for a burst of mail. */
const LIFETIME = 30 * SECOND
/**
 * The most answers kept (the oldest are dropped first), characters of
 * an answer, and characters of a name (RFC 1035 §2.3.4).
 */
const MOST = 500
const MAX_LETTERS = 4096
const MAX_NAME = 255

/**
 * A function that asks `resolver` by type, or returns its answer of the last half minute.
 * Equal questions at once are asked once.
 */
export function remembering(
  resolver: Resolver,
  clock: Clock,
): (name: string, type: string) => Promise<RememberedAnswer> {
  const kept = new Map<string, { answer: Promise<RememberedAnswer>; until: number }>()
  return (name, type) => {
    if (name.length > MAX_NAME) return askType(resolver, name, type)
    const question = `${type} ${name.toLowerCase()}`
    const now = clock.now()
    const known = kept.get(question)
    if (known && now < known.until) return known.answer
    const answer = askType(resolver, name, type)
    kept.delete(question)
    kept.set(question, { answer, until: now + LIFETIME })
    if (kept.size > MOST) kept.delete(kept.keys().next().value!)
    const forget = (): void => void (kept.get(question)?.answer === answer && kept.delete(question))
    answer.then((found) => void (isWorthKeeping(found) || forget()), forget)
    return answer
  }
}

function isWorthKeeping(found: RememberedAnswer): boolean {
  if (found.kind !== 'found') return found.kind !== 'failed'
  const letters = found.records.reduce((sum, record) => sum + lettersOf(record), 0)
  return letters <= MAX_LETTERS
}

const lettersOf = (record: string | Mx): number => (typeof record === 'string' ? record : record.exchange).length
