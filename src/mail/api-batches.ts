// Batches: several emails, or one email for many recipients, with one request.
import { setImmediate as turn } from 'node:timers/promises'
import { z } from 'zod'
import { refuseAttribute } from '../base/errors.ts'
import { MAIL_BODY } from '../jsonapi/body.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { count } from '../jsonapi/fields.ts'
import { schemaOf } from '../jsonapi/openapi-schemas.ts'
import { checkWithin } from '../jsonapi/request.ts'
import { definer, field, type Caller, type Resource } from '../jsonapi/resource.ts'
import { address, line, messageIdText, metadataObject, unsubscribeLinks, variablesObject } from '../jsonapi/schemas.ts'
import type { Reader } from '../store/database.ts'
import type { ListedRow } from '../store/list.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { EMAIL_STATUSES } from '../store/states/outbound-email.ts'
import { agentOf, ofCaller, requireSubscription, type NewEmail } from './accept/admit.ts'
import { problemsAt, submitEmails, type BatchItem } from './accept/batch.ts'
import { submitToRecipients } from './accept/batch-recipients.ts'
import type { BatchRecipient, SharedEmail } from './accept/batch-values.ts'
import { outboundEmails, repeatKeyOf, SEND_REFUSALS, submitDepsOf, type MailParts } from './api.ts'
import { cancelBatch, resultsOf, statusesOf } from './batches.ts'
import { keyForDay } from './accept/submit.ts'

const MAX_EMAILS = 100
const MAX_RECIPIENTS = 1000
/** Together, all values of a batch are written by one transaction. */
const MAX_VALUES = 5 * 1024 * 1024
/** Recipients that are checked before other work has its turn. */
const AT_ONCE = 50

type Parts = ApiDeps & MailParts

/** The attributes of an email in a batch, without those that the batch or its recipients have. */
function attributesWithout(...left: string[]): Record<string, z.ZodType> {
  return Object.fromEntries(
    Object.entries(outboundEmails.attributes).flatMap(([name, given]) => {
      if (!('create' in given) || left.includes(name)) return []
      const described = given.schema.describe(given.about)
      return [[name, given.create === 'required' ? described : described.optional()]]
    }),
  )
}

const emailItem = z.strictObject(attributesWithout('idempotency_key', 'on_suppressed')) as unknown as z.ZodType<
  Omit<NewEmail, 'idempotency_key'> & { message_id?: string }
>
const sharedEmail = z.strictObject({
  ...attributesWithout('to', 'cc', 'bcc', 'message_id', 'idempotency_key', 'on_suppressed'),
  unsubscribe: unsubscribeLinks({ filled: true }).nullable().optional(),
}) as unknown as z.ZodType<SharedEmail>
const recipientItem = z.strictObject({
  to: address().describe('Recipient.'),
  variables: variablesObject().default({}).describe('Values by the names of placeholders.'),
  metadata: metadataObject().nullable().optional().describe('Metadata of this email, in addition to that of `email`.'),
  message_id: messageIdText().optional().describe('Message-ID header. If absent, it is generated.'),
})

/** A list whose items are checked one by one, so that each has its own problems. */
const listOf = (item: z.ZodType, most: number, what: string) =>
  z
    .array(z.unknown(), `must be a list of ${what}`)
    .min(1, `must contain at least one of the ${what}`)
    .max(most, { error: `must contain at most ${most} ${what}` })
    .meta({ items: schemaOf(item, 'input') })

const result = z.object({
  index: z.int().min(0).describe('Position in the request.'),
  id: z.string().optional().describe('Id of the email.'),
  message_id: z.string().optional().describe('Message-ID of the email.'),
  status: z.enum(EMAIL_STATUSES).optional().describe('Delivery status of the email.'),
  duplicate_of: z.int().optional().describe('Position of the earlier item with the same address.'),
  errors: z
    .array(
      z.object({
        code: z.string().describe('Error code.'),
        detail: z.string().describe('The problem and its correction.'),
        pointer: z.string().nullable().describe('Position in the request. Null if unknown.'),
      }),
    )
    .optional()
    .describe('Why the item was refused.'),
})

