// The data and services that a command works with. Commands open the data directory themselves, also while a server
// runs; the server notices their changes within a second.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { forTerminalJson } from '../base/clean-text.ts'
import { systemClock, type Clock } from '../base/clock.ts'
import { findConfig, HERE } from '../base/config-file.ts'
import { demandKnownVariables, loadConfig, type Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { execLine } from '../base/container.ts'
import { createLog, silentLog, type Log } from '../base/log.ts'
import { asCallerAt, becomeOwner, refuseAnothers } from '../base/ownership.ts'
import { createResolver, type Resolver } from '../net/resolver.ts'
import type { Store } from '../store/database.ts'
import { settleExchange } from '../store/exchange.ts'
import { openInstance, type Instance, type InstanceOptions } from '../store/instance.ts'
import { DATABASE, explained, openStore } from '../store/open.ts'
import { Spool } from '../store/spool.ts'
import { Prompt } from './prompt.ts'
import { serverNames } from './server-names.ts'
import { isJournal, type Terminal } from './terminal.ts'
import { SHORTEST_PASSWORD } from '../identity/users.ts'

export interface Invocation {
  terminal: Terminal
  environment: Record<string, string | undefined>
  /** Whether stderr names the files in use. */
  verbose: boolean
  /** The value of --config. */
  configFile: string | undefined
}

/** Prints a line on stderr; the same line only once. */
function tell({ terminal }: Invocation, line: string): void {
  if (said.has(line)) return
  said.add(line)
  terminal.err(`postrider: ${line}\n`)
}

const said = new Set<string>()

/** The configuration of a command; names that it does not set are those of the server (D122). */
export const configOf = (invocation: Invocation): Config => read(invocation, findConfig(invocation), serverNames)

/**
 * The configuration of a server. A variable that has no meaning ends its start. `first`: a named file may still be
 * missing.
 */
export function ownConfigOf(invocation: Invocation, { first = false } = {}): Config {
  demandKnownVariables(invocation.environment)
  const file = findConfig(invocation)
  return read(invocation, first && file !== undefined && !existsSync(file) ? undefined : file)
}

function read(invocation: Invocation, file: string | undefined, known?: typeof serverNames): Config {
  const load = (): Config => loadConfig(file, invocation.environment, known)
  const config = file === undefined ? load() : asCallerAt(file, load)
  if (file === HERE) refuseAnothers(HERE, config.data_dir)
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
  /** Does nothing: a command has no loops, and a running server notices changes itself. */
  ring: () => void
}

/** Opens the data directory for one command and closes it afterwards. Throws an OperatorError. */
export async function withDeps<T>(
  invocation: Invocation,
  work: (deps: Deps) => Promise<T> | T,
  options: Pick<InstanceOptions, 'begins'> = {},
): Promise<T> {
  const config = configOf(invocation)
  const { keyring, store } = opened(config.data_dir, options)
  try {
    return await work({
      config,
      clock: systemClock,
      store,
      spool: new Spool(config.data_dir),
      keyring,
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

/**
 * Opens the database alone, for what must also work while the key is missing, and closes it afterwards; a data
 * directory without a database is opened as `withDeps` does. Throws an OperatorError.
 */
export async function withStore<T>(invocation: Invocation, work: (store: Store) => Promise<T> | T): Promise<T> {
  const { data_dir } = configOf(invocation)
  if (!existsSync(join(data_dir, DATABASE))) return withDeps(invocation, ({ store }) => work(store))
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

/**
 * A password: asked for twice on a terminal, else the first line of standard input. `command` is what was typed. Throws
 * an OperatorError.
 */
export async function readPassword(command: string): Promise<string> {
  const password = process.stdin.isTTY ? await askPassword() : await firstLine(command)
  if (password.length < SHORTEST_PASSWORD)
    throw new OperatorError(`The password must have at least ${SHORTEST_PASSWORD} characters.`)
  return password
}

/** Of a password on standard input: more than any has. */
const MOST = 1024

async function askPassword(): Promise<string> {
  const prompt = new Prompt()
  try {
    const password = await prompt.secret(`New password (at least ${SHORTEST_PASSWORD} characters): `)
    if ((await prompt.secret('The same again: ')) !== password)
      throw new OperatorError('These are two passwords; nothing was changed.')
    return password
  } finally {
    prompt.close()
  }
}

/** It ends with the line: a person who types it without a terminal of the process knows no end of input. */
async function firstLine(command: string): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    // What follows is not read: it may have no end.
    if (text.includes('\n') || text.length > MOST) break
  }
  const line = text.split(/\r?\n/)[0] ?? ''
  if (line.length > MOST) throw new OperatorError(`The password must have at most ${MOST} characters.`)
  if (line === '')
    throw new OperatorError(
      `No password came on standard input: run "${execLine(command, 'asks')}" on a terminal, which asks for it, or pipe it with "${execLine(command, 'reads')} <FILE".`,
    )
  return line
}
