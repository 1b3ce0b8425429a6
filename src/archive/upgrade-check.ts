// `postrider upgrade --check`: another version upgrades and verifies a copy of this installation, next to the running
// server. The copy is a snapshot of the database, with the key, the erasure log and links to the spool files.
//
// Guarantees: the file that runs is the one that was verified. The installation is not changed. The copy is removed,
// even after a signal.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, createReadStream, createWriteStream, existsSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { SECOND, systemClock } from '../base/clock.ts'
import { findConfig } from '../base/config-file.ts'
import { makeDirectory } from '../base/durable.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { itself, type OwnProgram } from '../base/installed.ts'
import { isObject, jsonOf } from '../base/json.ts'
import { exitAtOnce } from '../base/native.ts'
import { isNoFile, openPlain } from '../base/plain-file.ts'
import { freeOn, reserveOf } from '../base/space.ts'
import { version } from '../base/version.ts'
import { configOf, type Invocation } from '../views/command/open.ts'
import { migrations } from '../store/schema/migrations.ts'
import { copyDatabase } from '../store/copy.ts'
import { openUpgraded } from '../store/instance.ts'
import { holdCopies, LEFTOVER, withFolder } from '../store/leftovers.ts'
import { DATABASE } from '../store/open.ts'
import { Spool } from '../store/spool.ts'
import type { UpgradeProgress } from '../store/upgrade.ts'
import { faultsOf, listed } from './integrity.ts'
import { tellOn, type Tell } from './transfer.ts'
import { keepFiles, keepSmall } from './snapshot.ts'
import { releaseKey, MAX_SIGNATURE, MAX_SUMS, verifySums } from './signature.ts'

export interface UpgradeCheck {
  ready: boolean
  /** Why it is not ready, or null if it is. */
  reason: string | null
  /** The file that was checked, or null if this version checked itself. */
  file: string | null
  /** The version in the signature, or null if it was not verified. */
  signed: string | null
  version: string | null
  from: number | null
  schema: number | null
  seconds: number | null
}

/** The result of a trial, which a newer version prints for the check of an older one. */
const trialOf = z.object({
  version: z.string(),
  from: z.int(),
  schema: z.int(),
  seconds: z.number(),
  faults: z.array(z.string()),
})
type Trial = z.output<typeof trialOf>

/** Checks the executable `given`, or without one this version. */
export async function checkUpgrade(
  now: Invocation,
  given: string | undefined,
  unsigned: boolean,
): Promise<UpgradeCheck> {
  const config = configOf(now)
  const { data_dir } = config
  const file = given === undefined ? null : resolve(given)
  const tell = tellOn(now.terminal)
  // As during a backup, erasures wait, and the server does not remove the temporary directory.
  const release = holdCopies(data_dir)
  let trial: RunningTrial | undefined
  try {
    demandSpace(data_dir, freeOn(data_dir) - reserveOf(config))
    const run = async (folder: string): Promise<UpgradeCheck> => {
      const copy = file === null ? undefined : await copyOf(file, folder)
      const signed = file === null || !copy || unsigned ? null : await signedVersion(file, copy, releaseKey())
      const data = join(folder, 'data')
      await copyInstallation(data_dir, data, tell)
      trial = startTrial(copy ? { program: copy, first: [] } : itself(), { now, data, named: data_dir, tell })
      return { file, signed, ...resultOf(await trial.ended, signed) }
    }
    return await withFolder(data_dir, run, () => trial?.kill())
  } finally {
    release()
  }
}

/** Requires space for the snapshot, for the copy that the upgrade makes, and for the writes of its migrations. */
function demandSpace(dataDir: string, free: number): void {
  const database = join(dataDir, DATABASE)
  const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const needed = 3 * (sizeOf(database) + sizeOf(`${database}-wal`))
  const mb = (bytes: number): number => Math.ceil(Math.max(0, bytes) / 1e6)
  if (needed > free)
    throw new OperatorError(
      `The check temporarily needs ${mb(needed)} MB on the disk of ${dataDir}, which has ${mb(free)} MB free in addition to "storage.reserve"; free some space first.`,
    )
}

