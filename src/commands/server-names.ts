// The names by which a server is reached, kept in its data directory (D122): a command whose configuration does not say
// them, as beside a sandbox, uses those of the server and not the name of the machine.
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { codeOf } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import type { Log } from '../base/log.ts'
import { readNoted, replacePlain } from '../base/plain-file.ts'

export interface ServerNames {
  hostname?: string
  public_url?: string
}

const fileIn = (dataDir: string): string => join(dataDir, 'server-names.json')

/** The names of the server that runs on a data directory, or ran there last; none when it cannot be read. */
export function serverNames(dataDir: string): ServerNames {
  try {
    const read: unknown = JSON.parse(readNoted(fileIn(dataDir)).toString())
    if (!isObject(read)) return {}
    const { hostname, public_url } = read
    return {
      ...(typeof hostname === 'string' && hostname !== '' && { hostname }),
      ...(typeof public_url === 'string' && URL.canParse(public_url) && { public_url }),
    }
  } catch {
    return {}
  }
}

/** Keeps the names of this server. A failure is logged only: the server does without. */
export function keepServerNames({ data_dir, hostname, http: { public_url } }: Config, log: Log): void {
  const known = serverNames(data_dir)
  if (known.hostname === hostname && known.public_url === public_url) return
  const file = fileIn(data_dir)
  try {
    replacePlain(file, `${JSON.stringify({ hostname, public_url })}\n`, { lasting: false })
  } catch (thrown) {
    log.warn('the names of the server cannot be kept for commands', { error: codeOf(thrown) })
  }
}
