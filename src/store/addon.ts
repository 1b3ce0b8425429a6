// Loads the native part of better-sqlite3. From node_modules it loads by itself. In the single executable it is an
// asset, which is written to a temporary file, because the system can load a library only from a file.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { singleExecutable } from '../base/threads/pool.ts'
import { OperatorError } from '../base/errors.ts'
import { asCaller, worksAsOwner } from '../base/ownership.ts'

let loaded: unknown

/** Options for `new Database`: the addon in the single executable, else none. Throws an OperatorError. */
export function sqliteAddon(dataDir: string): { nativeBinding?: string } {
  const sea = singleExecutable()
  if (!sea) return {}
  // A directory mounted noexec does not work: first the data directory is tried, then the system's temporary one.
  // Root that works as the owner of the data directory loads nothing from there: the owner could exchange it.
  const places = [...(worksAsOwner() ? [] : [dataDir]), tmpdir()]
  for (const place of places) loaded ??= asCaller(() => load(sea.getRawAsset('better_sqlite3.node'), place))
  if (loaded === undefined)
    throw new OperatorError(
      `Neither ${dataDir} nor ${tmpdir()} lets a library be loaded from it (mounted noexec?); set TMPDIR to a directory that does.`,
    )
  // better-sqlite3 accepts the loaded addon as well as its path; its types know only the path.
  return { nativeBinding: loaded as string }
}

function load(bytes: ArrayBuffer, parent: string): unknown {
  let directory: string | undefined
  try {
    directory = mkdtempSync(join(parent, '.addon-'))
    const file = join(directory, 'better_sqlite3.node')
    writeFileSync(file, Buffer.from(bytes), { mode: 0o700 })
    const holder: { exports: unknown } = { exports: {} }
    process.dlopen(holder, file)
    return holder.exports
  } catch {
    return undefined
  } finally {
    if (directory) rmSync(directory, { recursive: true, force: true })
  }
}
