// Finds campaigns that are paused or could not be sent.
import { fail, warn, type AccountFinder } from '../parts/findings/finding.ts'
import { db } from '../store/query.ts'

/** The maximum number of reported campaigns, newest first. */
const MOST = 10

export const accountFindings: AccountFinder = ({ store, userKey }) =>
  store
    .all(
      db
        .selectFrom('campaigns')
        .select(['id', 'name', 'status'])
        .where('user_key', '=', userKey)
        .where('deleted_at', 'is', null)
        .where('status', 'in', ['paused', 'failed'])
        .orderBy('key', 'desc')
        .limit(MOST),
    )
    .map(({ id, name, status }) => {
      const found =
        status === 'failed'
          ? fail(
              'campaign',
              `The campaign ${name} could not be sent`,
              'Correct the problem on its page, and send a copy.',
            )
          : warn('campaign', `The campaign ${name} is paused`, 'Resume it on its page.')
      return { ...found, subject: name, href: `/campaigns/${id}` }
    })
