// Whether an unpacked backup can be used: its schema is known, its data are whole, its key opens them.
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf, OperatorError } from '../base/errors.ts'
import { KEY_FILE, openKeyring, type Keyring } from '../base/keyring.ts'
import { migrations } from '../schema/migrations.ts'
import { schemaIn, withCopy } from '../store/copy.ts'
import { keyFits } from '../store/instance.ts'
import { DATABASE } from '../store/open.ts'
import { tooNew } from './fetch.ts'
import { faultsOfCopy, listed } from './integrity.ts'

/**
 * The damage in an unpacked backup, by the same checks as `verify`. Throws an OperatorError when there is damage and
 * `force` is not set, or when the key or the database cannot be used.
 */
export async function prove(place: string, file: string, { force }: { force?: true | undefined }): Promise<string[]> {
  refuseNewer(place, file)
  const keyring = keyIn(place, file)
  const faults = await faultsOfCopy(place, keyring).catch((thrown: unknown) => {
    throw new OperatorError(`${file} holds a damaged database (${messageOf(thrown)}); take another backup.`)
  })
  if (!(await withCopy(join(place, DATABASE), async (store) => keyFits(store, keyring))))
    throw new OperatorError(`${file} holds a key that does not open its database; take another backup.`)
  if (faults.length > 0 && !force)
    throw new OperatorError(
      `${file} holds what is damaged: ${listed(faults)}; take another backup, or add --force to restore it as it is.`,
    )
  for (const name of readdirSync(place)) if (/-(?:wal|shm)$/.test(name)) rmSync(join(place, name))
  return faults
}

function keyIn(place: string, file: string): Keyring {
  try {
    return openKeyring(place)
  } catch (thrown) {
    throw thrown instanceof OperatorError
      ? new OperatorError(`${file} holds a damaged ${KEY_FILE}; take another backup.`, { cause: thrown })
      : thrown
  }
}

/** Nothing is wrong with a newer schema; it is said before anything is looked for in it. */
function refuseNewer(place: string, file: string): void {
  let schema: number
  try {
    schema = schemaIn(join(place, DATABASE)).schema
  } catch {
    // Damaged: the checks say how.
    return
  }
  if (schema > migrations.length) throw tooNew(file, schema)
}
