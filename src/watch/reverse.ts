// The PTR record of an address, and whether its name is forward-confirmed (RFC 1912 §2.1). Large providers reject email
// without it. The owner of the address sets the name, so only characters of names are kept, and few names are checked.
import { isIPv6 } from 'node:net'
import { reversed } from '../base/network.ts'
import type { Resolver, ResolverAnswer } from '../net/resolver.ts'
import type { WatchAnswer } from './lists.ts'

/** The most names of an address that are checked, and the number of queries for an address. */
const MOST = 4
export const REVERSE_QUESTIONS = 1 + MOST

export type ReverseResolver = Pick<Resolver, 'a' | 'aaaa' | 'ptr'>

const clean = (name: string): string => name.replace(/[^\w.-]/g, '?').slice(0, 253)

const unanswered = (what: string, reason: string): WatchAnswer => ({
  state: 'unknown',
  answer: `DNS lookup of ${what} failed (${reason})`,
})

/** Compares the PTR record with the name in EHLO. */
function judgeNames(names: readonly string[], hostname: string): WatchAnswer {
  const [name, another] = names
  return { state: another === undefined && name === hostname ? 'clear' : 'wrong', answer: names.join(', ') }
}

/** Checks whether each name resolves to the address. */
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
    ({ answer, name }) => `${name} resolves to ${addressesOf(answer).slice(0, MOST).join(', ') || 'no address'}`,
  )
  return names.length > 0 && astray.length === 0
    ? { state: 'clear', answer: names.join(', ') }
    : { state: 'wrong', answer: shown.join('; ') }
}

/** Looks up the PTR record of an address that sends `hostname` in EHLO, and whether its name is forward-confirmed. */
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

/** Returns the meaning of a wrong PTR record and the fix. */
export function meaningOfReverse(
  kind: 'reverse' | 'forward',
  { answer, hostname, subject }: { answer: string; hostname: string; subject: string },
): { words: string; fix: string } {
  const set = `Set the PTR record of ${subject} to ${hostname} at your hosting provider. Large providers reject email without it.`
  if (answer === '') return { words: `${subject} has no PTR record.`, fix: set }
  if (kind === 'forward')
    return {
      words: `${answer}, not to ${subject}.`,
      fix: `Publish an A or AAAA record of ${hostname} with the address ${subject}.`,
    }
  return answer.includes(', ')
    ? {
        words: `${subject} has several PTR records: ${answer}.`,
        fix: `Keep only the PTR record ${hostname} for ${subject}.`,
      }
    : {
        words: `The PTR record of ${subject} is ${answer}. It must be ${hostname}, the hostname of this server.`,
        fix: set,
      }
}
