// An optional record of a domain, with the present result of its lookup.
import type { ResolverAnswer } from '../net/resolver.ts'

export interface AdvisedRecord {
  record_type: (typeof ADVISED_KINDS)[number]
  name: string
  /** DNS type. */
  type: (typeof ADVISED_TYPES)[number]
  value: string
  ttl: number
  /** The domain's present record if the advice depends on it. Null if there is no record or DNS did not respond. */
  observed: string | null
  /** False when the advice depends on the present record and DNS did not answer. */
  answered: boolean
  /** The comparison with DNS. */
  state: AdvisedState
  /** Which of several records of one type it is. */
  which?: string
}

export const ADVISED_KINDS = [
  'HOST_ADDRESS',
  'REVERSE',
  'FROM_SPF',
  'HELO_SPF',
  'CAA',
  'TLSA',
  'MTA_STS',
  'TLS_RPT',
] as const
export const ADVISED_TYPES = ['A', 'AAAA', 'PTR', 'TXT', 'CAA', 'TLSA', 'CNAME'] as const
export const ADVISED_STATES = ['ok', 'missing', 'different', 'no_answer', 'not_checked'] as const
export type AdvisedState = (typeof ADVISED_STATES)[number]

export type AdvisedAnswer = Pick<AdvisedRecord, 'answered' | 'observed' | 'state'>

/** `failed` means that DNS did not respond. Advice that depends on the present record is then omitted. */
export const answerOf = (
  kind: ResolverAnswer<never>['kind'],
  observed: string | null,
  wanted: string,
): AdvisedAnswer => ({
  answered: kind !== 'failed',
  observed,
  state: kind === 'failed' ? 'no_answer' : observed === null ? 'missing' : observed === wanted ? 'ok' : 'different',
})
