// The names of a server, kept in its data directory (D122): a command whose configuration does not set them, such as
// one next to a sandbox, uses those of the server and not the host name of the machine.
import { join } from 'node:path'
import type { Config } from '../../base/config.ts'
import { codeOf } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import type { Log } from '../../base/log.ts'
import { readNoted, replacePlain } from '../../base/plain-file.ts'

/** The ports of a sandbox on loopback: of its DNS, and of its receiving server. */
export interface SandboxPorts {
  dns: number
  delivery: number
}

export interface ServerNames {
  hostname?: string
  public_url?: string
  /** Only for the data of a sandbox: its ports. */
  sandbox?: SandboxPorts
}

const fileIn = (dataDir: string): string => join(dataDir, 'server-names.json')

/** Returns the names of the server that last ran on a data directory, or an empty object if they cannot be read. */
export function serverNames(dataDir: string): ServerNames {
  try {
    const read: unknown = JSON.parse(readNoted(fileIn(dataDir)).toString())
    if (!isObject(read)) return {}
    const { hostname, public_url, sandbox } = read
    return {
      ...(typeof hostname === 'string' && hostname !== '' && { hostname }),
      ...(typeof public_url === 'string' && URL.canParse(public_url) && { public_url }),
      ...(isObject(sandbox) && { sandbox: { dns: portIn(sandbox['dns']), delivery: portIn(sandbox['delivery']) } }),
    }
  } catch {
    return {}
  }
}

/** The ports of a stopped sandbox, which no process listens on. */
export const NO_PORTS: SandboxPorts = { dns: 1, delivery: 1 }

const portIn = (value: unknown): number =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65_536 ? value : 1

/** Stores the names of this server. A failure is only logged. Data of a sandbox stays marked as such. */
export function keepServerNames(
  { data_dir, hostname, http: { public_url } }: Config,
  log: Log,
  ports?: SandboxPorts,
): void {
  const known = serverNames(data_dir)
  if (known.hostname === hostname && known.public_url === public_url && !ports) return
  const file = fileIn(data_dir)
  try {
    replacePlain(file, `${JSON.stringify({ hostname, public_url, sandbox: ports ?? known.sandbox })}\n`, {
      lasting: false,
    })
  } catch (thrown) {
    log.warn('server_names_not_written', { error: codeOf(thrown) })
  }
}
