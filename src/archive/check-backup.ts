// Read-only commands: `restore --list` and `backup list` print the stored backups, `restore --check` and
// `backup drill` restore one into a temporary folder. They start no server and send no email. The folder is deleted by
// its process, by the signal that stops it, or by the next command.
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { forTerminal } from '../base/clean-text.ts'
import { iso, SECOND, systemClock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { freeOn, reserveOf } from '../base/space.ts'
import { counted } from '../base/text.ts'
import { answer, table, type Terminal } from '../views/command/terminal.ts'
import { countsIn } from '../store/copy.ts'
import { holdCopies, withFolder } from '../store/leftovers.ts'
import { DATABASE } from '../store/open.ts'
import {
  backupsAt,
  sizeOfAll,
  WITHOUT_MANIFEST,
  type Manifest,
  type BackupSelection,
  type StoredBackup,
} from './catalog.ts'
import { type Destination } from './destinations/destination.ts'
import { listed } from './integrity.ts'
import { identitiesOf } from './recipients.ts'
import { mergeLedgers, type LedgerWishes } from './restore-ledgers.ts'
import {
  destinationFrom,
  isDestination,
  sourceAt,
  sourceOf,
  verifyBytes,
  type Source,
  type RestoreDeps,
} from './source.ts'
import { transferOn } from './transfer.ts'
import { unpackBackup } from './unpacked-backup.ts'

/** Options of the commands that read a backup. */
export interface FromOptions {
  identity?: string
  /** The secret keys in the file of --identity. */
  identities?: string[]
  at?: string
  installation?: string
  workDir?: string
  /** Accepts corrupt data. */
  force?: true
}

/** A day, or a time with its zone, because one without is another time on each machine. */
const TIME = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?$/i

/** NaN if it is not a time, such as a day that its month does not have. */
function timeOf(text: string): number {
  const day = TIME.exec(text)?.[1]
  const isDay = day !== undefined && new Date(Date.parse(day) || 0).toISOString().startsWith(day)
  return isDay ? Date.parse(text) : NaN
}

/** Throws an OperatorError for an invalid time or installation. */
export function selectionOf({ at, installation }: FromOptions): BackupSelection {
  const time = at === undefined ? undefined : timeOf(at)
  if (Number.isNaN(time))
    throw new OperatorError(`--at "${at?.slice(0, 40)}" is not a time; use one such as 2026-01-15T12:00:00Z.`)
  if (installation !== undefined && !/^[0-9a-f]{4,32}$/i.test(installation))
    throw new OperatorError(
      `--installation "${installation.slice(0, 40)}" is not an installation id; use 4 to 32 digits of one that "postrider restore --list" prints.`,
    )
  return { at: time, installation: installation?.toLowerCase() }
}

export const sourceDeps = (terminal: Terminal, config: Config, { identities }: FromOptions): RestoreDeps => ({
  config,
  clock: systemClock,
  terminal,
  identities: identities ?? identitiesOf(config.backup.identity_file),
})

/** Reads the file of --identity before root becomes the owner of the data directory. Throws an OperatorError. */
export const withIdentities = <Options extends FromOptions>(options: Options): Options =>
  options.identity === undefined ? options : { ...options, identities: identitiesOf(options.identity) }

/** The configured copies of the erasure log. */
export const copiesOf = ({ privacy }: Pick<Config, 'privacy'>): string[] =>
  privacy.ledger_copy === '' ? [] : [privacy.ledger_copy]

const sizeText = (bytes: number): string =>
  bytes < 1e7 ? `${Math.ceil(bytes / 1e3)} kB` : `${Math.round(bytes / 1e6)} MB`

interface ListedBackup extends StoredBackup {
  target: string
}

/** Prints the backups, and these sentences. */
export function printBackups(terminal: Terminal, all: readonly ListedBackup[], more: readonly string[] = []): void {
  const document = all.map(({ at, ...rest }) => ({ ...rest, at: iso(at) }))
  const incomplete = all.find(({ complete }) => !complete)
  const missing = incomplete && `${incomplete.name}.json is missing; ${WITHOUT_MANIFEST}.`
  const notes = [...(missing ? [missing] : []), ...more].map((note) => `\n${note}`).join('')
  const rows = all.map((each) => [
    iso(each.at),
    sizeText(each.size),
    each.complete ? (each.sealed ? 'encrypted' : 'not encrypted') : 'no manifest',
    each.fingerprint.slice(0, 8),
    each.target,
    each.name,
  ])
  const heads = ['MADE', 'SIZE', 'STATE', 'INSTALLATION', 'DESTINATION', 'NAME']
  answer(terminal, document, () => (all.length === 0 ? 'There are no backups.' : table(heads, rows)) + notes)
}

export async function listBackups(terminal: Terminal, config: Config, from: string): Promise<void> {
  if (!isDestination(from))
    throw new OperatorError(`${from.slice(0, 200)} is not a directory or destination; use one of these with --list.`)
  const destination = destinationFrom({ config, clock: systemClock }, from)
  try {
    const all = await backupsAt(destination)
    printBackups(
      terminal,
      all.map((each) => ({ ...each, target: destination.title })),
    )
  } finally {
    await destination.close()
  }
}

export interface CheckedBackup {
  name: string
  made_at: string | null
  /** Restored, or only read because it is encrypted and there is no secret key. */
  way: 'restored' | 'read'
  octets: number | null
  files: number | null
  /** Rows of all tables. */
  rows: number | null
  /** Erasures that a restore would repeat. */
  erasures: number | null
  seconds: number
  /** The corrupt data, in sentences. Empty without --force. */
  faults: string[]
  /** The parent of the temporary folder. */
  folder: string | null
}

type CheckOptions = Pick<FromOptions, 'force' | 'workDir'> & LedgerWishes

/** Restores a backup into a temporary folder. Throws an OperatorError if that fails. */
export async function check(
  deps: RestoreDeps,
  source: Source,
  { force, ledger, withoutLedger, workDir }: CheckOptions = {},
): Promise<CheckedBackup> {
  const { clock, config } = deps
  const { data_dir: dataDir } = config
  const began = clock.elapsed()
  const hasData = existsSync(join(dataDir, DATABASE))
  const release = hasData ? holdCopies(dataDir) : (): void => {}
  try {
    const parent = parentFor(dataDir, hasData, workDir)
    return await withFolder(parent, async (folder) => {
      const reserve = parent === dataDir ? reserveOf(config) : 0
      const { faults, files } = await unpackBackup(deps, source, { folder, reserve, force })
      const { rows } = countsIn(join(folder, DATABASE))
      // A restore requires an erasure log. A check only reads those that are named.
      const ledgers: LedgerWishes = ledger
        ? { ledger, ...(withoutLedger && { withoutLedger }) }
        : { withoutLedger: true }
      const erasures = mergeLedgers(dataDir, folder, ledgers, copiesOf(config))
      return {
        name: source.shown,
        made_at: source.manifest?.made_at ?? null,
        way: 'restored',
        octets: source.manifest ? sizeOfAll(source.manifest) : null,
        files,
        rows: Object.values(rows).reduce((all, one) => all + one, 0),
        erasures,
        seconds: (clock.elapsed() - began) / SECOND,
        faults,
        folder: parent,
      }
    })
  } finally {
    release()
  }
}

/** The disk of the data directory if it exists, or the one with more space, because /tmp may be in memory. */
function parentFor(dataDir: string, hasData: boolean, workDir: string | undefined): string {
  if (workDir !== undefined) return resolve(workDir)
  if (hasData) return dataDir
  const folders = [tmpdir(), '/var/tmp'].filter((each) => existsSync(each))
  return folders.reduce((one, other) => (freeOn(other) > freeOn(one) ? other : one), tmpdir())
}

/** As `check`. If the backup is encrypted and there is no secret key, its bytes are compared with the manifest. */
export async function checkAt(
  deps: RestoreDeps,
  destination: Destination,
  manifest: Manifest,
  options: CheckOptions,
): Promise<CheckedBackup> {
  if (deps.identities.length > 0 || manifest.recipients.length === 0)
    return check(deps, sourceAt(deps, destination, manifest), options)
  const began = deps.clock.elapsed()
  const octets = sizeOfAll(manifest)
  await verifyBytes(destination, manifest, transferOn(deps.terminal, deps.clock, octets))
  const { files, made_at, name } = manifest
  const seconds = (deps.clock.elapsed() - began) / SECOND
  return { name, made_at, way: 'read', octets, files, rows: null, erasures: null, seconds, faults: [], folder: null }
}

export const checkedText = (checked: CheckedBackup): string => {
  const { erasures, faults, files, folder, made_at, name, rows, seconds, way } = checked
  return way === 'read'
    ? `${name} (${made_at}) is unchanged, read in ${seconds.toFixed(1)} s. It is encrypted and was not opened, because no secret key is configured.`
    : `${name}${made_at === null ? '' : ` (${made_at})`} was test-restored into ${folder} and verified in ${seconds.toFixed(1)} s: ${counted(files ?? 0, 'file')}, ${counted(rows ?? 0, 'row')}, ${counted(erasures ?? 0, 'erasure')} to repeat. The installation is unchanged.${faults.length === 0 ? '' : ` Corrupt: ${listed(faults)}.`}`
}

export async function checkBackup(
  terminal: Terminal,
  config: Config,
  from: string,
  options: FromOptions & LedgerWishes,
): Promise<void> {
  const deps = sourceDeps(terminal, config, options)
  await using source = await sourceOf(deps, from, selectionOf(options))
  answer(terminal, await check(deps, source, options), (done) => forTerminal(checkedText(done)))
}
