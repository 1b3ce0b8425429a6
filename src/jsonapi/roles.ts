// The roles of the members of an account (D236): each is a set of the scopes of tokens, in one table. A marketer has
// scopes for email and suppressions that hold only for marketing email, because transactional email contains
// password links. One function decides what tokens and members may do.
import { isNameIn } from '../base/one-of.ts'
import type { Caller, Resource } from './resource.ts'
import { SCOPES, type Scope } from './scopes.ts'

/** The scope for members, privacy requests and the audit log. */
const OWNERS: Scope = 'compliance:write'

interface RoleDescription {
  name: string
  about: string
  scopes: readonly Scope[]
  /** Email and suppressions are limited to those of campaigns. */
  marketing?: true
}

export const ROLES = {
  owner: {
    name: 'Owner',
    about: 'Full access, including members, privacy requests and the audit log.',
    scopes: SCOPES,
  },
  developer: {
    name: 'Developer',
    about: 'All email, domains, inboxes, webhooks and tokens. No members or privacy requests.',
    scopes: SCOPES.filter((scope) => scope !== OWNERS),
  },
  marketer: {
    name: 'Marketer',
    about: 'Audiences, campaigns, images and marketing suppressions. Sees only the emails of campaigns.',
    scopes: [
      'campaigns:read',
      'campaigns:write',
      'contacts:read',
      'contacts:write',
      'emails:read',
      'suppressions:read',
      'suppressions:write',
    ],
    marketing: true,
  },
  reader: {
    name: 'Reader',
    about: 'Read-only access, without tokens, members and privacy requests.',
    scopes: SCOPES.filter((scope) => scope.endsWith(':read')),
  },
} as const satisfies Record<string, RoleDescription>

export type RoleName = keyof typeof ROLES
export const ROLE_NAMES = Object.keys(ROLES) as [RoleName, ...RoleName[]]
export const isRole = (text: string): text is RoleName => isNameIn(ROLES, text)

export type Rights = Pick<Caller, 'scopes' | 'marketing'>

const RIGHTS = new Map<RoleName, Rights>(
  ROLE_NAMES.map((name) => {
    const { scopes, ...role }: RoleDescription = ROLES[name]
    return [name, { scopes: new Set<string>(scopes), ...(role.marketing && { marketing: true }) }]
  }),
)

/** What a member with a role may do. */
export const rightsOf = (role: RoleName): Rights => RIGHTS.get(role)!

/** The scopes that concern both kinds of email. */
const BOTH = /^(?:emails|suppressions):/

/** Whether a caller may use a scope of a resource. */
export const permits = ({ marketing, scopes }: Rights, scope: string, resource: Pick<Resource, 'marketing'>): boolean =>
  scopes.has(scope) && !(marketing && BOTH.test(scope) && resource.marketing === undefined)

/** The SQL condition of the rows of a resource that a caller can see, or undefined. */
export function visibleTo(
  { marketing }: Pick<Caller, 'marketing'>,
  { marketing: only, only: always }: { marketing?: string | undefined; only?: string | undefined },
): string | undefined {
  return marketing && only !== undefined ? [always, only].filter(Boolean).join(' and ') : always
}
