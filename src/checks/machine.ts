// Finders of the machine itself: configuration, data directory, clock, database, disk.
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { iso, MINUTE, SECOND, SET_BACK, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { inImage } from '../base/config-file.ts'
import { execLine } from '../base/container.ts'
import { GAP, readSign, sentenceOf } from '../base/doubt.ts'
import { keyFault } from '../base/keyring.ts'
import { FEW_INODES, freeInodesOn, freeOn } from '../base/space.ts'
import { restartNeeded } from '../base/served.ts'
import { capital, counted, span } from '../base/text.ts'
import type { Troubles } from '../base/trouble.ts'
import { unusable, whyUnusable } from '../base/unusable.ts'
import { fail, fixedBy, ok, warn, type Finder, type FinderDeps, type Finding } from '../parts/findings/finding.ts'
import { FIXES } from '../parts/findings/problems.ts'
import { clockOffset } from '../net/time-server.ts'
import type { Reader } from '../store/database.ts'
import { keyFaultBeside } from '../store/instance.ts'
import { quickFaults } from '../store/integrity.ts'
import { holdersOf, holderText, LONG_LOG } from '../store/log.ts'
import { DATABASE } from '../store/open.ts'
import { db } from '../store/query.ts'
import { heldDetail, heldSince, isUnknown } from '../store/serving.ts'
import { deviceOf, fileSystemOf, lostWith, type FileSystem } from '../store/volume.ts'
import { sizeOf } from './figures.ts'

const MB = 1024 * 1024
/** Free space: below the first limit email will soon be rejected, below the second the operator should act. */
const SCARCE = 200 * MB
const LITTLE = 2048 * MB
/** Clock errors that are reported: receiving servers distrust a DKIM signature with a wrong time. */
const OFF = 5 * SECOND
const FAR_OFF = 300 * SECOND

/** Reserved top-level domains, which are not in public DNS. */
const RESERVED = ['example', 'invalid', 'local', 'localhost', 'test']

/** Whether the configuration can work. Its syntax was checked before. `from` is its file, if known. */
function configFinding(config: Config, from?: string): Finding {
  const id = 'configuration'
  const withFile = (text: string): string => (from === undefined ? text : `${from}; ${text}`)
  const reserved = RESERVED.find((name) => config.hostname.endsWith(`.${name}`))
  if (!config.hostname.includes('.') || reserved !== undefined)
    return fixedBy(
      'hostname',
      'Receiving servers may reject email from this server.',
      warn(
        id,
        withFile(
          `the hostname "${config.hostname}" ${reserved === undefined ? 'is not fully qualified' : `ends in ".${reserved}", which does not exist in public DNS`}`,
        ),
        'Set "hostname" to the public DNS name of this server, such as mx.example.org.',
      ),
    )
  const { hostname, protocol } = new URL(config.http.public_url)
  if (protocol !== 'https:')
    return warn(
      id,
      withFile(`public_url is ${config.http.public_url}`),
      /^(?:127\.|localhost$|\[::1\])/.test(hostname)
        ? 'Set "http.public_url" to the https URL of this server. Links in emails use it.'
        : 'Set "http.public_url" to an https URL, because clients send tokens and passwords to it.',
    )
  return ok(id, from ?? 'no problems')
}

/** Returns a finding if a reload changed settings that need a restart. */
export const restartFindings = (names: readonly string[]): Finding[] =>
  names.length === 0
    ? []
    : [
        warn(
          'restart',
          `the server still uses the previous ${names.length === 1 ? 'value' : 'values'} of ${names.join(', ')}, which need${names.length === 1 ? 's' : ''} a restart`,
          'Restart it: "systemctl restart postrider".',
        ),
      ]

function dataDirFinding({ data_dir }: Config): Finding {
  const id = 'data directory'
  if (!existsSync(data_dir)) return warn(id, `${data_dir} does not exist yet`, 'Run "postrider init" to create it.')
  try {
    accessSync(data_dir, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (thrown) {
    const { fix, what } = unusable(whyUnusable(thrown, data_dir) ?? 'not ours', data_dir)
    return fail(id, what, `${capital(fix)}.`)
  }
  // A directory without access for others protects all its files.
  const isOpen = (path: string): boolean => existsSync(path) && (statSync(path).mode & 0o007) !== 0
  const open = isOpen(data_dir)
    ? ['', 'instance.key', 'postrider.db'].map((name) => join(data_dir, name)).filter(isOpen)
    : []
  if (open.length > 0)
    return warn(id, `other users of this machine can read ${open.join(', ')}`, `Run "chmod o-rwx ${open.join(' ')}".`)
  const device = deviceOf(data_dir)
  if (!device) return ok(id, data_dir)
  const { copies, fileSystem, kind = 'disk', name } = device
  const summary = `${data_dir} on ${name} (${[kind, fileSystem, copies ?? []].flat().join(', ')})`
  if (copies === undefined || /^UpToDate\/UpToDate$/.test(copies)) return ok(id, summary)
  return warn(id, summary, 'Connect the other machine: until both copies are up to date, it cannot take over.')
}

/** Returns a finding if the queue is on hold because another machine or a copy used this data last. */
function queueFindings({ data_dir }: Config): Finding[] {
  const from = existsSync(join(data_dir, DATABASE)) ? heldSince(data_dir) : undefined
  if (from === undefined) return []
  return [
    fail(
      'queue',
      `the queue is held: ${heldDetail(from)}`,
      `${isUnknown(from) ? 'Check that no other server uses this data' : 'Stop that server'}, then run "${execLine('adopt')}".`,
    ),
  ]
}

/** Whether there is a user. Without one, the server cannot send or receive email. */
export const isSetUp = (store: Reader): boolean =>
  store.first(db.selectFrom('users').select('key').limit(1)) !== undefined

/** Returns a finding if there is no user, or if the hostname is not fully qualified. */
export function setUpFindings(store: Reader, { hostname }: Pick<Config, 'hostname'>, image = inImage()): Finding[] {
  const id = 'set-up'
  if (!isSetUp(store))
    return [
      warn(
        id,
        'this server has no user and no domain yet',
        image
          ? `Start the container with POSTRIDER_HOSTNAME, POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL, or run "${execLine('init', 'asks')}" and restart it.`
          : 'Run "postrider init", then restart the server.',
      ),
    ]
  if (hostname.includes('.')) return []
  return [
    warn(
      id,
      `the hostname "${hostname}" is not fully qualified, so receiving servers reject email`,
      image
        ? 'Start the container with POSTRIDER_HOSTNAME set to a name such as mx.example.org.'
        : 'Set "hostname" (or POSTRIDER_HOSTNAME) to a name such as mx.example.org, then restart the server.',
    ),
  ]
}

/** Checks whether the key belongs to the database: in the server, whether the file still contains the key in use. */
function keyFindings({ config: { data_dir }, running, store }: FinderDeps): Finding[] {
  const id = 'installation key'
  if (!running && !store) return []
  const fault = running ? keyFault(data_dir, running.keyring) : keyFaultBeside(store!, data_dir)
  if (fault !== undefined) return [fail(id, fault, FIXES.key)]
  return [ok(id, running ? 'the file contains the key that the server uses' : 'the key belongs to the database')]
}

async function clockFinding(clock: Clock, server: { host: string; port: number }): Promise<Finding> {
  const id = 'clock'
  const offset = await clockOffset(clock, server)
  if (offset === undefined)
    return warn(
      id,
      `no answer from the time server ${server.host}`,
      'Open outgoing UDP port 123, or use another server with --time-server. Check that NTP keeps the clock correct.',
    )
  const off = `${(Math.abs(offset) / SECOND).toFixed(2)} s ${offset > 0 ? 'behind' : 'ahead'}`
  const fix = 'Synchronise the clock by NTP ("timedatectl set-ntp true").'
  if (Math.abs(offset) > FAR_OFF) return fail(id, `${off}, so signatures and tokens will be rejected`, fix)
  return Math.abs(offset) > OFF ? warn(id, off, fix) : ok(id, off)
}

/** Checks whether the server doubts the date, from its note in the data directory (D120). */
export function dateFinding({ data_dir }: Pick<Config, 'data_dir'>, now: number): Finding {
  const id = 'date'
  const sign = readSign(data_dir)
  if (sign === undefined) return ok(id, 'not checked, because the server has not run yet')
  if (sign.doubted) return warn(id, sentenceOf(sign.doubted), FIXES.date)
  if (sign.seen - now > SET_BACK)
    return warn(id, `${span(sign.seen - now)} before the last run of the server`, FIXES.date)
  if (now - sign.seen >= GAP) return ok(id, `${span(now - sign.seen)} after the last run of the server`)
  return ok(id, `plausible (last run of the server: ${iso(sign.seen)})`)
}

const DATABASE_ID = 'database'

/** Checks whether the database of a data directory, if there is one, is consistent. Reads the whole file. */
export function databaseFindings({ data_dir }: Pick<Config, 'data_dir'>): Finding[] {
  if (!existsSync(join(data_dir, DATABASE))) return []
  const [fault, ...more] = quickFaults(data_dir)
  if (fault === undefined) return [ok(DATABASE_ID, 'SQLite quick_check finds no errors')]
  const others = more.length === 0 ? '' : `, and ${more.length} more`
  return [fail(DATABASE_ID, `corrupt: ${fault}${others}`, FIXES.damage)]
}

/** The same from the problems of the running server, which checks the database itself. */
const integrityFindings = (troubles: Pick<Troubles, 'list'>): Finding[] =>
  troubles
    .list()
    .filter(({ name }) => name === 'integrity' || name === 'files')
    .map(({ sentence }) => fail(DATABASE_ID, sentence.replace(/\.$/, ''), FIXES.damage))

function diskFinding({ data_dir }: Config): Finding {
  const id = 'disk'
  let path = data_dir
  while (!existsSync(path)) path = dirname(path)
  const free = freeOn(path)
  const inodes = freeInodesOn(path)
  const summary = `${free < 1e10 ? `${Math.round(free / 1e6)} MB` : `${(free / 1e9).toFixed(1)} GB`} free at ${path}`
  if (free < SCARCE) return fail(id, summary, FIXES.disk)
  if (inodes < FEW_INODES) return fail(id, `only ${counted(inodes, 'inode')} free at ${path}`, FIXES.disk)
  return free < LITTLE ? warn(id, summary, FIXES.disk) : ok(id, summary)
}

/**
 * Checks the write-ahead log and names the process that keeps it from being reset. Only the server knows `heldFor`
 * (ms). Without it, the age of the process is used.
 */
export function logFinding({ data_dir }: Pick<Config, 'data_dir'>, heldFor?: number): Finding {
  const id = 'write-ahead log'
  const file = join(data_dir, DATABASE)
  const bytes = sizeOf(`${file}-wal`)
  const holders = holdersOf(file).map(holderText)
  const by = holders.length === 0 ? '' : `, the database is open in ${holders.join(', ')}`
  const age = heldFor ? `, the oldest reader is open for ${span(heldFor)}` : ''
  const summary = `${Math.round(bytes / 1e6)} MB${by}${age}`
  return bytes <= LONG_LOG
    ? ok(id, summary)
    : warn(
        id,
        summary,
        holders.length === 0
          ? 'It shrinks at the next write, unless another process reads the database.'
          : 'Stop the process that reads the database. Until then the log grows and erasures are delayed.',
      )
}

/** Returns a finding if the data directory is on a file system that does not keep it. */
export function fileSystemFindings(
  { data_dir }: Pick<Config, 'data_dir'>,
  kind: FileSystem | undefined = fileSystemOf(data_dir),
): Finding[] {
  const id = 'file system'
  if (kind === undefined) return []
  const lost = lostWith(kind)
  if (lost !== undefined)
    return [
      warn(id, `data in ${data_dir} is not permanent, because it is in ${lost}`, `Mount a volume at ${data_dir}.`),
    ]
  return [fail(id, `${data_dir} is on ${kind}, which does not support database locks`, 'Move it to a local disk.')]
}

export const machineFinders: readonly Finder[] = [
  { find: ({ config, doctor }) => [configFinding(config, doctor?.configFile)] },
  { find: ({ config, running }) => restartFindings(running ? [...running.restart] : restartNeeded(config.data_dir)) },
  { effect: 'The data directory is not usable.', find: ({ config }) => [dataDirFinding(config)] },
  { find: ({ config }) => queueFindings(config) },
  { runs: 'doctor', find: ({ config, store }) => (store ? setUpFindings(store, config) : []) },
  {
    effect: 'The disk is almost full: this server will soon reject email.',
    alert: { subject: 'disk', lasts: MINUTE },
    find: ({ config }) => [diskFinding(config)],
  },
  { find: ({ config, running }) => (running ? integrityFindings(running.troubles) : databaseFindings(config)) },
  {
    effect: 'The installation key is missing: after a restart, this server cannot decrypt its secrets.',
    find: keyFindings,
  },
  {
    find: ({ clock, config, running, store }) => [
      logFinding(config, running && store ? store.logHeldFor(clock.now()) : undefined),
    ],
  },
  { find: ({ clock, config }) => [dateFinding(config, clock.now())] },
  { runs: 'doctor', find: ({ config }) => fileSystemFindings(config) },
  {
    runs: 'doctor',
    find: async ({ clock, doctor }) => (doctor ? [await clockFinding(clock, doctor.timeServer)] : []),
  },
]
