// A private clamd on a Unix socket with a signature database made for the tests, so no signatures are downloaded, and
// the findings are known.

import { accessSync, chownSync, mkdirSync } from 'node:fs'
import { answers, until, type Daemon, type Sandbox } from './sandbox.ts'

const PROGRAM = '/usr/sbin/clamd'

export function missingClamd(): string[] {
  try {
    accessSync(PROGRAM)
    return []
  } catch {
    return [PROGRAM]
  }
}

/**
 * The test file of the European Institute for Computer Antivirus Research; written in two pieces, so that no scanner
 * minds this file.
 */
export const EICAR = ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-', 'STANDARD-ANTIVIRUS-TEST-FILE!$H+H*'].join('')

/** The name under which our signature finds it; clamd adds that the signature is not an official one. */
export const EICAR_NAME = 'Interop.Test.Eicar.UNOFFICIAL'

export interface Clamd {
  /** As `inbound.clamav` takes it. */
  address: string
  start: () => Promise<void>
  stop: () => Promise<void>
}

/** Not started yet. */
export function privateClamd(box: Sandbox): Clamd {
  mkdirSync(box.path('signatures'))
  // A body signature for any type of file at any place (clamav's "ndb" format): name, type, offset, bytes in hex.
  box.write('signatures/eicar.ndb', `Interop.Test.Eicar:0:*:${Buffer.from(EICAR).toString('hex')}\n`)
  const socket = box.path('clamd.sock')
  const conf = box.write(
    'clamd.conf',
    [
      'Foreground yes',
      `LocalSocket ${socket}`,
      'FixStaleSocket yes',
      `DatabaseDirectory ${box.path('signatures')}`,
      `TemporaryDirectory ${box.path('scanning')}`,
      'StreamMaxLength 60M',
      'MaxThreads 4',
      'User nobody',
      '',
    ].join('\n'),
  )
  mkdirSync(box.path('scanning'))
  // It gives root away, and makes its socket and its files as the other one.
  for (const path of [box.path('scanning'), box.dir]) chownSync(path, 65_534, 65_534)
  let daemon: Daemon | undefined
  return {
    address: socket,
    async start() {
      const started = (daemon = box.daemon(PROGRAM, ['--config-file', conf], 'clamd.log'))
      const ready = async () => {
        if (!started.alive()) throw new Error(`clamd ended at once: ${box.read('clamd.log')}`)
        return await answers(socket)
      }
      await until(ready, 20_000, () => `clamd does not listen: ${box.read('clamd.log')}`)
    },
    async stop() {
      await daemon?.stop()
    },
  }
}
