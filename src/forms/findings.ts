// Finds forms whose sign-ups wait, for at most 24 hours: paused ones, and open ones whose domain is not active.
import { warn, type AccountFinder } from '../parts/findings/finding.ts'
import { db } from '../store/query.ts'

/** The maximum number of reported forms, newest first. */
const MOST = 10

export const accountFindings: AccountFinder = ({ store, userKey }) =>
  store
    .all(
      db
        .selectFrom('forms as f')
        .innerJoin('domains as d', 'd.key', 'f.domain_key')
        .select(['f.id', 'f.name', 'f.slug', 'f.status', 'f.paused_reason', 'd.name as domain', 'd.status as state'])
        .where('f.user_key', '=', userKey)
        .where('f.deleted_at', 'is', null)
        .where((eb) =>
          eb.or([
            eb('f.status', '=', 'paused'),
            eb.and([eb('f.status', '=', 'open'), eb('d.status', '<>', 'active'), eb('f.audience_key', 'is not', null)]),
          ]),
        )
        .orderBy('f.key', 'desc')
        .limit(MOST),
    )
    .map(({ domain, id, name, paused_reason: reason, slug, state, status }) => ({
      ...(status === 'paused'
        ? warn(
            'form',
            `The form ${name} is paused${reason === null ? '' : `: ${reason.replace(/\.$/, '')}`}`,
            `Open it on its page, or with "postrider form open ${slug}".`,
          )
        : warn(
            'form',
            `Sign-ups of the form ${name} wait, for at most 24 hours: the domain ${domain} is ${state}`,
            'Make the domain active again, or close the form.',
          )),
      subject: name,
      href: `/forms/${id}`,
    }))
