// To whom backups are sealed, and with which secret keys they are opened. `postrider backup key` keeps the public half
// of the pair that it makes in a file of the data directory, beside "backup.recipients".
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { unwritable, whyUnread } from '../base/file-faults.ts'
import { asCallerAt } from '../base/ownership.ts'
import { readNamed, readNoted, replacePlain } from '../base/plain-file.ts'
import { takeLock } from '../store/lock.ts'
import { RECIPIENTS } from './backup-archive.ts'
import { identitiesIn, MOST_RECIPIENTS, recipientFault } from './seal.ts'

/** The lines of the file; undefined when there is none. Throws an OperatorError for what is not such a file. */
function kept(dataDir: string): string[] | undefined {
  const file = join(dataDir, RECIPIENTS)
  let text: string
  try {
    text = readNoted(file).toString()
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw new OperatorError(`${file} cannot be read (${whyUnread(thrown)}); ${MEND}`)
  }
  const lines = text.split('\n').flatMap((line) => line.trim() || [])
  // What is not sealed is readable for whoever finds it: a file that lost its keys must not lead to that.
  if (lines.length === 0) throw new OperatorError(`${file} has no public key in it; ${MEND}`)
  return lines
}

const MEND = 'put it back from a backup, or remove it and run "postrider backup key".'

/** The public keys. Throws an OperatorError for one that is none, and for more than a backup is sealed to. */
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
      `${places} name ${all.length} public keys, and a backup is sealed to at most ${MOST_RECIPIENTS}; remove some.`,
    )
  return all
}

/**
 * Adds a public key to those of the data directory. `shown` gives the secret half to the operator, and comes first: a
 * backup is never sealed to a key that nobody has. Throws an OperatorError; then nothing was added.
 */
export async function keepRecipient(
  config: Pick<Config, 'backup' | 'data_dir'>,
  recipient: string,
  shown: () => Promise<void>,
): Promise<void> {
  const { data_dir } = config
  const release = takeLock(data_dir, 'backup.lock')
  if (!release) throw new OperatorError('A backup or another "backup key" is under way; wait for its end.')
  try {
    if (recipientsOf(config).length >= MOST_RECIPIENTS)
      throw new OperatorError(
        `A backup is sealed to at most ${MOST_RECIPIENTS} public keys; remove one from "backup.recipients" or ${join(data_dir, RECIPIENTS)} first.`,
      )
    await shown()
    replacePlain(join(data_dir, RECIPIENTS), [...(kept(data_dir) ?? []), recipient].map((each) => `${each}\n`).join(''))
  } catch (thrown) {
    throw unwritable(join(data_dir, RECIPIENTS), thrown)
  } finally {
    release()
  }
}

/** The secret keys of a file that the operator names; none for ''. Throws an OperatorError. */
export function identitiesOf(file: string): string[] {
  if (file === '') return []
  let text: string
  try {
    text = asCallerAt(file, () => readNamed(file)).toString()
  } catch (thrown) {
    throw new OperatorError(
      `The file of secret keys ${file} cannot be read (${whyUnread(thrown)}); see that it exists and who may read it.`,
    )
  }
  return identitiesIn(text, file)
}
