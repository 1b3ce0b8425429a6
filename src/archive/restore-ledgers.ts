// The addresses that were erased after a backup was made (D67): the ledgers that list them, the installation of each
// ledger, and its last date. A ledger is complete for a backup only when it is of the same installation and reaches at
// least to the time of the backup.
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { iso, systemClock } from '../base/clock.ts'
import { syncFile } from '../base/durable.ts'
import { OperatorError } from '../base/errors.ts'
import { KEY_FILE, openKeyring } from '../base/keyring.ts'
import { fingerprintOf, isMark, LEDGER, readContent, textOf, type Line, type Mark } from '../privacy/ledger.ts'
import { holdsUser } from '../store/copy.ts'
import { isAside } from '../store/exchange.ts'
import { DATABASE } from '../store/open.ts'

export interface LedgerWishes {
  /** Files that the operator names. */
  ledger?: string[]
  withoutLedger?: true
}

/** The result of comparing a ledger with a backup. */
interface JudgedLedger {
  lines: Line[]
  /** Why the ledger may lack erasures since the backup, or undefined if it is complete. */
  lacks?: string
}

interface Backup {
  /** The folder where the backup was unpacked. */
  place: string
  /** The fingerprint of the backup's key. */
  owner: string
  lines: Line[]
  /** The last date in the backup's ledger, ISO 8601, or undefined for an old backup without marks. */
  until: string | undefined
}

const FOREIGN = 'belongs to another installation'

/**
 * Writes all known erasures into the ledger beside an unpacked database. Returns their number. `copies` are the
 * configured copies of the ledger. Throws an OperatorError for a named file that is not a ledger or belongs to another
 * installation, and when no ledger is complete since the backup.
 */
export function mergeLedgers(dataDir: string, place: string, wishes: LedgerWishes, copies: readonly string[]): number {
  const backup = backupIn(place)
  const judged = ledgersHere(dataDir, wishes, copies).map(({ isNamed, lines, path }) => {
    const judgement = judge(backup, path, lines)
    if (isNamed && judgement.lacks === FOREIGN) throw new OperatorError(foreignSentence(path))
    return { path, ...judgement }
  })
  const known = judged.some(({ lacks }) => lacks === undefined)
  if (!known && !wishes.withoutLedger) throw new OperatorError(unknown(dataDir, judged))
  const gap: Mark[] = known ? [] : [{ ledger: backup.owner, at: iso(systemClock.now()), gap: true }]
  const lines = new Map(
    [...backup.lines, ...judged.flatMap((each) => each.lines), ...gap].map((each) => [textOf([each]), each]),
  )
  writeFileSync(join(place, LEDGER), [...lines.keys()].join(''), { mode: 0o600 })
  syncFile(join(place, LEDGER))
  return [...lines.values()].filter((line) => !isMark(line)).length
}

/**
 * Before a backup is fetched, throws the errors that `mergeLedgers` would throw after it, as far as they are known.
 * `owner` is the fingerprint of the backup's installation, or undefined if only the backup contains it.
 */
export function demandLedgers(
  dataDir: string,
  owner: string | undefined,
  wishes: LedgerWishes,
  copies: readonly string[],
): void {
  const judged = ledgersHere(dataDir, wishes, copies).map(({ isNamed, lines, path }) => {
    const isForeign = owner !== undefined && lines.some(isMark) && untilOf(owner, lines) === undefined
    if (isNamed && isForeign) throw new OperatorError(foreignSentence(path))
    return { path, ...(isForeign && { lacks: FOREIGN }) }
  })
  if (!wishes.withoutLedger && judged.every(({ lacks }) => lacks !== undefined))
    throw new OperatorError(unknown(dataDir, judged))
}

interface FoundLedger {
  path: string
  isNamed: boolean
  lines: Line[]
}

