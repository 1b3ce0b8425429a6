// Each attempt to deliver an email, with the receiving server's reply (D81).
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { attemptsOf, type Attempt } from './results/attempt-log.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { providerOf } from '../smtp/shaping.ts'
import { DNS_STATES, readSecurity, TLS_POLICIES, TLS_PROOFS } from '../smtp/security.ts'
import { define } from '../jsonapi/define.ts'
import { count, time, words, wordsOrNull } from '../jsonapi/fields.ts'
import { valuesOf } from '../store/schema/tables.ts'

const OUTCOMES = ['under way', 'deferred', 'delivered', 'bounced', 'failed', 'rejected', 'suppressed'] as const

/** The outcomes whose reply is a receiver's. */
const REFUSED: ReadonlySet<Attempt['outcome']> = new Set(['deferred', 'bounced', 'failed'])

function reasonFor({ enhanced_code, outcome, remote_mta, response, smtp_code }: Attempt): string | null {
  if (!REFUSED.has(outcome)) return null
  const reply = { code: smtp_code, enhanced: enhanced_code, text: response ?? '' }
  return reasonOf(reply, providerOf(remote_mta))?.words ?? null
}

const tls = z.object({
  protocol: z.string().nullable().describe('TLS version. Null if the connection was not encrypted.'),
  cipher: z.string().nullable(),
  policy: z
    .enum(TLS_POLICIES)
    .nullable()
    .describe(
      'Policy that determined the use of TLS. `required`: the setting of the domain or the relay. `sts`: MTA-STS. Null if unknown.',
    ),
  verified_by: z
    .enum(TLS_PROOFS)
    .nullable()
    .describe('Method that authenticated the receiving server. Null if unknown.'),
})
const states = z.enum(DNS_STATES)
const dnssec = z.object({ mx: states, address: states, tlsa: states })

/** Attempts of earlier versions have only the protocol. */
function protectionOf({ security, tls: protocol }: Pick<Attempt, 'security' | 'tls'>) {
  const known = readSecurity(security)
  if (!known)
    return { tls: protocol === null ? null : { protocol, cipher: null, policy: null, verified_by: null }, dnssec: null }
  const { cipher, policy, proof } = known
  return { tls: { protocol, cipher, policy, verified_by: proof }, dnssec: known.dnssec }
}

export const attempts = define('attempts', {
  table: 'attempts',
  scope: 'emails',
  // The email that the path names decides.
  marketing: 'true',
  about: 'Delivery attempts for the recipients of an email.',
  extension: true,
  attributes: {
    address: words('Email address of the recipient.'),
    role: field(z.enum(valuesOf('deliveries', 'role')), { about: 'Field of the email that contains the address.' }),
    number: count('Number of the attempt, from 1.'),
    at: time('Time when the attempt finished.'),
    outcome: field(z.enum(OUTCOMES), { about: 'Outcome of the attempt.' }),
    smtp_code: field(z.int().nullable(), { about: 'SMTP reply code. Null if no server replied.' }),
    enhanced_code: wordsOrNull('Enhanced status code of the reply (RFC 3463). Null if absent.'),
    response: wordsOrNull('Text of the reply. Null if absent.'),
    reason: wordsOrNull(
      'Meaning of the reply and what to do about it. Null if it is unknown or the email was delivered.',
    ),
    remote_mta: wordsOrNull('Receiving server. Null if no server was reached.'),
    tls: field(tls.nullable(), {
      about: 'Encryption of the connection and authentication of the receiving server. Null if no server was reached.',
    }),
    dnssec: field(dnssec.nullable(), {
      about:
        'Whether the DNS answers about the receiving server were validated with DNSSEC. Null in attempts of earlier versions.',
    }),
    source: wordsOrNull('Sending IP address. Null if the operating system selected it.'),
    route: wordsOrNull(
      'Relay that the email was sent through because a daily limit was reached. Null if it was delivered directly.',
    ),
    dialogue: wordsOrNull('SMTP transcript. Null except for the last attempt.'),
    reported: field(z.boolean(), {
      about: 'Whether the outcome is from a bounce message that arrived later, not from a reply to the attempt.',
    }),
  },
  actions: [
    {
      kind: 'view',
      path: '/outbound-emails/:outboundEmail/attempts',
      within: { type: 'outbound-emails', column: 'key' },
      params: ['page'],
      id: 'listDeliveryAttempts',
      about: 'List the delivery attempts for an email, by recipient. They are stored as long as its body.',
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
