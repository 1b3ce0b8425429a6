// The data directory of a server: its lock, its installation and its ledger, opened together.
import { iso, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { fingerprintOf, keepCopy, keepLedger } from '../privacy/ledger.ts'
import { openInstance, type Instance } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import type { LogDamage } from '../store/log-scan.ts'
import { explained } from '../store/open.ts'
import { giveUpRoom } from '../store/room.ts'

/** Opens the data directory and its lock. Throws an OperatorError with one sentence. */
export function openData({ data_dir, privacy }: Config, clock: Clock, log: Log): Instance & { release: () => void } {
  let release: (() => void) | undefined
  try {
    giveUpRoom(data_dir)
    // The lock comes first: while a server runs, nothing may be opened, created or migrated.
    release = takeLock(data_dir)
    if (!release)
      throw new OperatorError(
        `Another Postrider serves ${data_dir} already; stop it, or give this one another data_dir.`,
      )
    const migrating = (from: number, to: number): void => log.info('database upgraded', { from, to })
    const logDamaged = ({ lost, readable }: LogDamage): void =>
      log.error('the write-ahead log is damaged: transactions at its end are lost', {
        frames_read: readable,
        frames_lost: lost,
      })
    const instance = openInstance(data_dir, { migrating, logDamaged })
    try {
      keepLedgers(instance, data_dir, privacy.ledger_copy, iso(clock.now()), log)
    } catch (thrown) {
      instance.store.close()
      throw thrown
    }
    return { ...instance, release }
  } catch (thrown) {
    release?.()
    throw explained(thrown, data_dir)
  }
}

/**
 * Prepares the ledger of erasures of this installation, and its copy. A copy that cannot be written is only logged,
 * because its disk may be missing at present. Throws an OperatorError.
 */
function keepLedgers({ keyring }: Instance, dataDir: string, copy: string, at: string, log: Log): void {
  const owner = fingerprintOf(keyring)
  keepLedger(dataDir, owner, at)
  try {
    keepCopy(dataDir, copy, owner, at)
  } catch (thrown) {
    log.warn('the copy of the ledger of erasures cannot be written', { error: codeOf(thrown) || messageOf(thrown) })
  }
}
