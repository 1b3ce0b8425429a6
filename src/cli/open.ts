// What a command works with. Commands open the data directory themselves, beside a running server, which notices their
// changes within a second.
import { existsSync } from 'node:fs'
import { systemClock, type Clock } from '../base/clock.ts'
import { loadConfig, type Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { openKeyring, type Keyring } from '../base/keyring.ts'
import { createLog, silentLog, type Log } from '../base/log.ts'
import { createResolver, type Resolver } from '../base/resolver.ts'
import { explained, openStore, type Store } from '../store/database.ts'
import { Spool } from '../store/spool.ts'
import type { Terminal } from './terminal.ts'

export interface Invocation {
  terminal: Terminal
  environment: Record<string, string | undefined>
  /** --config as given. */
  configFile: string | undefined
}

export const SYSTEM_CONFIG = '/etc/postrider/postrider.toml'

/** The configuration file in use: --config, $POSTRIDER_CONFIG, ./postrider.toml, the system's; undefined = defaults. */
export function findConfig({ configFile, environment }: Invocation): string | undefined {
  const named = configFile ?? environment['POSTRIDER_CONFIG']
  return named ?? ['./postrider.toml', SYSTEM_CONFIG].find((file) => existsSync(file))
}

export function configOf(invocation: Invocation): Config {
  return loadConfig(findConfig(invocation), invocation.environment)
}

export interface Desk {
  config: Config
  clock: Clock
  store: Store
  spool: Spool
  keyring: Keyring
  resolver: Resolver
  log: Log
  /** A running server notices by itself; a command has no loops to ring. */
  ring: () => void
}

/** Opens the data directory for one command and closes it afterwards. Throws an OperatorError. */
export async function withDesk<T>(invocation: Invocation, work: (desk: Desk) => Promise<T> | T): Promise<T> {
  const config = configOf(invocation)
  const store = openStore(config.data_dir)
  try {
    return await work({
      config,
      clock: systemClock,
      store,
      spool: new Spool(config.data_dir),
      keyring: openKeyring(config.data_dir),
      resolver: createResolver({ servers: config.dns.servers }),
      log: silentLog,
      ring: () => {},
    })
  } catch (thrown) {
    throw explained(thrown, config.data_dir)
  } finally {
    store.close()
  }
}

/** The log of a server: JSON lines, or text where a person looks on. */
export function serverLog(terminal: Terminal, level: Config['log']['level'], write = terminal.out): Log {
  return createLog({ clock: systemClock, level, form: terminal.interactive && !terminal.json ? 'text' : 'json', write })
}

/** A password from standard input: its first line. Throws an OperatorError when it is empty. */
export async function readPassword(): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin) text += chunk
  const [line = ''] = text.split(/\r?\n/)
  if (line.length < 8) throw new OperatorError('The password on standard input must have at least 8 characters.')
  return line
}
