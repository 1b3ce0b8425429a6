// The addresses that were erased after a backup was made (D67): the ledgers that list them, the installation of each
// ledger, and its last date. A ledger is complete for a backup only when it is of the same installation and reaches at
// least to the time of the backup.
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { iso, systemClock } from '../base/clock.ts'
import { syncFile } from '../base/durable.ts'
import { OperatorError } from '../base/errors.ts'
import { KEY_FILE, openKeyring } from '../base/keyring.ts'
import { asCallerAt } from '../base/ownership.ts'
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
  /** Why the ledger cannot tell all erasures since the backup; undefined when it can. */
  lacks?: string
}

interface Backup {
  /** The folder where the backup was unpacked. */
  place: string
  /** The fingerprint of the backup's key. */
  owner: string
  lines: Line[]
  /** The last date in the backup's ledger, ISO 8601; undefined for an old backup without marks. */
  until: string | undefined
}

const FOREIGN = 'belongs to another installation'

/**
 * Writes all known erasures into the ledger beside an unpacked database; returns their number. `copies` are the
 * configured copies of the ledger. Throws an OperatorError for a named file that is not a ledger or belongs to another
 * installation, and when no ledger is complete since the backup.
 */
export function mergeLedgers(dataDir: string, place: string, wishes: LedgerWishes, copies: readonly string[]): number {
  const backup = backupIn(place)
  const named = (wishes.ledger ?? []).map((each) => resolve(each))
  for (const each of named)
    if (!asCallerAt(each, () => existsSync(each))) throw new OperatorError(`The ledger ${each} is not there.`)
  const found = [join(dataDir, LEDGER), ...setAsides(dataDir), ...copies].filter((each) => existsSync(each))
  const judged = [...found, ...named].map((path) => {
    const isNamed = named.includes(path)
    const { foreign, lines } = isNamed ? asCallerAt(path, () => readContent(path)) : readContent(path)
    if (foreign !== undefined && (isNamed || !wishes.withoutLedger))
      throw new OperatorError(`${path} is not a ledger of erasures, or damaged: line ${foreign} is not an entry.`)
    const judgement = judge(backup, path, lines)
    if (isNamed && judgement.lacks === FOREIGN)
      throw new OperatorError(`The ledger ${path} ${FOREIGN} than the backup; name the one of its own.`)
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

/** The ledgers in the folders of earlier data that was moved aside in a data directory. */
function setAsides(dataDir: string): string[] {
  const names = existsSync(dataDir) ? readdirSync(dataDir) : []
  return names.filter(isAside).map((name) => join(dataDir, name, LEDGER))
}

function unknown(dataDir: string, judged: readonly { path: string; lacks?: string }[]): string {
  const why =
    judged.length === 0
      ? `${dataDir} has no ledger of erasures`
      : judged.map(({ lacks, path }) => `the ledger ${path} ${lacks}`).join(', ')
  return `${why.charAt(0).toUpperCase()}${why.slice(1)}, so it is unknown which addresses were erased since the backup; name the one of the installation that made it with --ledger (erasures.ledger in its data directory), or say --without-ledger.`
}

function backupIn(place: string): Backup {
  const { foreign, lines } = readContent(join(place, LEDGER))
  if (foreign !== undefined)
    throw new OperatorError(`The ledger of erasures in the backup is damaged: line ${foreign} is not an entry.`)
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
  const told = new Set(backup.lines.map((line) => textOf([line])))
  const gap = own.find((line) => isMark(line) && line.gap === true && !told.has(textOf([line])))
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

/** For an old ledger without marks, the owner is found by the key beside it, or by the accounts in its entries. */
function judgeUnmarked(backup: Backup, path: string, lines: readonly Line[]): JudgedLedger {
  const beside = dirname(path)
  const keyed = existsSync(join(beside, KEY_FILE)) ? fingerprintOf(openKeyring(beside)) === backup.owner : undefined
  if (keyed === false) return { lines: [], lacks: FOREIGN }
  const users = lines.flatMap((line) => (isMark(line) ? [] : [line.user]))
  if (keyed === undefined && !holdsUser(join(backup.place, DATABASE), users))
    return { lines: [], lacks: 'does not say whose it is' }
  const there = new Set(lines.map((line) => textOf([line])))
  // A backup with marks is newer than a ledger without marks: a ledger in use after that backup would have marks too.
  const older = backup.until !== undefined || backup.lines.some((line) => !there.has(textOf([line])))
  return older ? { lines: [...lines], lacks: 'is older than the backup' } : { lines: [...lines] }
}
