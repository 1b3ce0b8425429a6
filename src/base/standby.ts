// The state of a standby, for `postrider health --serving`. The standby answers on an abstract Unix socket, because its
// data directory is not mounted. It imports only light modules.
import { createHash } from 'node:crypto'
import { Socket } from 'node:net'
import { resolve } from 'node:path'
import { isObject } from './json.ts'

export interface StandbyState {
  /** Whether the standby would start the server as soon as the volume is here. */
  ready: boolean
  reason: string
}

const PATIENCE = 2000
const MOST = 4096

/** The address of the socket of the standby for a data directory. */
export const standbySocket = (dataDir: string): string =>
  `\0postrider-standby-${createHash('sha256').update(resolve(dataDir)).digest('hex').slice(0, 16)}`

/** Asks the standby on this machine, or returns undefined if there is none. */
export function askStandby(dataDir: string): Promise<StandbyState | undefined> {
  return new Promise((done) => {
    let text = ''
    const socket = new Socket({ signal: AbortSignal.timeout(PATIENCE) })
    const none = (): void => {
      socket.destroy()
      done(undefined)
    }
    socket
      .setEncoding('utf8')
      .on('error', none)
      .on('data', (piece: string) => (text += piece).length > MOST && none())
      .on('end', () => done(stateIn(text)))
      .connect(standbySocket(dataDir))
  })
}

function stateIn(text: string): StandbyState | undefined {
  try {
    const read: unknown = JSON.parse(text)
    return isObject(read) && typeof read['ready'] === 'boolean' && typeof read['reason'] === 'string'
      ? { ready: read['ready'], reason: read['reason'] }
      : undefined
  } catch {
    return undefined
  }
}