function extend(rows: ListedRow[], { reader, single }: { reader: Reader; single: boolean }): void {
  const statuses = statusesOf(
    reader,
    rows.map(({ key }) => key),
  )
  for (const row of rows) {
    row['statuses'] = statuses.get(row.key) ?? {}
    if (single) row['results'] = resultsOf(reader, { key: row.key, others: String(row['others']) })
  }
}

interface BatchForm {
  emails?: unknown[]
  email?: SharedEmail
  recipients?: unknown[]
  on_suppressed?: 'refuse' | 'record'
}

/** What the caller of a batch means for each of its emails. Throws a Refusal for an agent that is not the token's. */
const eachOf = (caller: Caller, { agent_id, on_suppressed }: BatchForm & { agent_id?: string | null | undefined }) => ({
  ...ofCaller(caller),
  agent_id: agentOf(caller.agentId, agent_id),
  on_suppressed,
})

/** The items of a list in their checked form, or their problems. Other work has its turn in between. */
async function itemsOf<S extends z.ZodType, Value>(
  name: 'emails' | 'recipients',
  schema: S,
  attributes: BatchForm & Record<string, unknown>,
  make: (value: z.output<S>) => Value,
): Promise<BatchItem<Value>[]> {
  const items: BatchItem<Value>[] = []
  for (const index of (attributes[name] ?? []).keys()) {
    if (name === 'emails' || index % AT_ONCE === AT_ONCE - 1) await turn()
    const checked = checkWithin(schema, [name, index], outboundEmailBatches as Resource<never>, attributes)
    if ('problems' in checked) items.push(checked)
    else
      try {
        items.push(make(checked.value))
      } catch (thrown) {
        items.push({ problems: problemsAt(`${name}/${index}`, thrown) })
      }
  }
  return items
}

function checkForm({ email, emails, recipients }: BatchForm): void {
  if ((emails === undefined) === (email === undefined))
    throw refuseAttribute('invalid', 'emails', 'Send either "emails", or "email" with "recipients".')
  if ((email === undefined) !== (recipients === undefined))
    throw refuseAttribute('required', 'recipients', '"email" and "recipients" require each other.')
}

function checkValues(recipients: readonly BatchItem<BatchRecipient>[]): void {
  let size = 0
  for (const item of recipients)
    if (!('problems' in item))
      for (const [key, value] of Object.entries(item.variables))
        size += Buffer.byteLength(key) + Buffer.byteLength(value)
  if (size > MAX_VALUES)
    throw refuseAttribute(
      'too_long',
      'recipients',
      `The "variables" of all recipients together must be at most ${MAX_VALUES} bytes. Send several batches.`,
    )
}

