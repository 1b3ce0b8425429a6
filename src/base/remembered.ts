// Answers of DNS that are kept for a moment: SPF and DMARC ask the same names for every mail of one sender, and a server that gets
// many of them asks once. What could not be found out is asked again.
import { SECOND, type Clock } from './clock.ts'
import { askType, type Answer, type Mx, type Resolver } from './resolver.ts'

type Found = Answer<string | Mx>

/** Shorter than the records of mail are meant to live, long enough for a burst. */
const LIFETIME = 30 * SECOND
/** Answers kept, the oldest go first; and letters of each, of its name too (RFC 1035 §2.3.4). */
const MOST = 500
const MAX_LETTERS = 4096
const MAX_NAME = 255

/** Asks `resolver` by type, or remembers what it answered less than half a minute ago; who asks while a question is under way gets its answer. */
export function remembering(resolver: Resolver, clock: Clock): (name: string, type: string) => Promise<Found> {
  const kept = new Map<string, { answer: Promise<Found>; until: number }>()
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

function isWorthKeeping(found: Found): boolean {
  if (found.kind !== 'found') return found.kind !== 'failed'
  const letters = found.records.reduce((sum, record) => sum + lettersOf(record), 0)
  return letters <= MAX_LETTERS
}

const lettersOf = (record: string | Mx): number => (typeof record === 'string' ? record : record.exchange).length
