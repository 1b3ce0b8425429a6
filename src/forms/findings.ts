// Finds forms that are paused: their sign-ups wait for at most 24 hours.
import { warn, type AccountFinder } from '../parts/findings/finding.ts'
import { db } from '../store/query.ts'

/** The maximum number of reported forms, newest first. */
const MOST = 10

export const accountFindings: AccountFinder = ({ store, userKey }) =>
  store
    .all(
      db
        .selectFrom('forms')
        .select(['id', 'name', 'slug', 'paused_reason'])
        .where('user_key', '=', userKey)
        .where('deleted_at', 'is', null)
        .where('status', '=', 'paused')
        .orderBy('key', 'desc')
        .limit(MOST),
    )
    .map(({ id, name, paused_reason: reason, slug }) => ({
      ...warn(
        'form',
        `The form ${name} is paused${reason === null ? '' : `: ${reason.replace(/\.$/, '')}`}`,
        `Open it on its page, or with "postrider form open ${slug}".`,
      ),
      subject: name,
      href: `/forms/${id}`,
    }))
