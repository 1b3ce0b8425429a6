// The public keys that backups are encrypted to, and the secret keys that decrypt them. `postrider backup key` stores
// the public key of a new pair in a file of the data directory, in addition to "backup.recipients".
import { counted } from '../base/text.ts'
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { unwritable, whyUnread } from '../base/file-faults.ts'
import { readNamed, readNoted, replacePlain } from '../base/plain-file.ts'
import { takeLock } from '../store/lock.ts'
import { RECIPIENTS } from './backup-archive.ts'
import { identitiesIn, MOST_RECIPIENTS, recipientFault } from './encryption.ts'

/** The lines of the file, or undefined if it does not exist. Throws an OperatorError if it is empty or unreadable. */
function kept(dataDir: string): string[] | undefined {
  const file = join(dataDir, RECIPIENTS)
  let text: string
  try {
    text = readNoted(file).toString()
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw new OperatorError(`${file} cannot be read (${whyUnread(thrown)}); ${FIX}`)
  }
  const lines = text.split('\n').flatMap((line) => line.trim() || [])
  // A file that lost its keys must not lead to unencrypted backups.
  if (lines.length === 0) throw new OperatorError(`${file} contains no public key; ${FIX}`)
  return lines
}

const FIX = 'restore it from a backup, or delete it and run "postrider backup key".'

/** The public keys. Throws an OperatorError if one is invalid, or if there are too many. */
export function recipientsOf({ backup, data_dir }: Pick<Config, 'backup' | 'data_dir'>): string[] {
  const places = `"backup.recipients" and ${join(data_dir, RECIPIENTS)}`
  const all = [...new Set([...backup.recipients, ...(kept(data_dir) ?? [])])]
  for (const each of all) {
    const fault = recipientFault(each)
    if (fault !== undefined)
      throw new OperatorError(`"${each.slice(0, 80)}" ${fault}; correct it in ${places.replace('and', 'or')}.`)
  }
  if (all.length > MOST_RECIPIENTS)
    throw new OperatorError(
      `${places} have ${counted(all.length, 'public key')}, but a backup can be encrypted to at most ${MOST_RECIPIENTS}; remove some.`,
    )
  return all
}

/**
 * Adds a public key to those of the data directory. `shown` prints the secret key before, so that no backup is
 * encrypted to a key without its secret half. If it throws an OperatorError, the key was not added.
 */
export async function keepRecipient(
  config: Pick<Config, 'backup' | 'data_dir'>,
  recipient: string,
  shown: () => Promise<void>,
): Promise<void> {
  const { data_dir } = config
  const release = takeLock(data_dir, 'backup.lock')
  if (!release) throw new OperatorError('A backup or another "backup key" is in progress; wait until it is complete.')
  try {
    if (recipientsOf(config).length >= MOST_RECIPIENTS)
      throw new OperatorError(
        `A backup can be encrypted to at most ${MOST_RECIPIENTS} public keys; remove one from "backup.recipients" or ${join(data_dir, RECIPIENTS)} first.`,
      )
    await shown()
    replacePlain(join(data_dir, RECIPIENTS), [...(kept(data_dir) ?? []), recipient].map((each) => `${each}\n`).join(''))
  } catch (thrown) {
    throw unwritable(join(data_dir, RECIPIENTS), thrown)
  } finally {
    release()
  }
}

/** The secret keys of a file, empty for ''. Throws an OperatorError. */
export function identitiesOf(file: string): string[] {
  if (file === '') return []
  let text: string
  try {
    text = readNamed(file).toString()
  } catch (thrown) {
    throw new OperatorError(
      `The secret key file ${file} cannot be read (${whyUnread(thrown)}); check its path and permissions.`,
    )
  }
  return identitiesIn(text, file)
}
