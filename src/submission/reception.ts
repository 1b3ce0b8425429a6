// Receives email that applications submit over SMTP: the same rules and the same queue as POST /outbound-emails (D75).
// When `message` returns `accepted`, the email is on the disk.
import { Refusal } from '../base/errors.ts'
import type { Space } from '../base/space.ts'
import { parseAddrSpec } from '../message/address.ts'
import { stopWords, suppressedFor } from '../suppressions/stops.ts'
import type { SmtpRefusal } from '../smtp/answers.ts'
import type { InboundEnvelope } from '../smtp/listener.ts'
import type { HeldBytes } from '../store/intake.ts'
import { db, statement } from '../store/query.ts'
import { ComingMessage, type MessageDeps } from './message.ts'
import { replyTo, wordsOf, termsOf, type Sender, type Senders } from './senders.ts'

export interface SubmissionDeps extends MessageDeps {
  senders: Senders
  space: Pick<Space, 'low'>
}

type Accepted = { accepted: string }

const FULL: SmtpRefusal = { code: 452, text: '4.3.1 Out of storage; try again later' }
const NO_MAILBOX: SmtpRefusal = { code: 553, text: '5.1.3 Invalid recipient address' }

const activeDomain = statement<{ user_key: number; name: string }>()((arg) =>
  db
    .selectFrom('domains')
    .select(['key', 'name'])
    .where('user_key', '=', arg.user_key)
    .where('name', '=', arg.name)
    .where('status', '=', 'active')
    .where('deleted_at', 'is', null),
)

/** One domain of the user, and the number of domains, in a single row, so that `fact` can keep it. */
const activeDomains = statement<{ user_key: number }>()((arg) =>
  db
    .selectFrom('domains')
    .select((eb) => [eb.fn.min('key').as('key'), eb.fn.min('name').as('name'), eb.fn.countAll<number>().as('count')])
    .where('user_key', '=', arg.user_key)
    .where('status', '=', 'active')
    .where('deleted_at', 'is', null),
)

export class Submissions {
  readonly #deps: SubmissionDeps
  readonly #held: HeldBytes = { octets: 0 }

  constructor(deps: SubmissionDeps) {
    this.#deps = deps
  }

  /** At MAIL: whether this sender may send now. Our own return path replaces the given one. */
  welcome(sender: Sender): SmtpRefusal | undefined {
    return this.#deps.space.low ? FULL : this.#deps.senders.mayBegin(sender)
  }

  /** At DATA: whether this sender may still send. */
  data(sender: Sender): SmtpRefusal | undefined {
    return this.#deps.senders.stillThere(sender)
  }

  /** At RCPT: checks a recipient. Suppressions can be checked here only if the sending domain is known (D77). */
  recipient(address: string, from: string, sender: Sender): SmtpRefusal | undefined {
    const { clock, keyring, senders, store } = this.#deps
    const gone = senders.stillThere(sender)
    if (gone) return gone
    const parsed = parseAddrSpec(address)
    if (!parsed) return NO_MAILBOX
    const domain = this.#domainFor(from, sender)
    const found = domain && suppressedFor(store, keyring, domain.key, parsed.address, clock.now())
    if (!domain || !found) return undefined
    const words = `${parsed.address} is suppressed on ${domain.name}: ${stopWords(found)}`
    return { code: 550, text: `5.7.1 ${wordsOf(words)}` }
  }

  /** The domain in MAIL FROM, or the user's only domain, or undefined if the From field will show the domain. */
  #domainFor(from: string, { userKey: user_key }: Sender): { key: number; name: string } | undefined {
    const { store } = this.#deps
    const name = parseAddrSpec(from)?.domain
    const named = name === undefined ? undefined : store.fact(activeDomain({ user_key, name }))
    if (named) return named
    const all = store.fact(activeDomains({ user_key }))
    return all?.count === 1 ? all : undefined
  }

  /** Stores a message and queues it, or returns the refusal. */
  async message(
    bytes: AsyncIterable<Buffer>,
    envelope: InboundEnvelope,
    sound: () => SmtpRefusal | undefined,
    sender: Sender,
  ): Promise<SmtpRefusal | Accepted> {
    const { senders } = this.#deps
    const coming = new ComingMessage(this.#deps, this.#held)
    try {
      await coming.readAll(bytes)
      const refusal = sound() ?? (coming.refusal ? replyTo(coming.refusal) : senders.stillThere(sender))
      if (refusal) return refusal
      const { email } = await coming.submit({
        userKey: sender.userKey,
        token: sender.tokenKey,
        recipients: envelope.to,
        attributes: ({ agent_id }) => termsOf(senders.tokenOf(sender), agent_id),
      })
      return { accepted: `2.0.0 Ok: queued as ${email.id}` }
    } catch (thrown) {
      if (thrown instanceof Refusal) return replyTo(thrown)
      throw thrown
    } finally {
      await coming.close()
    }
  }
}
