// Each attempt to deliver a mail, with the exchanger's reply (D81).
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { attemptsOf, type Attempt } from './results/attempt-log.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { providerOf } from '../smtp/shaping.ts'
import { DNS_STATES, readSecurity, TLS_POLICIES, TLS_PROOFS } from '../smtp/security.ts'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION, time, words, wordsOrNull } from '../jsonapi/fields.ts'
import { valuesOf } from '../schema/tables.ts'

const OUTCOMES = ['under way', 'deferred', 'delivered', 'bounced', 'failed', 'rejected', 'suppressed'] as const

/** The outcomes whose reply is a receiver's. */
const REFUSED: ReadonlySet<Attempt['outcome']> = new Set(['deferred', 'bounced', 'failed'])

function reasonFor({ enhanced_code, outcome, remote_mta, response, smtp_code }: Attempt): string | null {
  if (!REFUSED.has(outcome)) return null
  const reply = { code: smtp_code, enhanced: enhanced_code, text: response ?? '' }
  return reasonOf(reply, providerOf(remote_mta))?.words ?? null
}

const tls = z.object({
  protocol: z.string().nullable().describe('The version of TLS; null in clear text.'),
  cipher: z.string().nullable(),
  policy: z.enum(TLS_POLICIES).nullable().describe('What asked for TLS; null where it is not known.'),
  proof: z.enum(TLS_PROOFS).nullable().describe('What proved the exchanger; null where it is not known.'),
})
const states = z.enum(DNS_STATES)
const dnssec = z.object({ mx: states, address: states, tlsa: states })

/** Attempts of before know the protocol alone. */
function protectionOf({ security, tls: protocol }: Pick<Attempt, 'security' | 'tls'>) {
  const known = readSecurity(security)
  if (!known)
    return { tls: protocol === null ? null : { protocol, cipher: null, policy: null, proof: null }, dnssec: null }
  const { cipher, policy, proof } = known
  return { tls: { protocol, cipher, policy, proof }, dnssec: known.dnssec }
}

export const attempts = define('attempts', {
  table: 'attempts',
  about: `Attempts to deliver a mail to its recipients. ${EXTENSION}`,
  attributes: {
    address: words('The recipient.'),
    role: field(z.enum(valuesOf('deliveries', 'role')), { about: 'How the mail is addressed to it.' }),
    number: count('The first attempt is 1.'),
    at: time('When it ended.'),
    outcome: field(z.enum(OUTCOMES), { about: 'The outcome of the attempt.' }),
    smtp_code: field(z.int().nullable(), { about: 'The reply’s code; null when no server replied.' }),
    enhanced_code: wordsOrNull('The reply’s enhanced status code (RFC 3463).'),
    response: wordsOrNull('The text of the reply.'),
    reason: wordsOrNull('What the reply means and what to do, where that is known; null after a delivery.'),
    remote_mta: wordsOrNull('The exchanger that was reached.'),
    tls: field(tls.nullable(), {
      about: 'How the connection was protected, and what proved the exchanger; null when none was reached.',
    }),
    dnssec: field(dnssec.nullable(), {
      about: 'Whether the answers of DNS that led to the exchanger were validated; null in attempts of before.',
    }),
    source: wordsOrNull('The address of this server that it came from; null where there is no choice of them.'),
    route: wordsOrNull('The relay that it went to because warm-up had no room; null when it went to the exchangers.'),
    dialogue: wordsOrNull('The SMTP dialogue, of the last attempt alone.'),
    reported: field(z.boolean(), {
      about: 'True when a report that came later says this, and not the exchanger’s reply to the attempt.',
    }),
  },
  actions: [
    {
      kind: 'view',
      path: '/outbound-emails/:outboundEmail/attempts',
      within: { type: 'outbound-emails', column: 'key' },
      params: ['page'],
      id: 'listDeliveryAttempts',
      scope: 'emails:read',
      about: `List the attempts to deliver a mail, recipient by recipient. They are kept as long as its body. ${EXTENSION}`,
      run: ({ parent, parts }) =>
        attemptsOf(parts.store, parent.key).map((attempt, index) => ({
          ...attempt,
          ...protectionOf(attempt),
          reason: reasonFor(attempt),
          key: index,
          id: `${String(parent['id'])}-${index + 1}`,
        })),
    },
  ],
})
