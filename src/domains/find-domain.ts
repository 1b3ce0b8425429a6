// Finds a domain by its name for a command: several users may have registered the same name, and in several regions.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { requireUser } from '../users/users.ts'
import { listDomains, type Domain } from './find.ts'
import type { Reader } from '../store/database.ts'

/** Selects one of several domains with the same name. */
export interface Whose {
  user?: string
  region?: string
}

export const whose = (command: Command): Command =>
  command
    .option('--user <email>', 'owner of the domain, if several users have it')
    .option('--region <region>', 'region of the domain, if it is registered in several')

/** The domain of this name. The region and user select one of several. Throws an OperatorError. */
export function theDomain(reader: Reader, name: string, { region, user }: Whose): Domain & { email: string } {
  const owner = user === undefined ? undefined : requireUser(reader, user).key
  const found = listDomains(reader, name).filter(
    (each) => (owner === undefined || each.user_key === owner) && (region === undefined || each.region === region),
  )
  const [first, second] = found
  if (!first) throw new OperatorError(`There is no domain ${name}; run "postrider domain list" to see all domains.`)
  if (second)
    throw new OperatorError(
      `${name} is registered ${found.length} times; choose one with --user and --region (${found
        .map(({ email, region: of }) => `${email} ${of}`)
        .join(', ')}).`,
    )
  return first
}
