// Causes that warm-up, the watch and the reports of others speak for.
import { isDistrusted, matters, ofDomain } from './causes-mail.ts'
import type { CauseEntry, Found } from './evidence.ts'
import type { WhySubject } from './subject.ts'

const sureOfDomain: CauseEntry['strength'] = ({ kind }) => (kind === 'domain' ? 'shown' : 'likely')

/** Whether all mail of the subject was taken: then nothing has to be explained by its receiver. */
const isTaken = ({ kind, mails }: WhySubject): boolean =>
  kind === 'mail' && mails.every(({ deliveries }) => deliveries.every(({ status }) => status === 'delivered'))

/** Whether a receiver said that it cannot prove the sender. */
const isUnproven = (found: Found): boolean =>
  found.of('attempts', 'reply').some(({ reason }) => reason?.class === 'authentication')

const waits = (found: Found): boolean => found.of('warm-up', 'waits').length > 0

export const SERVER_CAUSES: readonly CauseEntry[] = [
  {
    cause: 'warm_up',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => (waits(found) ? found.of('warm-up', 'waits', 'full') : []),
    says: () =>
      'It waits for warm-up: this server has sent today what may go to a receiver that does not know it well yet.',
    mend: (_, { operator }) =>
      operator
        ? 'It goes out by itself, and more is allowed after each good day. What cannot wait goes by a relay ("warmup.route"); the page Warm-up and "postrider warmup set RECEIVER --allowance N" change the number.'
        : 'It goes out by itself, and more is allowed after each good day. The operator of this server can allow more.',
  },
  {
    cause: 'warm_up_setback',
    reach: 'receiver',
    strength: 'likely',
    rows: (found) => (waits(found) || matters(found) ? found.of('warm-up', 'back', 'holding') : []),
    says: ([row]) =>
      row.fact === 'back'
        ? 'Warm-up went back by one step: a receiver blocked this server, or took its mail badly.'
        : 'Warm-up does not rise: a receiver put off or refused more mail than on a good day.',
    mend: 'Send less of what is not asked for, and to those who read first. After a good day more is allowed again.',
  },
  {
    cause: 'relay',
    reach: 'subject',
    strength: 'likely',
    rows: (found) => found.of('way', 'relay'),
    says: () => 'It goes by the relay that stands in for warm-up, which has not taken it yet.',
    mend: 'It is tried again there by itself. The relay is the operator’s: "postrider doctor" tells whether it answers.',
  },
  {
    cause: 'receiver_alarm',
    reach: 'receiver',
    strength: 'likely',
    rows: (found) => (isTaken(found.subject) ? [] : found.of('alarms')),
    says: () => 'A receiver suddenly takes less mail than in the week before, or takes it later.',
    mend: 'Its page shows what it says and what that means. The alarm ends by itself after a day that is better.',
  },
  {
    cause: 'listed',
    reach: 'server',
    strength: 'likely',
    rows: (found) =>
      matters(found) ? found.of('watch', 'listed', ...(isDistrusted(found) ? ['was listed'] : [])) : [],
    says: ([row]) =>
      row.fact === 'listed'
        ? 'An address of this server is on a blocklist, which many receivers ask.'
        : 'An address or a name of this server was on a blocklist of late, which many receivers ask.',
    mend: 'Find what sent the mail that put it there, end that, then ask the list to take it off: the page Watch leads to it.',
  },
  {
    cause: 'listed_domain',
    reach: ofDomain,
    strength: sureOfDomain,
    rows: (found) => (matters(found) ? found.of('watch', 'domain listed') : []),
    says: () => 'The sending domain, or the host of its links, is on a blocklist.',
    mend: 'Find what put it there, such as a list of addresses that nobody confirmed; then ask the list: the page Watch leads to it.',
  },
  {
    cause: 'wrong_reverse',
    reach: 'server',
    strength: 'likely',
    rows: (found) => (matters(found) ? found.of('watch', 'wrong') : []),
    says: () => 'Reverse DNS of an address of this server is wrong: many receivers refuse such mail.',
    mend: 'Whoever gives you the address sets its reverse entry: to the name that it says in EHLO, which leads back to it.',
  },
  {
    cause: 'bad_at_microsoft',
    reach: 'receiver',
    strength: 'likely',
    rows: (found) => (matters(found) ? found.of('SNDS', 'bad') : []),
    says: () => 'Microsoft judges mail from this server badly, as its SNDS says.',
    mend: 'Write to those alone who asked; addresses that are traps were bought, guessed or are years old. The colour follows the mail within days.',
  },
  {
    cause: 'bad_at_google',
    reach: ({ kind }) => (kind === 'domain' ? 'subject' : 'receiver'),
    strength: 'likely',
    rows: (found) => (matters(found) ? found.of('Postmaster Tools', 'bad') : []),
    says: () => 'Google judges mail of the domain badly, as its Postmaster Tools say.',
    mend: 'Fewer than one reader in a thousand may call it spam: write to those who asked, and let them leave by one click.',
  },
  {
    cause: 'failing_dmarc',
    reach: ofDomain,
    strength: sureOfDomain,
    rows: (found) => (found.subject.kind === 'domain' || isUnproven(found) ? found.of('DMARC reports', 'known') : []),
    says: () => 'Receivers report mail of the domain, from sources that you know, that neither DKIM nor SPF proves.',
    mend: 'Set up DKIM for the domain at that source, or name it in SPF. The page Reports of the domain shows each source.',
  },
  {
    cause: 'foreign_senders',
    reach: ofDomain,
    strength: 'possible',
    rows: (found) => (found.subject.kind === 'domain' ? found.of('DMARC reports', 'unknown') : []),
    says: () => 'Somebody sends mail in the name of the domain that nobody here knows, and that nothing proves.',
    mend: 'If it is a service of yours, name it and set up its DKIM. Against others a stricter DMARC policy helps: "postrider domain dmarc NAME" says what it would cost.',
  },
  {
    cause: 'tls_to_domain',
    reach: ofDomain,
    strength: 'shown',
    rows: (found) => found.of('TLS reports'),
    says: () => 'Encrypted connections that bring mail to the domain fail, as their senders report.',
    mend: 'The page Reports of the domain says what each result means, and what to do.',
  },
]
