// What is known of a watch in words: what it means, what to do, and the page of the list.
import { iso } from '../base/clock.ts'
import { listNamed, meaningOf, pageOfList } from './lists.ts'
import { meaningOfReverse } from './reverse.ts'
import type { WatchRow } from './watches.ts'

/** "Spamhaus ZEN (zen.spamhaus.org)". */
export function listShown(zone: string): string {
  const { name } = listNamed(zone)
  return name === zone ? zone : `${name} (${zone})`
}

const OWN_RESOLVER =
  'Lists do not answer big public resolvers: install one of your own ("apt install unbound") and set "dns.servers" to ["127.0.0.1:53"].'

const WITHOUT_ANSWER = {
  blocklist: `${OWN_RESOLVER} A list that never answers can be left out ("watch.lists").`,
  domain_list: `${OWN_RESOLVER} A list that never answers can be left out ("watch.domain_lists").`,
  reverse: 'See that DNS works ("dns.servers", /etc/resolv.conf).',
  forward: 'See that DNS works ("dns.servers", /etc/resolv.conf).',
}

type ExplainedWatch = Pick<WatchRow, 'kind' | 'subject' | 'list' | 'hostname' | 'status' | 'answer' | 'checked_at'>

/** A sentence, what to do (null: nothing), and the page of the list (null: none). */
export function explained(watch: ExplainedWatch): { words: string; mend: string | null; page: string | null } {
  const { answer, checked_at, kind, list, status, subject } = watch
  const isList = kind === 'blocklist' || kind === 'domain_list'
  const page = isList ? pageOfList(list, subject) : null
  if (status === 'unknown')
    return answer === ''
      ? { words: checked_at === null ? 'Not asked yet.' : 'Seen once; asked again soon.', mend: null, page }
      : { words: `${answer}.`, mend: WITHOUT_ANSWER[kind], page }
  if (status === 'clear') {
    const words = isList ? `Not on ${listShown(list)}.` : `${subject} and ${answer} name each other.`
    return { words: kind === 'reverse' ? `${subject} leads to ${answer}.` : words, mend: null, page }
  }
  if (kind === 'reverse' || kind === 'forward') return { ...meaningOfReverse(kind, watch), page }
  const { mend, words } = meaningOf(list, answer)
  return { words: `${subject} is on ${listShown(list)}. ${words}`, mend, page }
}

/** The paragraph of a notice about a watch. */
export function paragraphOf(watch: WatchRow): string {
  const { mend, page, words } = explained(watch)
  return [
    `Since ${iso(watch.since)}: ${words}`,
    ...(mend === null ? [] : [`What to do: ${mend}`]),
    ...(page === null ? [] : [`The page of the list: ${page}`]),
  ].join('\n')
}
