// Reads a TOML text.
import { parse, TomlError } from 'smol-toml'
import { OperatorError } from './errors.ts'
import { upTo } from './text.ts'

/** The tree of a TOML text. Throws an OperatorError with the line of the fault. */
export function parseToml(source: string, file: string): Record<string, unknown> {
  try {
    return parse(source)
  } catch (thrown) {
    if (!(thrown instanceof TomlError)) throw thrown
    const reason = upTo(thrown.message, '\n').replace(/^Invalid TOML document: /, '')
    throw new OperatorError(`${file}:${thrown.line}: invalid TOML (${reason}); correct the line.`)
  }
}
