// Verifies all data: `verify` checks a data directory, `backup` and `restore` their copy. Each fault is a sentence.
import { counted } from '../base/text.ts'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { codeOf } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { bufferCollector } from '../base/native.ts'
import { isNoFile, openPlainHandle } from '../base/plain-file.ts'
import { filesOf, isSpoolName, isWholeSpool, proofOf } from '../base/spooled.ts'
import { withCopy } from '../store/copy.ts'
import type { Store } from '../store/database.ts'
import { keyFits } from '../store/instance.ts'
import { DATABASE } from '../store/open.ts'
import { raw } from '../store/query.ts'
import { Spool } from '../store/spool.ts'

export interface Whole {
  store: Store
  keyring: Keyring
  spool: Spool
}

/**
 * Reads the whole database and every file that its rows name, except the contents of files that are verified. Returns
 * corrupt and missing data.
 */
export async function faultsOf({ keyring, spool, store }: Whole, verified?: ReadonlySet<string>): Promise<string[]> {
  const damaged = store.verify()
  try {
    return [...damaged, ...keyFaults(store, keyring), ...(await spoolFaults(store, spool, verified))]
  } catch (thrown) {
    // The corruption that caused this error is in the list already.
    if (damaged.length > 0 && codeOf(thrown).startsWith('SQLITE_')) return damaged
    throw thrown
  }
}

/** The faults of a copy: a folder with a database and its spool that no process uses. */
export const faultsOfCopy = (place: string, keyring: Keyring, verified?: ReadonlySet<string>): Promise<string[]> =>
  withCopy(join(place, DATABASE), (store) => faultsOf({ store, keyring, spool: new Spool(place) }, verified))

/** The spool files of a copy that do not expire with the body of an email. */
export const lastingFiles = (place: string): Promise<Set<string>> =>
  withCopy(join(place, DATABASE), async (store) => new Set(spoolNames(store).lasting))

/** Faults as part of a sentence. */
export function listed(faults: readonly string[]): string {
  const shown = faults.slice(0, 20).map((fault) => fault.replace(/\.$/, ''))
  return [...shown, ...(faults.length > 20 ? [`${faults.length - 20} more`] : [])].join('; ')
}

function keyFaults(store: Store, keyring: Keyring): string[] {
  return keyFits(store, keyring) ? [] : ['instance.key does not decrypt the DKIM keys of the database.']
}

/** The names of all spool files in the rows, and a fault for each row with an impossible name. */
function spoolNames(store: Pick<Store, 'all'>): { expiring: string[]; lasting: string[]; faults: string[] } {
  const faults: string[] = []
  const named = (table: string, read: (spool: string) => string[], isWhole: (spool: string) => boolean): string[] =>
    store
      .all(raw<{ row: number; spool: string }>(`select rowid as row, spool from ${table} where spool is not null`))
      .flatMap(({ row, spool }) => {
        if (!isWhole(spool)) faults.push(`Row ${row} of ${table} has an invalid spool file name.`)
        return read(spool)
      })
  const one = (spool: string): string[] => [spool].filter(isSpoolName)
  const bodies = ['outbound_bodies', 'outbound_batches']
  const expiring = bodies.flatMap((table) => named(table, filesOf, isWholeSpool))
  const lasting = [...named('inbound_messages', one, isSpoolName), ...named('images', one, isSpoolName)]
  return { expiring, lasting, faults }
}

/** Faults of files that a row names: missing files, and files with other content than was written. */
async function spoolFaults(store: Store, spool: Spool, verified?: ReadonlySet<string>): Promise<string[]> {
  const quarantine = new Set(await spool.quarantined())
  const { expiring, faults, lasting } = spoolNames(store)
  const collect = bufferCollector()
  for (const name of [...expiring, ...lasting]) {
    const fault = await faultOf(spool.path(name), verified?.has(name) ? undefined : collect)
    const place = fault === MISSING && quarantine.has(name) ? 'is in quarantine; the next start restores it' : fault
    if (place) faults.push(`The spool file ${name} ${place}.`)
  }
  return faults
}

/** The end of the fault for a missing file. */
export const MISSING = 'is missing'

/** Reads the file if there is a `collect`. */
async function faultOf(path: string, collect?: (bytes: number) => void): Promise<string | undefined> {
  const proof = proofOf(path)
  const hash = createHash('sha256')
  try {
    await using file = await openPlainHandle(path)
    const { size } = await file.stat()
    if (proof && size !== proof.octets) return `has ${counted(size, 'byte')} instead of ${proof.octets}`
    if (!collect) return undefined
    for await (const chunk of file.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
      hash.update(chunk)
      collect(chunk.length)
    }
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return MISSING
    return isNoFile(thrown) ? `is not a file (${codeOf(thrown)})` : `cannot be read (${codeOf(thrown)})`
  }
  return proof && hash.digest('base64url') !== proof.digest ? 'is corrupt: it differs from what was written' : undefined
}
