// Loads the native part of better-sqlite3. In node_modules, the library loads it without help. Package and image
// install it as a file next to the executable (D167). A bare executable has it only as an asset, which is written to a
// temporary file, because the system can load a library only from a file.
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { singleExecutable } from '../base/threads/pool.ts'
import { HOUR, systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { installed } from '../base/installed.ts'

const NAME = 'better_sqlite3.node'

let loaded: unknown

/** Options for `new Database`: the addon in the single executable, otherwise empty. Throws an OperatorError. */
export function sqliteAddon(dataDir: string): { nativeBinding?: string } {
  const sea = singleExecutable()
  if (!sea) return {}
  const asset = Buffer.from(sea.getRawAsset(NAME))
  loaded ??= loadInstalled(asset)
  // A directory mounted noexec does not work: first the data directory is tried, then the system's temporary one.
  for (const path of [dataDir, tmpdir()]) loaded ??= loadCopy(asset, path)
  if (loaded === undefined)
    throw new OperatorError(
      `Libraries cannot be loaded from ${dataDir} or ${tmpdir()} (mounted noexec?); set TMPDIR to a directory without noexec.`,
    )
  // better-sqlite3 accepts the loaded addon as well as its path. Its types know only the path.
  return { nativeBinding: loaded as string }
}

/** The installed file, if its content is that of the asset. During an upgrade it may differ. */
function loadInstalled(asset: Buffer): unknown {
  const file = installed(NAME)
  if (file === undefined || statSync(file).size !== asset.length || !readFileSync(file).equals(asset)) return undefined
  return open(file)
}

/** The prefix of directories with a copy. Six characters follow. */
const COPY = '.addon-'
/** A copy exists only while it is loaded. An older one was left by a killed process. */
const LEFT_AFTER = HOUR

/** Removes leftover copies of this user's killed processes from a directory. */
export function removeLeftCopies(parent: string, now: number): void {
  for (const name of readdirSync(parent)) {
    if (!/^\.addon-[\w-]{6}$/.test(name)) continue
    const path = join(parent, name)
    const found = lstatSync(path, { throwIfNoEntry: false })
    if (found?.isDirectory() && found.uid === process.geteuid?.() && now - found.mtimeMs > LEFT_AFTER)
      rmSync(path, { recursive: true, force: true })
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
