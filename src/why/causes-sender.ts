// Causes that hold for more than one mail: what receivers do with all of it, the lists, the domain, this server.
import { isDistrusted, matters, ofDomain } from './causes-mail.ts'
import type { CauseEntry } from './evidence.ts'
import type { WhySubject } from './subject.ts'

/** Whether a mail has come to its end: what is wrong here now did not bring that about. */
const isPast = ({ kind, mails }: WhySubject): boolean =>
  kind === 'mail' &&
  mails.every(({ deliveries }) => deliveries.every(({ status }) => status !== 'queued' && status !== 'active'))

export const SENDER_CAUSES: readonly CauseEntry[] = [
  {
    cause: 'receiver_refuses',
    reach: 'receiver',
    strength: 'likely',
    rows: (found) => found.of('receivers', 'refusing'),
    says: () => 'The receiver refuses a tenth of the mail or more.',
    mend: 'Its page shows what it says, and what that means.',
  },
  {
    cause: 'receiver_defers',
    reach: 'receiver',
    strength: 'likely',
    rows: (found) => found.of('receivers', 'slow'),
    says: () => 'The receiver puts much of the mail off.',
    mend: 'Its page shows what it says, and what that means.',
  },
  {
    cause: 'bad_list',
    reach: 'receiver',
    strength: 'likely',
    rows: (found) => found.of('lists'),
    says: () => 'Many addresses of this list do not exist: receivers take that for mail that nobody asked for.',
    mend: 'Find out where these addresses came from, and write to those alone who confirmed theirs.',
  },
  {
    cause: 'few_opens',
    reach: 'receiver',
    strength: 'possible',
    rows: (found) => found.of('opens', 'few'),
    says: () => 'Readers at this receiver open much less than others: perhaps they do not see the mail.',
    mend: 'Look into a mailbox of your own there. The receiver tells nobody into which folder it files.',
  },
  {
    cause: 'missing_records',
    reach: ofDomain,
    strength: ({ kind }) => (kind === 'domain' ? 'shown' : 'likely'),
    rows: (found) => found.of('records'),
    says: () => 'DNS records of the sending domain lack or differ: receivers cannot prove the sender.',
    mend: 'Publish what the page of the domain shows, then check it there.',
  },
  {
    cause: 'receives_nothing',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('inboxes'),
    says: ([{ fact }]) =>
      fact === 'suspended'
        ? 'The domain is suspended, so mail to its inboxes is refused for good.'
        : 'The domain is not verified, so mail to its inboxes is refused for now (451): senders try again later.',
    mend: 'Publish the required records that the page of the domain shows, then check it there: it receives once it is verified. A suspended one is the operator’s to allow.',
  },
  {
    cause: 'many_complaints',
    reach: ofDomain,
    strength: 'likely',
    rows: (found) => (matters(found) ? found.of('complaints', 'share') : []),
    says: () => 'More than one reader in a thousand calls the mail spam.',
    mend: 'Write to those alone who asked, and less often; let them leave by one click.',
  },
  {
    cause: 'reputation_warning',
    reach: ofDomain,
    strength: 'likely',
    rows: (found) => (matters(found) ? found.of('reputation') : []),
    says: () => 'Too much mail of the domain bounces or is complained about.',
    mend: 'Pause campaigns, remove addresses that do not answer, and begin with those who read.',
  },
  {
    cause: 'jump_of_volume',
    reach: 'server',
    strength: 'possible',
    rows: (found) => (isDistrusted(found) ? found.of('volume') : []),
    says: () => 'Much more mail than usual goes out: receivers slow what jumps.',
    mend: 'Spread it over several days.',
  },
  {
    cause: 'new_sender',
    reach: 'server',
    strength: 'possible',
    rows: (found) => (isDistrusted(found) ? found.of('age') : []),
    says: () => 'The sender is new: receivers have not seen enough of its mail to trust it.',
    mend: 'Begin with little mail to those who read, and send every day; trust comes within weeks.',
  },
  {
    cause: 'server_trouble',
    reach: 'server',
    strength: 'possible',
    rows: (found) => (isPast(found.subject) || found.of('queue', 'for us').length > 0 ? [] : found.of('local trouble')),
    says: ([row]) => `This server has trouble: ${row.text}`,
    mend: '"postrider doctor" names what lacks.',
  },
]
