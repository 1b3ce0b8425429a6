// The addresses that were erased since a backup was made (D67): which ledgers list them, which installation each
// belongs to, and its last date. Only a ledger of the backup's own installation that goes as far as the backup counts
// as known.
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { iso, systemClock } from '../base/clock.ts'
import { syncFile } from '../base/durable.ts'
import { OperatorError } from '../base/errors.ts'
import { KEY_FILE, openKeyring } from '../base/keyring.ts'
import { fingerprintOf, isMark, LEDGER, readContent, textOf, type Line, type Mark } from '../privacy/ledger.ts'
import { holdsUser } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'

export interface LedgerWishes {
  /** Files that the operator names. */
  ledger?: string[]
  withoutLedger?: true
}

/** What a ledger is to a backup. */
interface Judged {
  lines: Line[]
  /** Why it does not say who was forgotten since the backup; undefined when it does. */
  lacks?: string
}

interface Backup {
  /** Where it was unpacked. */
  place: string
  /** Of its key. */
  owner: string
  lines: Line[]
  /** Until when its ledger goes, ISO 8601; undefined for a backup of before there were marks. */
  until: string | undefined
}

const FOREIGN = 'belongs to another installation'

/**
 * Writes all known erasures into the ledger beside an unpacked database; returns how many. `copies` are the configured
 * copies of the ledger. Throws an OperatorError for a named file that is no ledger or another installation's, and where
 * no ledger tells which addresses were erased since.
 */
export function mergeLedgers(dataDir: string, place: string, wishes: LedgerWishes, copies: readonly string[]): number {
  const backup = backupIn(place)
  const named = (wishes.ledger ?? []).map((each) => resolve(each))
  for (const each of named) if (!existsSync(each)) throw new OperatorError(`The ledger ${each} is not there.`)
  const found = [join(dataDir, LEDGER), ...setAsides(dataDir), ...copies].filter((each) => existsSync(each))
  const judged = [...found, ...named].map((path) => {
    const isNamed = named.includes(path)
    const { foreign, lines } = readContent(path)
    if (foreign.length > 0 && (isNamed || !wishes.withoutLedger))
      throw new OperatorError(`${path} is no ledger of erasures, or damaged: line ${foreign[0]} is no entry.`)
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

/** The ledgers of what was moved aside in a data directory. */
function setAsides(dataDir: string): string[] {
  const names = existsSync(dataDir) ? readdirSync(dataDir) : []
  return names.filter((name) => name.startsWith('set-aside-')).map((name) => join(dataDir, name, LEDGER))
}

function unknown(dataDir: string, judged: readonly { path: string; lacks?: string }[]): string {
  const why =
    judged.length === 0
      ? `${dataDir} has no ledger of erasures`
      : judged.map(({ lacks, path }) => `the ledger ${path} ${lacks}`).join(', ')
  return `${why[0]!.toUpperCase()}${why.slice(1)}, so it is unknown which addresses were erased since the backup; name the one of the installation that made it with --ledger (erasures.ledger in its data directory), or say --without-ledger.`
}

function backupIn(place: string): Backup {
  const { foreign, lines } = readContent(join(place, LEDGER))
  if (foreign.length > 0)
    throw new OperatorError(`The ledger of erasures in the backup is damaged: line ${foreign[0]} is no entry.`)
  const owner = fingerprintOf(openKeyring(place))
  return { place, owner, lines, until: untilOf(owner, lines) }
}

/** The last date in a ledger that bears marks of its owner. */
function untilOf(owner: string, lines: readonly Line[]): string | undefined {
  if (!lines.some((line) => isMark(line) && line.ledger === owner)) return undefined
  return lines.map(({ at }) => at).reduce((one, other) => (other > one ? other : one))
}

function judge(backup: Backup, path: string, lines: readonly Line[]): Judged {
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
 * What belongs to an installation: what follows its marks, and what stood there before the first mark if that is its
 * own.
 */
function linesOf(owner: string, lines: readonly Line[]): Line[] {
  let of = lines.find(isMark)?.ledger
  return lines.filter((line) => {
    if (isMark(line)) of = line.ledger
    return of === owner
  })
}

/**
 * A ledger of before there were marks says by the key beside it whose it is, or by the accounts that its entries name.
 */
function judgeUnmarked(backup: Backup, path: string, lines: readonly Line[]): Judged {
  const beside = dirname(path)
  const keyed = existsSync(join(beside, KEY_FILE)) ? fingerprintOf(openKeyring(beside)) === backup.owner : undefined
  if (keyed === false) return { lines: [], lacks: FOREIGN }
  const users = lines.flatMap((line) => (isMark(line) ? [] : [line.user]))
  if (keyed === undefined && !holdsUser(join(backup.place, DATABASE), users))
    return { lines: [], lacks: 'does not say whose it is' }
  const there = new Set(lines.map((line) => textOf([line])))
  // Backups of today bear marks, and so would a ledger that goes on after one.
  const older = backup.until !== undefined || backup.lines.some((line) => !there.has(textOf([line])))
  return older ? { lines: [...lines], lacks: 'is older than the backup' } : { lines: [...lines] }
}
