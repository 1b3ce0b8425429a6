// `postrider upgrade --check`: another version is tried on a copy of this installation, beside the running server. The
// copy is a snapshot of the database with its key, ledger and spool; the other version migrates it, verifies it and
// answers reads of the API, without a port and without sending anything.
//
// Guarantees: what is run is what was verified, for it is copied first; the installation is not changed; the copy is
// removed, by a signal too.
import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  linkSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { makeDirectory } from '../base/durable.ts'
import { forTerminal } from '../base/clean-text.ts'
import { SECOND, systemClock } from '../base/clock.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { jsonOf, isObject } from '../base/json.ts'
import { asCallerAt } from '../base/ownership.ts'
import { openPlain, readPlain } from '../base/plain-file.ts'
import { itself, type OwnProgram } from '../base/installed.ts'
import { freeOn, reserveOf } from '../base/space.ts'
import { version } from '../base/version.ts'
import { migrations } from '../schema/migrations.ts'
import { copyDatabase, schemaIn } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { QUARANTINE } from '../store/spool.ts'
import { configOf, type Invocation } from '../commands/open.ts'
import { FILES } from './backup-archive.ts'
import { listed } from './integrity.ts'
import { holdCopies, withFolder } from '../store/leavings.ts'
import { beginningOf, programIn } from './program-in.ts'
import { releaseKey, SIGNATURE_OCTETS, SUMS_OCTETS, verifySums } from './signature.ts'
import { startTrial, type RunningTrial, type TrialRun } from './trial-run.ts'
import { isTrial, newerThan, type Trial } from './upgrade-trial.ts'

export interface UpgradeCheck {
  ready: boolean
  /** Why it is not ready; null when it is. */
  reason: string | null
  /** Null where this version tried itself. */
  file: string | null
  /** The version that the signature names; null when none was asked for. */
  signed: string | null
  version: string | null
  from: number | null
  schema: number | null
  seconds: number | null
  /** Octets that the upgrade takes for a while beside what is there, and what is free. */
  room: number
  free: number
  /** What its list of changes says of versions that are newer than the one in place. */
  changes: string[]
}

/** Tries the version in a file, or without one this version itself: that of a new image, beside the one in place. */
export async function checkUpgrade(
  now: Invocation,
  given: string | undefined,
  unsigned: boolean,
): Promise<UpgradeCheck> {
  const config = configOf(now)
  const { data_dir } = config
  const file = given === undefined ? null : resolve(given)
  const database = join(data_dir, DATABASE)
  if (!existsSync(database)) throw new OperatorError(`${data_dir} holds no database (${DATABASE}): nothing to try on.`)
  const tell = (sentence: string): void => now.terminal.err(`postrider: ${forTerminal(sentence)}\n`)
  // As a backup does: erasures wait for the end of the copy, and the server removes folders that nobody has locked.
  const release = holdCopies(data_dir)
  let trial: RunningTrial | undefined
  const endTrial = (): void => trial?.end()
  try {
    const free = freeOn(data_dir)
    demandRoom(data_dir, file, Math.max(0, free - reserveOf(config)))
    const run = async (place: string): Promise<UpgradeCheck> => {
      const { program, signed } =
        file === null ? { program: itself(), signed: null } : await programOf(file, place, unsigned)
      const data = join(place, 'data')
      await copyInstallation(data_dir, data, tell)
      const before = schemaIn(join(data, DATABASE))
      // The version in place is this one, unless it has yet to upgrade the database.
      const inPlace = file !== null && before.schema === migrations.length ? version : (before.version ?? version)
      trial = startTrial(program, { now, data, named: data_dir, tell })
      return { file, signed, free, ...judged(await trial.ended, signed, inPlace) }
    }
    return await withFolder(data_dir, run, endTrial)
  } finally {
    release()
  }
}

/** The snapshot, the copy that the other version makes of it, what its migrations write, and the program itself. */
function demandRoom(dataDir: string, file: string | null, free: number): void {
  const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const database = join(dataDir, DATABASE)
  const program = file === null ? null : asCallerAt(file, () => statSync(file, { throwIfNoEntry: false }))
  if (program !== null && !program?.isFile())
    throw new OperatorError(
      `${file} ${program ? 'is not a file' : 'is not there'}; name the executable, the package or the tar to try.`,
    )
  // A package holds four times its own size.
  const need = 3 * (sizeOf(database) + sizeOf(`${database}-wal`)) + 6 * (program?.size ?? 0)
  if (need > free)
    throw new OperatorError(
      `The check needs ${shown(need)} for a while on the disk of ${dataDir}, and ${shown(free)} are free beside the reserve ("storage.reserve"); make room first. Nothing was changed.`,
    )
}

/** The program in a file: what is verified is what is run, for it is copied first. */
async function programOf(
  file: string,
  place: string,
  unsigned: boolean,
): Promise<Pick<UpgradeCheck, 'signed'> & { program: OwnProgram }> {
  const copy = join(place, basename(file))
  await take(file, copy)
  const signed = unsigned ? null : await signedVersion(file, copy, releaseKey())
  return { signed, program: { program: await programIn(copy, place), first: [] } }
}

