// Finds webhooks that fail or were disabled.
import { fail, warn, type AccountFinder } from '../parts/findings/finding.ts'
import { db } from '../store/query.ts'
import { lastFailure } from './replay.ts'

const FIX = 'Correct the endpoint. Its page shows the last attempts and, if it was disabled, a button to resume it.'

export const accountFindings: AccountFinder = ({ store, userKey }) =>
  store
    .all(db.selectFrom('webhooks').selectAll().where('user_key', '=', userKey).where('deleted_at', 'is', null))
    .filter(
      ({ consecutive_failures, status }) => status === 'disabled' || (status === 'active' && consecutive_failures > 0),
    )
    .map(({ consecutive_failures, id, key, name, status }) => {
      const cause = consecutive_failures === 0 ? null : lastFailure(store, key)
      const summary = `The webhook ${name} ${status === 'disabled' ? 'is disabled' : 'is failing'}${cause ? `: ${cause}` : ''}`
      const found = (status === 'disabled' ? fail : warn)('webhook', summary.replace(/\.$/, ''), FIX)
      return { ...found, subject: name, href: `/webhooks/${id}` }
    })