/** Copies the executable into the temporary directory. Throws an OperatorError if it is not one. */
async function copyOf(file: string, folder: string): Promise<string> {
  const copy = join(folder, 'postrider')
  const start = Buffer.alloc(4)
  try {
    const fd = openPlain(file, { links: true })
    readSync(fd, start, 0, start.length, 0)
    await pipeline(createReadStream(file, { fd, start: 0 }), createWriteStream(copy, { mode: 0o700, flags: 'wx' }))
  } catch (thrown) {
    const why = isNoFile(thrown) && existsSync(file) ? 'is not a regular file' : `cannot be read (${codeOf(thrown)})`
    throw new OperatorError(`${file} ${why}; use the path of an executable.`, {
      cause: thrown,
    })
  }
  // The system would run any other file as a shell script.
  if (!/^(?:\x7fELF|#!)/.test(start.toString('latin1')))
    throw new OperatorError(
      `${file} is not an executable; unpack the release with "dpkg-deb -x FILE new" or "tar -xf FILE", and use its usr/bin/postrider.`,
    )
  return copy
}

/**
 * The version in the signature of SHA256SUMS, which is next to the file or in the working directory. `copy` is compared
 * with it. Throws an OperatorError if the copy is not a file of a signed release.
 */
export async function signedVersion(file: string, copy: string, publicKey: string): Promise<string> {
  const has = (folder: string): boolean => existsSync(join(folder, 'SHA256SUMS'))
  const folder = [dirname(file), process.cwd()].find(has) ?? dirname(file)
  const read = (name: string, most: number): Buffer => {
    const path = join(folder, name)
    try {
      return startOf(path, most + 1)
    } catch (thrown) {
      throw new OperatorError(
        `${path} cannot be read (${codeOf(thrown)}); download it to the same directory, or add --unsigned if you trust the file.`,
      )
    }
  }
  const sums = read('SHA256SUMS', MAX_SUMS)
  const signature = read('SHA256SUMS.minisig', MAX_SIGNATURE)
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(copy) as AsyncIterable<Buffer>) hash.update(chunk)
  return verifySums({ sums, signature, publicKey, file: { name: basename(file), sha256: hash.digest('hex') } }).version
}

function startOf(path: string, bytes: number): Buffer {
  const handle = openPlain(path, { links: true })
  try {
    const buffer = Buffer.alloc(bytes)
    return buffer.subarray(0, readSync(handle, buffer, 0, bytes, 0))
  } finally {
    closeSync(handle)
  }
}

/** Copies the database and the small files, and links the spool files, which are never modified. */
async function copyInstallation(dataDir: string, data: string, tell: Tell): Promise<void> {
  makeDirectory(join(data, 'spool'))
  let printedAt = systemClock.elapsed()
  await copyDatabase(join(dataDir, DATABASE), join(data, DATABASE), undefined, (done, of) => {
    if (systemClock.elapsed() - printedAt < SECOND) return
    printedAt = systemClock.elapsed()
    tell(`copying the database: ${Math.floor((done / of) * 100)} %`)
  })
  keepSmall(dataDir, data)
  keepFiles({ dataDir, folder: data, spool: join(dataDir, 'spool') })
}

interface TrialOptions {
  now: Invocation
  data: string
  /** The directory to name in messages, because the copy is deleted. */
  named: string
  tell: Tell
}

interface TrialEnd {
  code: number | null
  output: string
  /** The last line on stderr. */
  last: string
}

interface RunningTrial {
  ended: Promise<TrialEnd>
  kill(): void
}

function startTrial({ first, program }: OwnProgram, { data, named, now, tell }: TrialOptions): RunningTrial {
  const config = findConfig(now)
  const words = [
    ...first,
    ...(config === undefined ? [] : ['--config', resolve(config)]),
    '--json',
    'upgrade',
    '--trial',
  ]
  const child = spawn(program, words, {
    env: { ...now.environment, POSTRIDER_DATA_DIR: data, POSTRIDER_DATA_DIR_FILE: undefined },
    // It exits when its stdin closes, so it does not outlive this process.
    stdio: ['pipe', 'pipe', 'pipe'],
    // A process group, so that its children can be killed with it.
    detached: true,
  })
  let last = ''
  createInterface({ input: child.stderr }).on('line', (line) => {
    last = line.replace(/^postrider: /, '').replaceAll(data, named)
    tell(last)
  })
  const ended = Promise.all([once(child, 'close'), text(child.stdout)]).then(
    ([[code], output]) => ({ code: code as number | null, output: output.replaceAll(data, named), last }),
    (thrown: unknown) => {
      throw new OperatorError(
        `The file cannot be executed (${codeOf(thrown)}); check that it is for this machine and that ${named} is not mounted noexec.`,
        { cause: thrown },
      )
    },
  )
  const kill = (): void => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    try {
      process.kill(-child.pid, 'SIGKILL')
    } catch {
      // It has just exited.
    }
  }
  return { ended, kill }
}