/** Copies the file that was named. */
async function take(file: string, copy: string): Promise<void> {
  try {
    const fd = asCallerAt(file, () => openPlain(file, { links: true }))
    await pipeline(createReadStream(file, { fd }), createWriteStream(copy, { mode: 0o700, flags: 'wx' }))
  } catch (thrown) {
    throw new OperatorError(`${file} cannot be read (${codeOf(thrown)}).`, { cause: thrown })
  }
}

/**
 * The version that SHA256SUMS beside the file was signed for; `copy` is what is compared with it. Throws an
 * OperatorError when nothing is signed there, or something else.
 */
export async function signedVersion(file: string, copy: string, publicKey: string): Promise<string> {
  const beside = (name: string, most: number): Buffer => {
    const path = join(dirname(file), name)
    try {
      return asCallerAt(path, () => beginningOf(path, most + 1))
    } catch (thrown) {
      throw new OperatorError(
        `${path} cannot be read (${codeOf(thrown)}); fetch it beside the file, or add --unsigned where you know the file otherwise.`,
      )
    }
  }
  const sums = beside('SHA256SUMS', SUMS_OCTETS)
  const signature = beside('SHA256SUMS.minisig', SIGNATURE_OCTETS)
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(copy) as AsyncIterable<Buffer>) hash.update(chunk)
  const named = { name: basename(file), sha256: hash.digest('hex') }
  return verifySums({ sums, signature, publicKey, file: named }).version
}

/** A snapshot of the database, the small files, and links to those of the spool: nobody writes into them. */
async function copyInstallation(dataDir: string, data: string, tell: (line: string) => void): Promise<void> {
  makeDirectory(join(data, 'spool'))
  let told = systemClock.elapsed()
  await copyDatabase(join(dataDir, DATABASE), join(data, DATABASE), undefined, (done, of) => {
    if (systemClock.elapsed() - told < SECOND) return
    told = systemClock.elapsed()
    tell(`a snapshot of the database: ${Math.floor((done / of) * 100)} %`)
  })
  for (const name of FILES)
    if (existsSync(join(dataDir, name)))
      writeFileSync(join(data, name), readPlain(join(dataDir, name)), { mode: 0o600 })
  const spool = join(dataDir, 'spool')
  for (const name of existsSync(spool) ? readdirSync(spool) : []) {
    if (name === QUARANTINE || name.endsWith('.part')) continue
    try {
      linkSync(join(spool, name), join(data, 'spool', name))
    } catch (thrown) {
      // Its mail was deleted meanwhile.
      if (codeOf(thrown) !== 'ENOENT') throw thrown
    }
  }
}

type TrialFound = Omit<UpgradeCheck, 'file' | 'signed' | 'free'>

function judged({ code, grown, last, output }: TrialRun, signed: string | null, inPlace: string): TrialFound {
  const said = jsonOf(output)
  const room = Math.max(0, grown)
  const nothing = { version: null, from: null, schema: null, seconds: null, room, changes: [] }
  if (code !== 0 || !isTrial(said)) {
    const error = isObject(said) && isObject(said['error']) ? said['error']['message'] : undefined
    const why = typeof error === 'string' ? error : last
    const older = /unknown option '?--trial/.test(why)
    return {
      ...nothing,
      ready: false,
      reason: older
        ? 'It is older than 0.3.0, which is the first that can be tried.'
        : why || `It gave no answer of Postrider and ended with ${code}.`,
    }
  }
  const reason = troubleOf(said, signed)
  const { from, schema, seconds, version: tried } = said
  const changes = newerThan(inPlace, said.releases)
  return { ready: reason === null, reason, version: tried, from, schema, seconds, room, changes }
}

function troubleOf({ failed, faults, version: tried }: Trial, signed: string | null): string | null {
  if (signed !== null && signed !== tried) return `It says that it is ${tried}, and was signed as ${signed}.`
  if (faults.length > 0) return `After the upgrade this is damaged: ${listed(faults)}.`
  return failed.length > 0 ? `After the upgrade the API does not answer: ${failed.join('; ')}.` : null
}

function shown(octets: number): string {
  const mb = octets / 1e6
  return mb >= 1000 ? `${(mb / 1000).toFixed(1)} GB` : `${Math.max(1, Math.round(mb))} MB`
}

/** What was found, for a person. */
export function summaryOf(found: UpgradeCheck): string {
  const { changes, file, free, from, ready, reason, room, schema, seconds, signed, version: tried } = found
  const how = file === null ? '' : signed === null ? ' (unsigned)' : ' (signed)'
  const about = tried === null ? (file ?? 'this version') : `Postrider ${tried}${how}`
  const head = ready ? `Ready: ${about} opens a copy of this installation.` : `Not ready: ${about}. ${reason}`
  if (schema === null) return head
  return [
    head,
    from === schema
      ? `The database stays at schema ${schema}.`
      : `The database goes from schema ${from} to ${schema}, which took ${seconds} s; it needs ${shown(room)} for a while, and ${shown(free)} are free.`,
    'Nothing of this installation was changed, and nothing was sent.',
    ...(changes.length === 0 ? [] : ['What changes:', ...changes.map((change) => `  ${change}`)]),
  ].join('\n')
}
