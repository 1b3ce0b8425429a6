// What is looked at without a change: the backups at a place (`restore --list`, `backup list`), and whether one can be
// put back (`restore --check`, `backup drill`).
import { forTerminal } from '../base/clean-text.ts'
import { iso, SECOND, systemClock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { asCallerAt } from '../base/ownership.ts'
import { answer, table, type Terminal } from '../commands/terminal.ts'
import { resolve } from 'node:path'
import { backupsAt, type StoredBackup, type Manifest } from './catalog.ts'
import { provedAt, WITHOUT_MANIFEST, type FetchWishes } from './fetch.ts'
import { isTarget } from './place-of.ts'
import type { BackupPlace } from './places/place.ts'
import { listed } from './integrity.ts'
import { identitiesOf } from './recipients.ts'
import type { LedgerWishes } from './restore-ledgers.ts'
import { tryOut } from './scratch.ts'
import { isPlace, placeFrom, placeSource, sourceOf, type Source, type BackupSourceDeps } from './source.ts'
import { transferOn } from './transfer.ts'

export interface FromWishes {
  identity?: string
  at?: string
  installation?: string
  /** The folder in which it is put back on trial. */
  scratch?: string
  /** Although something in it is damaged. */
  force?: true
}

/** A day, or a time with its zone: what is without one is another time on each machine. */
const TIME = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?$/i

/** NaN for what is none, such as a day that its month does not have. */
function timeOf(text: string): number {
  const day = TIME.exec(text)?.[1]
  const isDay = day !== undefined && new Date(Date.parse(day) || 0).toISOString().startsWith(day)
  return isDay ? Date.parse(text) : NaN
}

/** The options of a command as wishes. Throws an OperatorError for a time or an installation that is none. */
export function fetchWishes({ at, installation }: FromWishes): FetchWishes {
  const time = at === undefined ? undefined : timeOf(at)
  if (Number.isNaN(time))
    throw new OperatorError(`"${at?.slice(0, 40)}" cannot be read as a time; write it as 2026-01-15T12:00:00Z.`)
  if (installation !== undefined && !/^[0-9a-f]{4,32}$/i.test(installation))
    throw new OperatorError(
      `"${installation.slice(0, 40)}" is not an installation; give 4 to 32 digits of what "postrider restore --list" shows.`,
    )
  return { at: time, installation: installation?.toLowerCase() }
}

export const sourceDeps = (terminal: Terminal, config: Config, { identity }: FromWishes): BackupSourceDeps => ({
  config,
  clock: systemClock,
  terminal,
  identities: identitiesOf(identity ?? config.backup.identity_file),
})

export const copiesOf = ({ privacy }: Pick<Config, 'privacy'>): string[] =>
  privacy.ledger_copy === '' ? [] : [privacy.ledger_copy]

const size = (octets: number): string =>
  octets < 1e7 ? `${Math.ceil(octets / 1e3)} kB` : `${Math.round(octets / 1e6)} MB`

interface Listed extends StoredBackup {
  target: string
}

/** Prints lists of backups of several places as one. */
export function printBackups(terminal: Terminal, all: readonly Listed[]): void {
  const document = all.map(({ at, ...rest }) => ({ ...rest, at: iso(at) }))
  const lone = all.find(({ complete }) => !complete)
  const note = lone === undefined ? '' : `\n${lone.name}.json is missing; ${WITHOUT_MANIFEST}.`
  answer(terminal, document, () =>
    all.length === 0
      ? 'There is no backup.'
      : table(
          ['made', 'size', 'state', 'installation', 'target', 'name'],
          all.map((each) => [
            iso(each.at),
            size(each.size),
            each.complete ? (each.sealed ? 'sealed' : 'open') : 'no manifest',
            each.fingerprint.slice(0, 8),
            each.target,
            each.name,
          ]),
        ) + note,
  )
}

export async function listBackups(terminal: Terminal, config: Config, from: string): Promise<void> {
  if (!isPlace(from))
    throw new OperatorError(`${from.slice(0, 200)} is neither a directory nor a target; --list looks at one of these.`)
  const place = placeFrom({ config, clock: systemClock }, from)
  try {
    const look = (): Promise<StoredBackup[]> => backupsAt(place)
    const all = await (isTarget(from) ? look() : asCallerAt(resolve(from), look))
    printBackups(
      terminal,
      all.map((each) => ({ ...each, target: place.title })),
    )
  } finally {
    await place.close()
  }
}

export interface Checked {
  name: string
  made_at: string | null
  /** Put back, or read alone because it is sealed and there is no secret key. */
  way: 'restored' | 'read'
  octets: number | null
  files: number | null
  rows: number | null
  erasures: number | null
  seconds: number
  /** The damage in it, in sentences; there is none but with --force. */
  faults: string[]
  /** Where it was put back. */
  folder: string | null
}

type CheckWishes = Pick<FromWishes, 'force' | 'scratch'> & LedgerWishes

/** Puts a backup back into a temporary folder. Throws an OperatorError when that cannot be done whole. */
export async function check(deps: BackupSourceDeps, source: Source, wishes: CheckWishes = {}): Promise<Checked> {
  const { clock, config } = deps
  const began = clock.elapsed()
  const { manifest, shown } = source
  const tried = await tryOut(deps, source, { ...wishes, copies: copiesOf(config) })
  return {
    name: shown,
    made_at: manifest?.made_at ?? null,
    way: 'restored',
    octets: manifest?.size ?? null,
    ...tried,
    seconds: (clock.elapsed() - began) / SECOND,
  }
}

/** As `check`; of a sealed backup without a secret key the octets are read and compared with what was sealed. */
export async function checkAt(
  deps: BackupSourceDeps,
  place: BackupPlace,
  manifest: Manifest,
  wishes: CheckWishes,
): Promise<Checked> {
  if (deps.identities.length > 0 || manifest.recipients.length === 0)
    return check(deps, placeSource(deps, place, manifest), wishes)
  const began = deps.clock.elapsed()
  await provedAt(place, manifest, transferOn(deps.terminal, deps.clock, manifest.size))
  const { files, made_at, name, size: octets } = manifest
  const seconds = (deps.clock.elapsed() - began) / SECOND
  return { name, made_at, way: 'read', octets, files, rows: null, erasures: null, seconds, faults: [], folder: null }
}

export const checkedText = ({ erasures, faults, files, folder, made_at, name, rows, seconds, way }: Checked): string =>
  way === 'read'
    ? `${name} is as it was written (${made_at}), read in ${seconds.toFixed(1)} s; it is sealed, and without a secret key it was not opened.`
    : `${name}${made_at === null ? '' : ` of ${made_at}`} was put back in a temporary folder in ${folder} and verified in ${seconds.toFixed(1)} s: ${files} files, ${rows} rows, ${erasures} known erasures to repeat. Nothing was changed.${faults.length === 0 ? '' : ` Damaged: ${listed(faults)}.`}`

export async function checkBackup(
  terminal: Terminal,
  config: Config,
  from: string,
  wishes: FromWishes & LedgerWishes,
): Promise<void> {
  const deps = sourceDeps(terminal, config, wishes)
  await using source = await sourceOf(deps, from, fetchWishes(wishes))
  answer(terminal, await check(deps, source, wishes), (done) => forTerminal(checkedText(done)))
}
