// The data and services that a command uses. Commands open the data directory themselves, even while a server runs. The
// server notices their changes within a second.
import { existsSync } from 'node:fs'
import { forTerminalJson } from '../../base/clean-text.ts'
import { systemClock, type Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import { findConfig, HERE, type NamedConfig } from '../../base/config-file.ts'
import { demandKnownVariables, loadConfig, type Config } from '../../base/config.ts'
import type { Keyring } from '../../base/keyring.ts'
import { createLog, silentLog, type Log } from '../../base/log.ts'
import { asOwner, becomeOwner, refuseAnothers } from '../../base/ownership.ts'
import { openMark } from '../../base/set-up-mark.ts'
import { createResolver, type Resolver } from '../../net/resolver.ts'
import type { Store } from '../../store/database.ts'
import { settleExchange } from '../../store/exchange.ts'
import { demandInstallation, openInstance, type Instance, type InstanceOptions } from '../../store/instance.ts'
import { explained, openStore } from '../../store/open.ts'
import { auditCommand, namedUser, type TypedCommand } from '../../jsonapi/audit.ts'
import { raw } from '../../store/query.ts'
import { Spool } from '../../store/spool.ts'
import { forData, refuseSandboxData } from './sandbox-config.ts'
import { serverNames } from './server-names.ts'
import { isJournal, type Terminal } from './terminal.ts'

export interface Invocation {
  terminal: Terminal
  environment: Record<string, string | undefined>
  /** Whether stderr names the files in use. */
  verbose: boolean
  /** The value of --config. */
  configFile: string | undefined
  /** The command as it was typed, for the audit log. */
  typed?: TypedCommand | undefined
}

/** Prints a line on stderr, but the same line only once. */
function tell({ terminal }: Invocation, line: string): void {
  if (said.has(line)) return
  said.add(line)
  terminal.err(`postrider: ${line}\n`)
}

const said = new Set<string>()

/**
 * The configuration of a command, whose data directory may be empty or missing. Names that the file does not set are
 * those of the server (D122).
 */
export const settingsOf = (invocation: Invocation): Config =>
  forData(read(invocation, findConfig(invocation), { known: serverNames }))

/**
 * The same for a restore. `keepMark` is called after it: if the data directory is empty later, the configuration is not
 * new.
 */
export function settingsOfFormer(invocation: Invocation): { config: Config; keepMark: () => void } {
  let keepMark = (): void => {}
  const beforeOwner = (file: string | undefined, dataDir: string): void => void (keepMark = openMark(file, dataDir))
  const config = forData(read(invocation, findConfig(invocation), { known: serverNames, beforeOwner }))
  return { config, keepMark }
}

/** The configuration without its data directory, which may not be mounted here, or belong to another machine. */
export const settingsAlone = (named: NamedConfig): Config => loadConfig(findConfig(named), named.environment)

/** Runs work as the owner of the configured data directory (see `asOwner`). */
export const asConfiguredOwner = <T>(invocation: Invocation, work: () => Promise<T>): Promise<T> =>
  asOwner(loadConfig(findConfig(invocation), invocation.environment).data_dir, work)

/** The same for a command that needs an installation. Without one, it throws and changes no file. */
export function configOf(invocation: Invocation): Config {
  const config = settingsOf(invocation)
  demandInstallation(config.data_dir)
  return config
}

/**
 * The configuration of a server. An unknown POSTRIDER_* variable ends its start. `first`: a named file may still be
 * missing.
 */
export function ownConfigOf(invocation: Invocation, { first = false } = {}): Config {
  demandKnownVariables(invocation.environment)
  const file = findConfig(invocation)
  const config = read(invocation, first && file !== undefined && !existsSync(file) ? undefined : file)
  refuseSandboxData(config)
  return config
}

function read(
  invocation: Invocation,
  file: string | undefined,
  {
    beforeOwner,
    known,
  }: { beforeOwner?: (file: string | undefined, dataDir: string) => void; known?: typeof serverNames } = {},
): Config {
  const config = loadConfig(file, invocation.environment, known)
  if (file === HERE) refuseAnothers(HERE, config.data_dir)
  beforeOwner?.(file, config.data_dir)
  becomeOwner(config.data_dir)
  const settled = settleExchange(config.data_dir)
  if (settled !== undefined) tell(invocation, settled)
  if (invocation.verbose) tell(invocation, `configuration ${file ?? '(defaults)'}, data directory ${config.data_dir}`)
  else if (file === HERE) tell(invocation, `using ${HERE}`)
  return config
}

export interface Deps {
  config: Config
  clock: Clock
  store: Store
  spool: Spool
  keyring: Keyring
  resolver: Resolver
  log: Log
  /** Has no effect: a command has no loops, and a running server notices changes itself. */
  ring: () => void
}

/** Opens the data directory for one command and closes it afterwards. Throws an OperatorError. */
export async function withDeps<T>(
  invocation: Invocation,
  work: (deps: Deps) => Promise<T> | T,
  options: Pick<InstanceOptions, 'begins'> = {},
): Promise<T> {
  const config = options.begins === true ? settingsOf(invocation) : configOf(invocation)
  const { keyring, store } = opened(config.data_dir, options)
  const changes = (): number => store.one(raw<{ n: number }>('select total_changes() as n')).n
  const before = changes()
  const named = namedUser(store, invocation.typed?.subject)
  try {
    const result = await work({
      config,
      clock: systemClock,
      store,
      spool: new Spool(config.data_dir),
      keyring,
      resolver: createResolver({ servers: config.dns.servers }),
      log: silentLog,
      ring: () => {},
    })
    if (invocation.typed && changes() > before)
      await auditCommand(store, invocation.typed, systemClock.now(), named).catch((thrown: unknown) =>
        tell(invocation, `the change is stored, but not in the audit log: ${messageOf(thrown)}`),
      )
    return result
  } catch (thrown) {
    throw explained(thrown, config.data_dir)
  } finally {
    store.close()
  }
}

/**
 * Opens only the database, for commands that work even without the key, and closes it afterwards. Throws an
 * OperatorError.
 */
export async function withStore<T>(invocation: Invocation, work: (store: Store) => Promise<T> | T): Promise<T> {
  const { data_dir } = configOf(invocation)
  try {
    const store = openStore(data_dir)
    try {
      return await work(store)
    } finally {
      store.close()
    }
  } catch (thrown) {
    throw explained(thrown, data_dir)
  }
}

function opened(dataDir: string, options: InstanceOptions): Instance {
  try {
    return openInstance(dataDir, options)
  } catch (thrown) {
    throw explained(thrown, dataDir)
  }
}

/** The log of a server: JSON lines, or text on a terminal. */
export function serverLog(terminal: Terminal, level: Config['log']['level'], write = terminal.out): Log {
  const journal = isJournal(1)
  const text = terminal.interactive && !terminal.json && !journal
  return createLog({
    clock: systemClock,
    level,
    form: text ? 'text' : journal ? 'journal' : 'json',
    write: text ? write : (line) => write(forTerminalJson(line)),
  })
}
