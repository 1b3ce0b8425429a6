// The texts of a check: its meaning, the fix, and the page of the list.
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
  'Blocklists do not answer large public resolvers. Install a local resolver ("apt install unbound") and set "dns.servers" to ["127.0.0.1:53"].'

const WITHOUT_ANSWER = {
  blocklist: `${OWN_RESOLVER} If a list never answers, remove it from "watch.lists".`,
  domain_list: `${OWN_RESOLVER} If a list never answers, remove it from "watch.domain_lists".`,
  reverse: 'Check that DNS works ("dns.servers", /etc/resolv.conf).',
  forward: 'Check that DNS works ("dns.servers", /etc/resolv.conf).',
}

export type ExplainedWatch = Pick<
  WatchRow,
  'kind' | 'subject' | 'list' | 'hostname' | 'status' | 'answer' | 'checked_at'
>

/** Returns a sentence, the fix (null without a problem), and the page of the list (null if unknown). */
export function explained(watch: ExplainedWatch): { words: string; fix: string | null; page: string | null } {
  const { answer, checked_at, kind, list, status, subject } = watch
  const isList = kind === 'blocklist' || kind === 'domain_list'
  const page = isList ? pageOfList(list, subject) : null
  if (status === 'unknown')
    return answer === ''
      ? { words: checked_at === null ? 'Not checked yet.' : 'Found once. A second lookup follows.', fix: null, page }
      : { words: `${answer}.`, fix: WITHOUT_ANSWER[kind], page }
  if (status === 'clear') {
    const words = isList ? `Not on ${listShown(list)}.` : `${answer} resolves to ${subject}.`
    return { words: kind === 'reverse' ? `The PTR record of ${subject} is ${answer}.` : words, fix: null, page }
  }
  if (kind === 'reverse' || kind === 'forward') return { ...meaningOfReverse(kind, watch), page }
  const { fix, words } = meaningOf(list, answer)
  return { words: `${subject} is on ${listShown(list)}. ${words}`, fix, page }
}

/** The same for the API and the command. */
export function shownWords(watch: ExplainedWatch): { message: string; fix: string | null; url: string | null } {
  const { fix, page, words } = explained(watch)
  return { message: words, fix, url: page }
}

/** The paragraph of a notice about a watch. */
export function paragraphOf(watch: WatchRow): string {
  const { fix, page, words } = explained(watch)
  return [
    `Since ${iso(watch.since)}: ${words}`,
    ...(fix === null ? [] : [`Fix: ${fix}`]),
    ...(page === null ? [] : [`Details: ${page}`]),
  ].join('\n')
}
