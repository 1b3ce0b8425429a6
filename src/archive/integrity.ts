// Whether all data is intact: `verify` checks a data directory, `backup` and `restore` check the copy that they make.
// Each fault is a sentence.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { codeOf } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { bufferCollector } from '../base/native.ts'
import { isNoFile, openPlainHandle } from '../base/plain-file.ts'
import { isSpoolName, proofOf } from '../base/spooled.ts'
import { filesOf, isWholeSpool } from '../base/spooled.ts'
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

/** Reads every octet of the database and of every file that its rows name; returns damaged and missing data. */
export async function faultsOf({ keyring, spool, store }: Whole): Promise<string[]> {
  const damaged = store.verify()
  try {
    return [...damaged, ...keyFaults(store, keyring), ...(await spoolFaults(store, spool))]
  } catch (thrown) {
    // The damage that caused this error is in the list already.
    if (damaged.length > 0 && codeOf(thrown).startsWith('SQLITE_')) return damaged
    throw thrown
  }
}

/** The faults of a copy: a folder with a database and its spool, in use by no process. */
export const faultsOfCopy = (place: string, keyring: Keyring): Promise<string[]> =>
  withCopy(join(place, DATABASE), (store) => faultsOf({ store, keyring, spool: new Spool(place) }))

/** Faults as a part of a sentence. */
export function listed(faults: readonly string[]): string {
  const said = faults.slice(0, 20).map((fault) => fault.replace(/\.$/, ''))
  return [...said, ...(faults.length > 20 ? [`${faults.length - 20} more`] : [])].join('; ')
}

function keyFaults(store: Store, keyring: Keyring): string[] {
  return keyFits(store, keyring) ? [] : ['The key instance.key does not open the DKIM keys of the database.']
}

/** The names of all spool files in the rows, and a fault for each row with an impossible name. */
function spoolNames(store: Pick<Store, 'all'>): { names: string[]; faults: string[] } {
  const faults: string[] = []
  const named = (table: string, read: (spool: string) => string[], isWhole: (spool: string) => boolean): string[] =>
    store
      .all(raw<{ row: number; spool: string }>(`select rowid as row, spool from ${table} where spool is not null`))
      .flatMap(({ row, spool }) => {
        if (!isWhole(spool)) faults.push(`Row ${row} of ${table} names what is not a file of the spool.`)
        return read(spool)
      })
  const one = (spool: string): string[] => [spool].filter(isSpoolName)
  const names = [
    ...named('outbound_bodies', filesOf, isWholeSpool),
    ...named('inbound_messages', one, isSpoolName),
    ...named('images', one, isSpoolName),
  ]
  return { names, faults }
}

/** Faults of files that a row names: missing files, and files with other content than was written. */
async function spoolFaults(store: Store, spool: Spool): Promise<string[]> {
  const quarantine = new Set(await spool.quarantined())
  const { faults, names } = spoolNames(store)
  const collect = bufferCollector()
  for (const name of names) {
    const fault = await faultOf(spool.path(name), collect)
    const place =
      fault === MISSING && quarantine.has(name) ? 'lies in its quarantine; the next start brings it back' : fault
    if (place) faults.push(`The file ${name} of the spool ${place}.`)
  }
  return faults
}

/** The end of the fault for a missing file. */
export const MISSING = 'is missing'

async function faultOf(path: string, collect: (octets: number) => void): Promise<string | undefined> {
  const proof = proofOf(path)
  const hash = createHash('sha256')
  try {
    await using file = await openPlainHandle(path)
    const { size } = await file.stat()
    if (proof && size !== proof.octets) return `has ${size} octets and should have ${proof.octets}`
    for await (const chunk of file.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
      hash.update(chunk)
      collect(chunk.length)
    }
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return MISSING
    return isNoFile(thrown) ? `is not a file (${codeOf(thrown)})` : `cannot be read (${codeOf(thrown)})`
  }
  return proof && hash.digest('base64url') !== proof.digest
    ? 'is damaged: its octets are not those that were written'
    : undefined
}
