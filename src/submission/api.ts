// Emails that applications submit as whole MIME messages in one request, by the rules of SMTP submission (D75, D77,
// D104).
import { z } from 'zod'
import { Refusal } from '../base/errors.ts'
import { comparable } from '../base/recipient-hash.ts'
import type { StoredDeps } from '../inbound/stored.ts'
import { MAIL_BODY } from '../jsonapi/body.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { base64 } from '../jsonapi/schemas.ts'
import { agentOf, ofCaller, requireSubscription } from '../mail/accept/admit.ts'
import { payloadHash } from '../mail/accept/submit.ts'
import { outboundEmails, type MailParts } from '../mail/api.ts'
import { parseAddrSpec } from '../message/address.ts'
import type { HeldBytes } from '../store/intake.ts'
import { ComingMessage } from './message.ts'

export type RawParts = ApiDeps & MailParts & Pick<StoredDeps, 'inboundReader'>

const MAX_RECIPIENTS = 100
const ADDRESS = 'must be an email address without a name, such as ann@example.org'

const { idempotency_key, metadata, on_suppressed, scheduled_at, tags, track_clicks, track_opens } =
  outboundEmails.attributes

/** Small messages that are being received. */
const held: HeldBytes = { octets: 0 }

export const rawEmails = definer<RawParts>()('raw-emails', {
  table: 'outbound_emails',
  about: 'Emails that are submitted as complete MIME messages.',
  extension: true,
  attributes: {
    raw: field(base64.min(1, 'must not be empty'), {
      create: 'required',
      about:
        'MIME message in base64, up to 40 MB. It is sent as it is, but signed. The domain of its From field selects the sending domain. Fields such as Bcc and X-Postrider-Agent are handled as in SMTP submission.',
      example: Buffer.from(
        'From: hello@example.org\r\nTo: ann@example.net\r\nSubject: Your order\r\n\r\nIt is on its way.\r\n',
      ).toString('base64'),
    }),
    recipients: field(
      z
        .array(
          z
            .string('must be a string')
            .refine((text) => parseAddrSpec(text) !== undefined, ADDRESS)
            .transform((text) => parseAddrSpec(text)?.address ?? text),
        )
        .min(1, 'must contain at least one address')
        .max(MAX_RECIPIENTS, `must contain at most ${MAX_RECIPIENTS} addresses`),
      {
        create: 'required',
        about: `1 to ${MAX_RECIPIENTS} addresses that get the message. Those that are not in its To and Cc fields are hidden.`,
        example: ['ann@example.net'],
      },
    ),
    idempotency_key,
    on_suppressed,
    track_opens,
    track_clicks,
    tags,
    metadata,
    scheduled_at,
  },
  actions: [
    {
      kind: 'create',
      path: '/raw-emails',
      id: 'createRawEmail',
      scope: 'emails:send',
      audit: 'never',
      bodyLimit: MAIL_BODY,
      answers: outboundEmails.type,
      refuses: [
        'not_found',
        'subscription_inactive',
        'idempotency_conflict',
        'agent_paused',
        'recipient_suppressed',
        'domain_not_active',
        'tracking_disabled',
        'reserved_header',
        'forbidden_attachment',
        'message_too_large',
        'volume_exceeded',
      ],
      about: 'Send a MIME message. The response means that the email is on disk and will be delivered.',
      before: ({ caller, parts }) => requireSubscription(parts.store, caller.userKey),
      run: async ({ attributes, caller, parts }) => {
        const { raw, recipients, ...given } = attributes
        const { bells, config, inboundReader } = parts
        const deps = {
          ...parts,
          ring: bells.deliveries,
          reader: inboundReader,
          maxBytes: config.inbound.max_message_bytes,
        }
        const coming = new ComingMessage(deps, held)
        try {
          await coming.readAll(piecesOf(raw))
          const { email, replayed } = await coming.submit({
            userKey: caller.userKey,
            token: caller.tokenId,
            recipients,
            asked: payloadHash({ from: '', to: '', subject: '', html: '', ...given }),
            attributes: (wishes) => ({
              ...withoutNulls(given),
              agent_id: agentOf(caller.agentId, wishes.agent_id),
              ...ofCaller(caller),
            }),
          })
          return { row: { ...email }, ...(replayed ? { headers: { 'Idempotent-Replayed': 'true' } } : {}) }
        } catch (thrown) {
          throw inRequest(thrown, attributes)
        } finally {
          await coming.close()
        }
      },
    },
  ],
})

/** Attributes that are null do not replace the fields of the message. */
const withoutNulls = <Given extends object>(given: Given): Partial<Given> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) as Partial<Given>

/** Characters of base64 that are decoded at once. A multiple of 4. */
const PIECE = 64 * 1024
const BARE = /\r(?!\n)|(?<!\r)\n/

/**
 * The bytes of a message. Each line ends with CRLF, even the last one, as in an SMTP session (RFC 5321 §2.3.8,
 * §4.1.1.4): the final dot follows it.
 */
export async function* piecesOf(base64: string, size = PIECE): AsyncGenerator<Buffer> {
  let kept = ''
  for (let at = 0; at < base64.length; at += size) {
    const text = kept + Buffer.from(base64.slice(at, at + size), 'base64').toString('latin1')
    // The LF of a CRLF may be in the next piece.
    kept = /\r?\n?$/.exec(text)?.[0] ?? ''
    const whole = text.slice(0, text.length - kept.length)
    yield Buffer.from(BARE.test(whole) ? whole.replaceAll(/\r\n?|\n/g, '\r\n') : whole, 'latin1')
  }
  yield Buffer.from('\r\n')
}

/** A refusal whose problems name the attributes of this request: the sender and the recipients are in the message. */
function inRequest(thrown: unknown, attributes: { recipients: readonly string[] }): unknown {
  if (!(thrown instanceof Refusal)) return thrown
  const problems = thrown.problems.map((problem) => {
    const [, , , member] = problem.source?.pointer?.split('/') ?? []
    if (member === undefined || member in attributes) return problem
    const recipient = problem.meta?.['recipient']
    const index = attributes.recipients.findIndex(
      (each) => typeof recipient === 'string' && comparable(each) === comparable(recipient),
    )
    return { ...problem, source: { pointer: `/data/attributes/${index < 0 ? 'raw' : `recipients/${index}`}` } }
  })
  return new Refusal(problems, thrown.headers)
}
