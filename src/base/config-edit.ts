// Changes settings in the text of a configuration and keeps its other lines with their comments. Writes the file in one
// step, so that a reader has the old or the new one.
import {
  chmodSync,
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { codeOf, OperatorError } from './errors.ts'
import type { Owner } from './ownership.ts'
import { unusableError } from './unusable.ts'

/** The part before the first section, and the rest. */
function atTop(text: string): [string, string] {
  const section = /^[ \t]*\[/m.exec(text)?.index ?? text.length
  return [text.slice(0, section), text.slice(section)]
}

/** Pattern for a top-level setting with a text value, quotes included. */
const topLevel = (key: string): RegExp =>
  new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*("(?:[^"\\\\\n]|\\\\.)*"|'[^'\n]*')`, 'm')

/** Whether the text sets this key to a value that is not empty. */
export const sets = (text: string, key: string): boolean => (topLevel(key).exec(atTop(text)[0])?.[1]?.length ?? 0) > 2

/** The text with a top-level setting changed, or added at the top. */
export function withSetting(text: string, key: string, value: string): string {
  const [head, rest] = atTop(text)
  const line = `${key} = ${JSON.stringify(value)}`
  return topLevel(key).test(head) ? head.replace(topLevel(key), () => line) + rest : `${line}\n${text}`
}

/** Returns the text with a line of a section replaced, or added if its key is missing. */
export function withEntry(text: string, section: string, line: string): string {
  const header = new RegExp(`^[ \\t]*\\[${section}\\][ \\t]*(?:#.*)?$`, 'm').exec(text)
  if (!header) return `${text.trimEnd()}\n\n[${section}]\n${line}\n`
  const from = header.index + header[0].length
  const rest = text.slice(from)
  const body = rest.slice(0, /^[ \t]*\[/m.exec(rest)?.index ?? rest.length)
  const present = new RegExp(`^[ \\t]*${line.slice(0, line.indexOf(' '))}[ \\t]*=.*$`, 'm')
  const changed = present.test(body) ? body.replace(present, () => line) : `\n${line}${body}`
  return text.slice(0, from) + changed + rest.slice(body.length)
}

/**
 * Writes a configuration atomically. A replaced file keeps its owner and mode. Throws an OperatorError.
 */
export function writeConfig(file: string, text: string, owner: Owner | undefined): void {
  let draft: string | undefined
  try {
    makeOpen(dirname(file))
    // A symbolic link is kept, and its target is replaced.
    const place = existsSync(file) ? realpathSync(file) : file
    const old = existsSync(place) ? statSync(place) : undefined
    rmSync(`${place}.new`, { force: true })
    const handle = openSync(`${place}.new`, 'wx', 0o640)
    draft = `${place}.new`
    try {
      writeFileSync(handle, text)
      // It may contain secrets, so only the service may read it.
      fchmodSync(handle, old ? old.mode & 0o777 : 0o640)
      if (process.geteuid?.() === 0)
        fchownSync(handle, old?.uid ?? 0, old && old.gid !== 0 ? old.gid : (owner?.gid ?? 0))
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    renameSync(draft, place)
  } catch (thrown) {
    if (draft !== undefined) rmSync(draft, { force: true })
    throw notWritten(file, thrown)
  }
}

/** Creates a directory that all users can read, and its missing parents, for any umask. */
export function makeOpen(folder: string): void {
  if (existsSync(folder)) return
  makeOpen(dirname(folder))
  mkdirSync(folder)
  chmodSync(folder, 0o755)
}

const notWritten = (file: string, thrown: unknown): OperatorError =>
  unusableError(thrown, file) ??
  new OperatorError(`${file} cannot be written (${codeOf(thrown)}); choose another path with --config.`)
