// Whether everything is whole: what `verify` reads of a data directory, and `backup` and `restore` of the copy that
// they make. Each fault is a sentence.
import { createHash } from 'node:crypto'
import { createReadStream, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { proofOf } from '../base/spooled.ts'
import { filesOf } from '../outbound/body.ts'
import { withCopy } from '../store/copy.ts'
import type { Store } from '../store/database.ts'
import { opens, sealedKey } from '../store/instance.ts'
import { DATABASE } from '../store/open.ts'
import { raw } from '../store/query.ts'
import { Spool } from '../store/spool.ts'

export interface Whole {
  store: Store
  keyring: Keyring
  spool: Spool
}

/** Reads every octet of the database and of every file that its rows name; what is damaged or missing. */
export async function faultsOf({ keyring, spool, store }: Whole): Promise<string[]> {
  const damaged = store.verify()
  try {
    return [...damaged, ...keyFaults(store, keyring), ...(await spoolFaults(store, spool))]
  } catch (thrown) {
    // What cannot be read was told of already.
    if (damaged.length > 0 && codeOf(thrown).startsWith('SQLITE_')) return damaged
    throw thrown
  }
}

/** The same of a copy: a folder that holds a database and its spool, and on which nobody works. */
export const faultsOfCopy = (place: string, keyring: Keyring): Promise<string[]> =>
  withCopy(join(place, DATABASE), (store) => faultsOf({ store, keyring, spool: new Spool(place) }))

/** Faults as a part of a sentence. */
export function listed(faults: readonly string[]): string {
  const said = faults.slice(0, 20).map((fault) => fault.replace(/\.$/, ''))
  return [...said, ...(faults.length > 20 ? [`${faults.length - 20} more`] : [])].join('; ')
}

function keyFaults(store: Store, keyring: Keyring): string[] {
  const sealed = sealedKey(store)
  return sealed && !opens(keyring, sealed) ? ['The key instance.key does not open the DKIM keys of the database.'] : []
}

/** Every file of the spool that a row names. */
function spoolNames(store: Pick<Store, 'all'>): string[] {
  const named = (table: string) =>
    store.all(raw<{ spool: string }>(`select spool from ${table} where spool is not null`)).map(({ spool }) => spool)
  return [...named('outbound_bodies').flatMap(filesOf), ...named('inbound_messages')]
}

/** Files that a row names and that are not there, or not what was written. */
async function spoolFaults(store: Store, spool: Spool): Promise<string[]> {
  const quarantine = new Set(await spool.quarantined())
  const faults: string[] = []
  for (const name of spoolNames(store)) {
    const fault = await faultOf(spool.path(name))
    const place =
      fault === MISSING && quarantine.has(name) ? 'lies in its quarantine; the next start brings it back' : fault
    if (place) faults.push(`The file ${name} of the spool ${place}.`)
  }
  return faults
}

/** How the fault of a file ends that is not there. */
export const MISSING = 'is missing'

async function faultOf(path: string): Promise<string | undefined> {
  const proof = proofOf(path)
  const hash = createHash('sha256')
  try {
    const { size } = statSync(path)
    if (proof && size !== proof.octets) return `has ${size} octets and should have ${proof.octets}`
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) hash.update(chunk)
  } catch (thrown) {
    return codeOf(thrown) === 'ENOENT' ? MISSING : `cannot be read (${codeOf(thrown)})`
  }
  return proof && hash.digest('base64url') !== proof.digest
    ? 'is damaged: its octets are not those that were written'
    : undefined
}