function resultOf({ code, last, output }: TrialEnd, signed: string | null): Omit<UpgradeCheck, 'file' | 'signed'> {
  const document = jsonOf(output)
  const { data: trial } = trialOf.safeParse(document)
  if (code === 0 && trial) {
    const { faults, ...found } = trial
    const reason =
      signed !== null && signed !== trial.version
        ? `It is version ${trial.version}, but its signature is for ${signed}.`
        : faults.length > 0
          ? `The upgraded copy is corrupt: ${listed(faults)}.`
          : null
    return { ready: reason === null, reason, ...found }
  }
  const error = isObject(document) && isObject(document['error']) ? document['error']['message'] : undefined
  const why = typeof error === 'string' ? error : last
  const reason = /unknown option '?--trial/.test(why)
    ? 'Only version 0.3.0 and newer can be checked.'
    : why || `It exited with code ${code} and printed no result.`
  return { ready: false, reason, version: null, from: null, schema: null, seconds: null }
}

export function summaryOf({
  file,
  from,
  ready,
  reason,
  schema,
  seconds,
  signed,
  version: tried,
}: UpgradeCheck): string {
  const how = file === null ? '' : signed === null ? ' (unsigned)' : ' (signed)'
  const about = tried === null ? (file ?? 'this version') : `Postrider ${tried}${how}`
  const head = ready ? `Ready: ${about} works with a copy of this installation.` : `Not ready: ${about}. ${reason}`
  if (schema === null) return head
  return [
    head,
    from === schema
      ? `The database stays at schema ${schema}.`
      : `The upgrade from schema ${from} to ${schema} took ${seconds} s on the copy.`,
    'The installation is unchanged, and no email was sent.',
  ].join('\n')
}

/** Runs in the version that is checked: upgrades and verifies the copy. */
export async function runTrial(now: Invocation): Promise<Trial> {
  const { data_dir } = configOf(now)
  if (!basename(dirname(data_dir)).startsWith(LEFTOVER))
    throw new OperatorError(`${data_dir} is not a copy; use "postrider upgrade --check FILE", which makes one.`)
  exitWithCheck()
  const began = systemClock.elapsed()
  let from = migrations.length
  const { keyring, store } = await openUpgraded(data_dir, {
    clock: systemClock,
    migrating: (found) => (from = found),
    progress: (progress) => now.terminal.err(`postrider: ${progressLine(progress)}\n`),
  })
  const seconds = Math.round((systemClock.elapsed() - began) / SECOND)
  try {
    const faults = await faultsOf({ store, keyring, spool: new Spool(data_dir) })
    return { version, from, schema: migrations.length, seconds, faults }
  } finally {
    store.close()
  }
}

/** If the check was killed, its end of stdin closes: then the copy is deleted, and the result is not needed. */
function exitWithCheck(): void {
  const exit = (): never => exitAtOnce(1)
  process.stdin.on('end', exit).on('error', exit).resume()
  // It must not keep the process running.
  if ('unref' in process.stdin) process.stdin.unref()
}

/** A line per second on stderr. */
export const progressLine = ({ doing, done, of, seconds }: UpgradeProgress): string =>
  doing === 'copy'
    ? `copying the database: ${of === 0 ? 0 : Math.floor((done / of) * 100)} % (${seconds} s)`
    : doing === 'migration'
      ? `step ${done + 1} of ${of} (${seconds} s)`
      : `rewriting the database to free space (${seconds} s)`
