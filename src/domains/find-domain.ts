// Finds a domain by its name for a command: several users may have registered the same name, and in several regions.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { requireUser } from '../identity/users.ts'
import { listDomains, type Domain } from './find.ts'
import type { Reader } from '../store/database.ts'

/** Selects one of several domains with the same name. */
export interface Whose {
  user?: string
  region?: string
}

/** Adds the options that select one domain. */
export const whose = (command: Command): Command =>
  command
    .option('--user <email>', 'whose domain, if several have it')
    .option('--region <region>', 'the one of this region, if it is registered in several')

/** The domain of this name; `Whose` selects one of several. Throws an OperatorError. */
export function theDomain(reader: Reader, name: string, { region, user }: Whose): Domain & { email: string } {
  const owner = user === undefined ? undefined : requireUser(reader, user).key
  const found = listDomains(reader, name).filter(
    (each) => (owner === undefined || each.user_key === owner) && (region === undefined || each.region === region),
  )
  const [first, second] = found
  if (!first) throw new OperatorError(`There is no domain ${name}; "postrider domain list" shows all.`)
  if (second)
    throw new OperatorError(
      `${name} is registered ${found.length} times; say which with --user and --region (${found
        .map(({ email, region: of }) => `${email} ${of}`)
        .join(', ')}).`,
    )
  return first
}
