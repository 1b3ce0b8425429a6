// The reverse entry of an address, and whether its name leads back (RFC 1912 §2.1; large receivers refuse mail without
// it). A name comes from whoever owns the address: only characters of names are kept, and few names are looked at.
import { isIPv6 } from 'node:net'
import { reversed } from '../base/network.ts'
import type { Resolver, ResolverAnswer } from '../net/resolver.ts'
import type { WatchAnswer } from './lists.ts'

/** The most names of an address that are looked at, and the questions that an address costs. */
const MOST = 4
export const REVERSE_QUESTIONS = 1 + MOST

export type ReverseResolver = Pick<Resolver, 'a' | 'aaaa' | 'ptr'>

const clean = (name: string): string => name.replace(/[^\w.-]/g, '?').slice(0, 253)

const unanswered = (what: string, reason: string): WatchAnswer => ({
  state: 'unknown',
  answer: `no answer from DNS about ${what} (${reason})`,
})

/** What the reverse entry says, compared with the name in EHLO (DV92). */
function judgeNames(names: readonly string[], hostname: string): WatchAnswer {
  const [name, another] = names
  return { state: another === undefined && name === hostname ? 'clear' : 'wrong', answer: names.join(', ') }
}

/** Whether each name leads back to the address. */
async function leadsBack(resolver: ReverseResolver, address: string, names: readonly string[]): Promise<WatchAnswer> {
  const found = await Promise.all(
    names.map(async (name) => ({
      name,
      answer: await (isIPv6(address) ? resolver.aaaa(name) : resolver.a(name)),
    })),
  )
  const failed = found.find(({ answer }) => answer.kind === 'failed')
  if (failed?.answer.kind === 'failed') return unanswered(failed.name, failed.answer.reason)
  const addressesOf = (answer: ResolverAnswer<string>): string[] => (answer.kind === 'found' ? answer.records : [])
  const astray = found.filter(({ answer }) => !addressesOf(answer).some((each) => reversed(each) === reversed(address)))
  const shown = astray.map(
    ({ answer, name }) => `${name} leads to ${addressesOf(answer).slice(0, MOST).join(', ') || 'no address'}`,
  )
  return names.length > 0 && astray.length === 0
    ? { state: 'clear', answer: names.join(', ') }
    : { state: 'wrong', answer: shown.join('; ') }
}

/** The reverse entry of an address that says `hostname` in EHLO, and whether its name leads back. */
export async function askReverse(
  resolver: ReverseResolver,
  { address, hostname }: { address: string; hostname: string },
): Promise<{ reverse: WatchAnswer; forward: WatchAnswer }> {
  const answer = await resolver.ptr(`${reversed(address)}.${isIPv6(address) ? 'ip6' : 'in-addr'}.arpa`)
  if (answer.kind === 'failed') {
    const nothing = unanswered(address, answer.reason)
    return { reverse: nothing, forward: nothing }
  }
  const names = answer.kind === 'found' ? [...new Set(answer.records.map(clean))].toSorted().slice(0, MOST) : []
  return { reverse: judgeNames(names, hostname.toLowerCase()), forward: await leadsBack(resolver, address, names) }
}

/** What a wrong reverse entry means and what to do about it. */
export function meaningOfReverse(
  kind: 'reverse' | 'forward',
  { answer, hostname, subject }: { answer: string; hostname: string; subject: string },
): { words: string; mend: string } {
  const set = `Set the PTR record of ${subject} to ${hostname} where you rent the address: large receivers refuse mail without it.`
  if (answer === '') return { words: `${subject} leads to no name.`, mend: set }
  if (kind === 'forward')
    return {
      words: `${answer}, not back to ${subject}.`,
      mend: `Publish an address record of ${hostname} for ${subject}.`,
    }
  return answer.includes(', ')
    ? {
        words: `${subject} leads to several names: ${answer}.`,
        mend: `Keep ${hostname} alone in the PTR records of ${subject}.`,
      }
    : { words: `${subject} leads to ${answer}, not to ${hostname}, the name that this server gives itself.`, mend: set }
}
