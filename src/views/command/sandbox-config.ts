// The configuration of a sandbox (`postrider dev`), for the sandbox and for commands on its data: its own DNS and
// receiving server, which replace those of the configuration file (D216). So no command queries the real DNS for its
// domains.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseConfig, type Config, type ConfigInput } from '../../base/config.ts'
import { OperatorError } from '../../base/errors.ts'
import { DATABASE } from '../../store/open.ts'
import { serverNames, type SandboxPorts } from './server-names.ts'

export const SANDBOX_HOSTNAME = 'postrider.sandbox.example'

/** The file of the CA that issued the certificate of the sandbox's webhook receiver. */
export const sandboxAuthority = (dataDir: string): string => join(dataDir, 'sandbox-ca.pem')

export const sandboxSettings = (dataDir: string, { delivery, dns }: SandboxPorts) =>
  ({
    hostname: SANDBOX_HOSTNAME,
    data_dir: dataDir,
    dns: { servers: [`127.0.0.1:${dns}`] },
    delivery: { port: delivery },
    network: { allow_private: ['127.0.0.0/8', '::1/128'] },
    // Warm-up limits protect the reputation of an IP address, and no email leaves this machine.
    warmup: { enabled: false },
    tls: { ca_file: sandboxAuthority(dataDir) },
    // Its DNS has no lists.
    watch: { interval: '0' },
  }) satisfies ConfigInput

/** The configuration of a command: for the data of a sandbox it is the sandbox's. */
export function forData(config: Config): Config {
  const { public_url, sandbox } = serverNames(config.data_dir)
  if (!sandbox) return config
  const { storage } = config
  return { ...parseConfig({ ...sandboxSettings(config.data_dir, sandbox), http: { public_url } }), storage }
}

/** Throws an OperatorError for the data of a sandbox, which no server sends from. */
export function refuseSandboxData({ data_dir }: Config): void {
  if (!serverNames(data_dir).sandbox) return
  throw new OperatorError(
    `${data_dir} contains the data of a sandbox; run "postrider dev --data ${data_dir}", or set "data_dir" to the data directory of a server.`,
  )
}

/** Throws an OperatorError for the data of a server, whose email a sandbox would deliver to itself. */
export function refuseServerData(dataDir: string): void {
  const { hostname, sandbox } = serverNames(dataDir)
  if (sandbox || hostname === undefined || hostname === SANDBOX_HOSTNAME || !existsSync(join(dataDir, DATABASE))) return
  throw new OperatorError(
    `${dataDir} contains the data of the server ${hostname}; choose another directory with "postrider dev --data".`,
  )
}