/** The ledgers of a restore: of the data directory, the copies, and those that are named. Throws an OperatorError. */
function ledgersHere(dataDir: string, wishes: LedgerWishes, copies: readonly string[]): FoundLedger[] {
  const named = (wishes.ledger ?? []).map((each) => resolve(each))
  for (const each of named)
    if (!existsSync(each)) throw new OperatorError(`The erasure log ${each} does not exist; check the path.`)
  const found = [join(dataDir, LEDGER), ...setAsides(dataDir), ...copies].filter((each) => existsSync(each))
  return [...found, ...named].map((path) => {
    const isNamed = named.includes(path)
    const { foreign, lines } = readContent(path)
    if (foreign !== undefined && (isNamed || !wishes.withoutLedger))
      throw new OperatorError(
        `${path} is not an erasure log, or is corrupt at line ${foreign}; use another copy of erasures.ledger.`,
      )
    return { path, isNamed, lines }
  })
}

const foreignSentence = (path: string): string =>
  `The erasure log ${path} ${FOREIGN} than the backup; use the one of the same installation.`

/** The ledgers in the folders of earlier data that was moved aside in a data directory. */
function setAsides(dataDir: string): string[] {
  const names = existsSync(dataDir) ? readdirSync(dataDir) : []
  return names.filter(isAside).map((name) => join(dataDir, name, LEDGER))
}

function unknown(dataDir: string, judged: readonly { path: string; lacks?: string }[]): string {
  const why =
    judged.length === 0
      ? `${dataDir} has no erasure log`
      : judged.map(({ lacks, path }) => `the erasure log ${path} ${lacks}`).join(', ')
  return `${why.charAt(0).toUpperCase()}${why.slice(1)}, so it is unknown which addresses were erased since the backup; add --ledger with the erasures.ledger from the data directory of that installation, or --without-ledger.`
}

function backupIn(place: string): Backup {
  const { foreign, lines } = readContent(join(place, LEDGER))
  if (foreign !== undefined)
    throw new OperatorError(`The erasure log in the backup is corrupt at line ${foreign}; use another backup.`)
  const owner = fingerprintOf(openKeyring(place))
  return { place, owner, lines, until: untilOf(owner, lines) }
}

/** The last date in a ledger that has marks of its owner. */
function untilOf(owner: string, lines: readonly Line[]): string | undefined {
  if (!lines.some((line) => isMark(line) && line.ledger === owner)) return undefined
  return lines.map(({ at }) => at).reduce((one, other) => (other > one ? other : one))
}

function judge(backup: Backup, path: string, lines: readonly Line[]): JudgedLedger {
  const marks = lines.filter(isMark)
  if (marks.length === 0) return judgeUnmarked(backup, path, lines)
  const own = linesOf(backup.owner, lines)
  const until = untilOf(backup.owner, own)
  if (until === undefined) return { lines: [], lacks: FOREIGN }
  if (backup.until !== undefined && until < backup.until) return { lines: own, lacks: 'is older than the backup' }
  const inBackup = new Set(backup.lines.map((line) => textOf([line])))
  const gap = own.find((line) => isMark(line) && line.gap === true && !inBackup.has(textOf([line])))
  return gap === undefined ? { lines: own } : { lines: own, lacks: `has a gap until ${gap.at}` }
}

/**
 * The lines of one installation: each line belongs to the installation of the last mark before it, and lines before the
 * first mark belong to the installation of the first mark.
 */
function linesOf(owner: string, lines: readonly Line[]): Line[] {
  let of = lines.find(isMark)?.ledger
  return lines.filter((line) => {
    if (isMark(line)) of = line.ledger
    return of === owner
  })
}

/** For an old ledger without marks, the owner is found by the key next to it, or by the accounts in its entries. */
function judgeUnmarked(backup: Backup, path: string, lines: readonly Line[]): JudgedLedger {
  const beside = dirname(path)
  const keyed = existsSync(join(beside, KEY_FILE)) ? fingerprintOf(openKeyring(beside)) === backup.owner : undefined
  if (keyed === false) return { lines: [], lacks: FOREIGN }
  const users = lines.flatMap((line) => (isMark(line) ? [] : [line.user]))
  if (keyed === undefined && !holdsUser(join(backup.place, DATABASE), users))
    return { lines: [], lacks: 'does not name its installation' }
  const there = new Set(lines.map((line) => textOf([line])))
  // A backup with marks is newer than a ledger without marks: a ledger in use after that backup would have marks too.
  const older = backup.until !== undefined || backup.lines.some((line) => !there.has(textOf([line])))
  return older ? { lines: [...lines], lacks: 'is older than the backup' } : { lines: [...lines] }
}
