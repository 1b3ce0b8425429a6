// Loads the native part of better-sqlite3. From node_modules it loads by itself. Package and image install it as a file
// beside the executable (D167). A bare executable has it as an asset alone, which is written to a temporary file,
// because the system can load a library only from a file.
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { singleExecutable } from '../base/threads/pool.ts'
import { HOUR, systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { installed } from '../base/installed.ts'
import { asCaller, worksAsOwner } from '../base/ownership.ts'

const NAME = 'better_sqlite3.node'

let loaded: unknown

/** Options for `new Database`: the addon in the single executable, else none. Throws an OperatorError. */
export function sqliteAddon(dataDir: string): { nativeBinding?: string } {
  const sea = singleExecutable()
  if (!sea) return {}
  const asset = Buffer.from(sea.getRawAsset(NAME))
  loaded ??= loadInstalled(asset)
  // A directory mounted noexec does not work: first the data directory is tried, then the system's temporary one.
  // Root that works as the owner of the data directory loads nothing from there: the owner could exchange it.
  const places = [...(worksAsOwner() ? [] : [dataDir]), tmpdir()]
  for (const place of places) loaded ??= asCaller(() => loadCopy(asset, place))
  if (loaded === undefined)
    throw new OperatorError(
      `Neither ${dataDir} nor ${tmpdir()} lets a library be loaded from it (mounted noexec?); set TMPDIR to a directory that does.`,
    )
  // better-sqlite3 accepts the loaded addon as well as its path; its types know only the path.
  return { nativeBinding: loaded as string }
}

/** The installed file, where it holds what this executable was built with: during an upgrade it may be another. */
function loadInstalled(asset: Buffer): unknown {
  const file = installed(NAME)
  if (file === undefined || statSync(file).size !== asset.length || !readFileSync(file).equals(asset)) return undefined
  return open(file)
}

/** How the name of a folder with a copy begins; six characters follow. */
const COPY = '.addon-'
/** A copy is there for the moment in which it is loaded; one that is older was left by a process that was killed. */
const LEFT_AFTER = HOUR

/** Removes what killed processes of this user left in a folder. */
export function removeLeftCopies(parent: string, now: number): void {
  for (const name of readdirSync(parent)) {
    if (!/^\.addon-[\w-]{6}$/.test(name)) continue
    const place = join(parent, name)
    const found = lstatSync(place, { throwIfNoEntry: false })
    if (found?.isDirectory() && found.uid === process.geteuid?.() && now - found.mtimeMs > LEFT_AFTER)
      rmSync(place, { recursive: true, force: true })
  }
}

function loadCopy(asset: Buffer, parent: string): unknown {
  let directory: string | undefined
  try {
    removeLeftCopies(parent, systemClock.now())
    directory = mkdtempSync(join(parent, COPY))
    const file = join(directory, NAME)
    writeFileSync(file, asset, { mode: 0o700 })
    return open(file)
  } catch {
    return undefined
  } finally {
    if (directory) rmSync(directory, { recursive: true, force: true })
  }
}

function open(file: string): unknown {
  const holder: { exports: unknown } = { exports: {} }
  process.dlopen(holder, file)
  return holder.exports
}
