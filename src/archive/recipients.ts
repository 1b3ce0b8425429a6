// To whom backups are sealed, and with which secret keys they are opened. `postrider backup key` keeps the public half
// of the pair that it makes in a file of the data directory, beside "backup.recipients".
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import { asCallerAt } from '../base/ownership.ts'
import { isNoFile, readNamed, readNoted, writePlain } from '../base/plain-file.ts'
import { RECIPIENTS } from './backup-archive.ts'
import { identitiesIn, recipientFault } from './seal.ts'

function kept(dataDir: string): string[] {
  try {
    const lines = readNoted(join(dataDir, RECIPIENTS)).toString().split('\n')
    return lines.map((line) => line.trim()).filter((line) => line !== '')
  } catch (thrown) {
    if (isNoFile(thrown)) return []
    throw thrown
  }
}

/** The public keys. Throws an OperatorError for one that is none. */
export function recipientsOf({ backup, data_dir }: Pick<Config, 'backup' | 'data_dir'>): string[] {
  const all = [...new Set([...backup.recipients, ...kept(data_dir)])]
  for (const each of all) {
    const fault = recipientFault(each)
    if (fault !== undefined)
      throw new OperatorError(
        `"${each.slice(0, 80)}" of "backup.recipients" or ${join(data_dir, RECIPIENTS)} ${fault}.`,
      )
  }
  return all
}

/** Adds a public key to those of the data directory. */
export function keepRecipient(dataDir: string, recipient: string): void {
  writePlain(join(dataDir, RECIPIENTS), [...new Set([...kept(dataDir), recipient])].map((each) => `${each}\n`).join(''))
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
  return identitiesIn(text)
}