export const outboundEmailBatches: Resource<Parts> = definer<Parts>()('outbound-email-batches', {
  table: 'outbound_batches',
  path: '/outbound-email-batches/:outboundEmailBatch',
  scope: 'emails',
  extension: true,
  about:
    'Emails that are sent with one request: up to 100 different emails, or one email for up to 1,000 recipients, each of whom gets an email of their own. The response means that all of them are on disk.',
  attributes: {
    emails: field(listOf(emailItem, MAX_EMAILS, 'emails'), {
      create: 'optional',
      read: 'never',
      about: 'The emails, each with the attributes of an outbound email. Required without `email`.',
    }),
    email: field(sharedEmail, {
      create: 'optional',
      read: 'never',
      about:
        'The email that all `recipients` get. Subject, bodies, headers and unsubscribe links can contain placeholders.',
      example: { from: 'Shop <hello@example.org>', subject: 'News for {{name}}', html: '<p>Hello {{name}}</p>' },
    }),
    recipients: field(listOf(recipientItem, MAX_RECIPIENTS, 'recipients'), {
      create: 'optional',
      read: 'never',
      about: 'The recipients of `email`. Each gets an email of their own, with their values. Required with `email`.',
      example: [{ to: 'ann@example.net', variables: { name: 'Ann' } }],
    }),
    syntax: field(z.enum(valuesOf('outbound_batches', 'syntax'), 'must be "mustache" or "percent"'), {
      create: 'optional',
      read: 'never',
      about:
        'Placeholders in `email`: "mustache" for `{{name}}`, whose values are HTML-escaped in `html` (the default), or "percent" for `%recipient.name%`, whose values are inserted as they are.',
    }),
    validation: field(z.enum(['strict', 'permissive'], 'must be "strict" or "permissive"'), {
      create: 'optional',
      read: 'never',
      about:
        'What happens if an item has an error: the batch is refused ("strict", the default), or the item is refused and the others are accepted ("permissive").',
    }),
    on_suppressed: field(z.enum(['refuse', 'record'], 'must be "refuse" or "record"'), {
      create: 'optional',
      read: 'never',
      about:
        'What happens if a recipient is suppressed: an error (the default), or the email is recorded as suppressed.',
    }),
    idempotency_key: field(line(256, 'characters').min(1, 'must not be empty').nullable(), {
      create: 'optional',
      about:
        'Idempotency key of the batch. Another request with the same key and content returns the same batch instead of sending it again. Null if absent.',
    }),
    accepted: count('Number of items that were accepted.'),
    suppressed: count('Number of items that were recorded as suppressed.'),
    refused: count('Number of items that were refused.'),
    statuses: field(z.partialRecord(z.enum(EMAIL_STATUSES), z.int().min(0)), {
      about: 'Number of emails by delivery status.',
    }),
    results: field(z.array(result), {
      read: 'single',
      about: 'Result of each item, in the order of the request. Deleted emails are omitted.',
    }),
    created_at: field(z.iso.datetime(), { kind: 'time', about: 'Time when the batch was accepted.' }),
  },
  extend,
  actions: [
    {
      kind: 'create',
      scope: 'emails:send',
      audit: 'never',
      bodyLimit: MAIL_BODY,
      refuses: SEND_REFUSALS,
      about: 'Send a batch of emails. The response means that all accepted emails are on disk and will be delivered.',
      before: ({ parts, caller }) => requireSubscription(parts.store, caller.userKey),
      run: async ({ parts, caller, attributes: given }) => {
        const attributes = given as BatchForm & typeof given & Record<string, unknown>
        checkForm(attributes)
        const deps = submitDepsOf(parts)
        const { email, idempotency_key, syntax = 'mustache', validation } = attributes
        const unansweredOf = caller.compat && caller.tokenId
        const options = { idempotency_key, unansweredOf, strict: validation !== 'permissive' }
        const submit = async () => {
          if (email) {
            const recipients = await itemsOf('recipients', recipientItem, attributes, (recipient) => ({
              ...recipient,
              repeatKey: repeatKeyOf(caller, recipient),
            }))
            checkValues(recipients)
            const shared = { ...email, ...eachOf(caller, { ...attributes, agent_id: email.agent_id }) }
            return submitToRecipients(deps, caller.userKey, { ...options, email: shared, syntax, recipients })
          }
          const emails = await itemsOf('emails', emailItem, attributes, (item): NewEmail => {
            const repeat = repeatKeyOf(caller, item)
            const key = repeat && keyForDay(parts, caller.userKey, repeat)
            return { ...item, idempotency_key: key, ...eachOf(caller, { ...attributes, agent_id: item.agent_id }) }
          })
          return submitEmails(deps, caller.userKey, emails, options)
        }
        const { batch, replayed } = await submit()
        return { row: { ...batch }, ...(replayed ? { headers: { 'Idempotent-Replayed': 'true' } } : {}) }
      },
    },
    { kind: 'show', about: 'Get a batch with the number of its emails by status.' },
    {
      kind: 'act',
      path: 'cancel',
      id: 'cancelOutboundEmailBatch',
      scope: 'emails:send',
      audit: 'never',
      refuses: ['transition_not_allowed'],
      about: 'Cancel the scheduled emails of a batch.',
      run: async ({ parts, row }) => ({ row: { ...(await cancelBatch(parts, row.key)) } }),
    },
  ],
})
