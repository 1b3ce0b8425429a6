// Why mail waits, was refused or is not known to have arrived (D162).
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, words } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { STRENGTHS } from './evidence.ts'
import { explained } from './explain.ts'

const evidence = z.object({
  source: z.string(),
  at: z.iso.datetime(),
  text: z.string(),
  href: z.string().nullable(),
})
const cause = z.object({
  rank: z.int(),
  cause: z.string(),
  strength: z.enum(STRENGTHS),
  says: z.string(),
  mend: z.string(),
  evidence: z.array(evidence),
})
const asked = z.object({
  source: z.string(),
  state: z.enum(['read', 'empty', 'off']),
  rows: z.int(),
  since: z.iso.datetime(),
})

export const explanations = define('explanations', {
  table: 'outbound_emails',
  about: `Why a mail waits, was refused, or is not known to have arrived. ${EXTENSION}`,
  attributes: {
    subject: words('What was asked about: the id of a mail or a campaign, a sending domain, or a receiver.'),
    kind: field(z.enum(['mail', 'domain', 'receiver']), {
      about: 'What the subject is; a campaign is a mail to many.',
    }),
    summary: words('How it stands, and the first cause, in a sentence or two.'),
    causes: field(z.array(cause), {
      about:
        'At most 10, in order: what stopped this very mail, what its receiver says to many, what holds for the whole server; then by strength, then by time. Each has what to do (mend), and at most 5 rows of evidence, the newest first; href is a page of the console.',
    }),
    not_known: field(z.array(z.object({ question: z.string(), because: z.string() })), {
      about: 'What nothing speaks of, and what would tell. Into which folder a receiver files mail is never known.',
    }),
    asked: field(z.array(asked), {
      about: 'The sources of evidence that fit the subject: read, empty, or off (it does not work here).',
    }),
  },
  filters: {
    subject: {
      column: 'subject',
      about:
        'The id of a mail or a campaign, a sending domain of the account, or a receiver (a provider, else a receiving domain). Operators ask about a receiver for all accounts.',
    },
    since: { column: 'since', about: 'Evidence since this time; of the last 28 days when absent.' },
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/explanations',
      id: 'explain',
      scope: 'emails:read',
      about: `Explain a mail, a campaign, a domain or a receiver. ${EXTENSION}`,
      async run({ caller, filters, now, parts }) {
        const [subject, ...more] = filters.get('subject') ?? []
        if (!subject || more.length > 0)
          throw refuse(
            'unsupported_filter',
            'One subject is asked about: filter[subject]=ID, a domain or a receiver.',
            {
              parameter: 'filter[subject]',
            },
          )
        const explanation = await explained(parts, {
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
    throw refuse('unsupported_filter', 'The time is written as 2026-11-01T12:00:00Z.', { parameter: 'filter[since]' })
  return since
}
