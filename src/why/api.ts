// Explains why email is queued, was rejected, or may not have arrived (D162).
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { define } from '../jsonapi/define.ts'
import { words } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { CONFIDENCES } from './evidence.ts'
import { explain } from './explain.ts'

const evidence = z.object({
  source: z.string(),
  at: z.iso.datetime(),
  text: z.string(),
  href: z.string().nullable(),
})
const cause = z.object({
  rank: z.int(),
  cause: z.string(),
  confidence: z.enum(CONFIDENCES),
  message: z.string(),
  fix: z.string(),
  evidence: z.array(evidence),
})
const source = z.object({
  source: z.string(),
  state: z.enum(['read', 'empty', 'unavailable']),
  rows: z.int(),
  since: z.iso.datetime(),
})

export const explanations = define('explanations', {
  table: 'outbound_emails',
  about: 'Reasons why an email is queued, was rejected, or may not have arrived.',
  extension: true,
  attributes: {
    subject: words('Subject of the explanation: the id of an email or a campaign, a sending domain, or a receiver.'),
    kind: field(z.enum(['email', 'domain', 'receiver']), {
      about: 'Kind of subject. A campaign is an email to many recipients.',
    }),
    summary: words('Status and the most likely cause, in one or two sentences.'),
    causes: field(z.array(cause), {
      about:
        'At most 10 causes, in order: those that stopped this email, those that affect many emails to the receiver, and those that affect the whole server. Within each group they are ordered by confidence, then by time. Each has a `fix` and at most 5 rows of evidence, newest first. `href` is a page of the console.',
    }),
    unknowns: field(z.array(z.object({ question: z.string(), reason: z.string() })), {
      about:
        'Questions that the evidence does not answer, each with the missing information. The folder into which a receiver puts an email is never known.',
    }),
    sources: field(z.array(source), {
      about:
        'Sources of evidence that apply to the subject. `read`: the source has evidence. `empty`: it has no evidence. `unavailable`: it does not work on this server.',
    }),
  },
  filters: {
    subject: {
      column: 'subject',
      about:
        'Id of an email or a campaign, a sending domain of the account, or a receiver (a mailbox provider or a recipient domain). For operators, a receiver covers all accounts.',
    },
    since: { column: 'since', about: 'Start of the evidence. The default is 28 days ago.' },
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/explanations',
      id: 'explain',
      scope: 'emails:read',
      about: 'Explain the status of an email, a campaign, a domain or a receiver.',
      async run({ caller, filters, now, parts }) {
        const [subject, ...more] = filters.get('subject') ?? []
        if (!subject || more.length > 0)
          throw refuse(
            'unsupported_filter',
            'Exactly one subject is required. Set filter[subject] to an id, a domain or a receiver.',
            {
              parameter: 'filter[subject]',
            },
          )
        const explanation = explain(parts, {
          name: subject,
          account: caller.userKey,
          everywhere: caller.operator,
          operator: caller.operator,
          now,
          since: sinceOf(filters.get('since')),
        })
        return [{ key: 0, id: explanation.subject, ...explanation }]
      },
    },
  ],
})

function sinceOf(given: readonly string[] | undefined): number | undefined {
  if (given === undefined) return undefined
  const since = given.length === 1 ? Date.parse(given[0] ?? '') : Number.NaN
  if (Number.isNaN(since))
    throw refuse(
      'unsupported_filter',
      '"filter[since]" is not a valid time. Use a time such as 2026-11-01T12:00:00Z.',
      { parameter: 'filter[since]' },
    )
  return since
}
