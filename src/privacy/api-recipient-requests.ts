// Requests of recipients, as the account sees and answers them.
import { z } from 'zod'
import { refuseAttribute } from '../base/errors.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { timeOrNull, words } from '../jsonapi/fields.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { text } from '../jsonapi/schemas.ts'
import type { ServerPart } from '../parts/part.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { answer, type AnswerDeps, type NewAnswer } from './recipient-requests.ts'

/** The parts of the server, one of which emails recipients. */
export interface AnswerParts {
  subjects: readonly Pick<ServerPart, 'tellRecipient'>[]
}

export const answerDepsOf = ({ bells, ...parts }: ApiDeps & AnswerParts): AnswerDeps => ({
  ...parts,
  ring: bells.privacy,
  noticed: bells.notices,
  queueChanged: bells.queue,
})

const REASON = { min: 10, max: 1000 }

/** The answer of an update. Throws 422. */
function answerOf(state: 'open' | NewAnswer['state'] | undefined, reason: string | null | undefined): NewAnswer {
  if (state === 'done') {
    if (typeof reason === 'string')
      throw refuseAttribute('invalid', 'reason', 'Only a declined request has a reason. Leave it out.')
    return { state }
  }
  if (state !== 'declined') throw refuseAttribute('invalid', 'state', '"state" must be "done" or "declined".')
  if (typeof reason !== 'string')
    throw refuseAttribute(
      'required',
      'reason',
      'Add the reason for which you decline. The recipient receives it by email.',
    )
  return { state, reason }
}

export const recipientRequests = definer<ApiDeps & AnswerParts>()('recipient-requests', {
  table: 'recipient_requests',
  path: '/recipient-requests/:recipientRequest',
  scope: 'compliance',
  about:
    'Requests that recipients made on the page of an unsubscribe link. Answer each within 30 days. The recipient receives the answer by email.',
  extension: true,
  attributes: {
    kind: field(z.enum(valuesOf('recipient_requests', 'kind')), {
      about: 'Kind of request: a copy of the data, or its erasure.',
    }),
    state: field(z.enum(valuesOf('recipient_requests', 'state')), {
      update: true,
      example: 'done',
      about:
        'State of the request. "done" starts the export or the erasure. "declined" emails the reason to the recipient.',
    }),
    reason: field(
      text(REASON.max, 'characters')
        .refine((value) => value.trim().length >= REASON.min, `must have at least ${REASON.min} characters`)
        .nullable(),
      {
        update: true,
        answer: z.string().nullable(),
        about: 'Reason for which the request was declined, 10 to 1,000 characters. Null unless it was.',
        example: 'We must keep your invoices for ten years.',
      },
    ),
    email: field(z.string().nullable(), { about: 'Address of the recipient. Null when the request is answered.' }),
    recipient_hash: words('Non-reversible hash of the address.'),
    due_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time by which the request must be answered.' }),
    answered_at: timeOrNull('Time when it was answered. Null until then.'),
    emailed_at: timeOrNull(
      'Time when the answer was emailed to the recipient. Null if not yet, or if the address is suppressed.',
    ),
    created_at: field(z.iso.datetime(), {
      kind: 'time',
      sort: true,
      about: 'Time when the recipient made the request.',
    }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time of the last change.' }),
  },
  filters: { kind: { column: 'kind' }, state: { column: 'state' } },
  actions: [
    {
      kind: 'list',
      scope: 'compliance:write',
      params: ['filter', 'sort', 'fields', 'page'],
      about: 'List requests of recipients.',
    },
    { kind: 'show', scope: 'compliance:write', about: 'Get a request of a recipient.' },
    {
      kind: 'update',
      scope: 'compliance:write',
      refuses: ['transition_not_allowed'],
      about: 'Answer a request of a recipient.',
      async run({ attributes: { reason, state }, parts, row }) {
        if (reason === undefined && (state === undefined || state === row.state)) return { row }
        const given = answerOf(state, reason)
        const deps = answerDepsOf(parts)
        return { row: { ...(await parts.store.write((tx) => answer(tx, deps, row, given))) } }
      },
    },
  ],
})
