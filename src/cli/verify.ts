// `postrider verify`:
// reads all of the database and the spool, and names everything damaged or missing, one sentence each.
import { createHash } from 'node:crypto'
import { createReadStream, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { codeOf } from '../base/errors.ts'
import { proofOf } from '../base/spooled.ts'
import { filesOf } from '../outbound/body.ts'
import { opens, sealedKey } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import { scanLog } from '../store/log-scan.ts'
import { DATABASE } from '../store/open.ts'
import { db } from '../store/query.ts'
import { configOf, withDesk, type Desk, type Invocation } from './open.ts'
import { answer } from './terminal.ts'

export function verifyCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('verify')
    .description('read the database and every file of the spool, and say what is damaged or missing')
    .action(async () => {
      // Before the database is opened: SQLite would take damage in the log for its end.
      const log = logFaults(configOf(invocation()).data_dir)
      await withDesk(invocation(), async (desk) => {
        const faults = [...log, ...desk.store.verify(), ...keyFaults(desk), ...(await spoolFaults(desk))]
        const quarantine = await desk.spool.quarantined()
        answer(invocation().terminal, { sound: faults.length === 0, faults, quarantine }, () =>
          [
            ...(faults.length === 0 ? ['Database and spool are sound.'] : faults),
            ...(quarantine.length === 0
              ? []
              : [
                  `${quarantine.length} files that no mail names are in the spool's quarantine: ${quarantine.join(', ')}`,
                ]),
          ].join('\n'),
        )
        if (faults.length > 0) process.exitCode = 1
      })
    })
}

/** The log of a running server is not checked: it changes while it is read. */
function logFaults(dataDir: string): string[] {
  const release = takeLock(dataDir)
  try {
    const damage = release && scanLog(join(dataDir, DATABASE))
    return damage
      ? [`The end of the write-ahead log is damaged: ${damage.lost} pages that were committed are lost.`]
      : []
  } finally {
    release?.()
  }
}

function keyFaults({ keyring, store }: Desk): string[] {
  const sealed = sealedKey(store)
  return sealed && !opens(keyring, sealed) ? ['The key instance.key does not open the DKIM keys of the database.'] : []
}

/** Files that a row names and that are missing or changed. */
async function spoolFaults({ spool, store }: Desk): Promise<string[]> {
  const bodies = store.all(db.selectFrom('outbound_bodies').select('spool').where('spool', 'is not', null))
  const messages = store.all(db.selectFrom('inbound_messages').select('spool').where('spool', 'is not', null))
  const faults: string[] = []
  for (const name of [...bodies.flatMap((row) => filesOf(row.spool)), ...messages.map((row) => row.spool!)]) {
    const fault = await faultOf(spool.path(name))
    if (fault) faults.push(`The file ${name} of the spool ${fault}.`)
  }
  return faults
}

async function faultOf(path: string): Promise<string | undefined> {
  const proof = proofOf(path)
  const hash = createHash('sha256')
  try {
    const { size } = statSync(path)
    if (proof && size !== proof.octets) return `has ${size} octets and should have ${proof.octets}`
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) hash.update(chunk)
  } catch (thrown) {
    return codeOf(thrown) === 'ENOENT' ? 'is missing' : `cannot be read (${codeOf(thrown)})`
  }
  return proof && hash.digest('base64url') !== proof.digest
    ? 'is damaged: its octets are not those that were written'
    : undefined
}
