// Rewrites zod's messages into our own form: "must be …", to follow the name of the value.
import { must } from '../base/errors.ts'

const KINDS: Record<string, string> = {
  array: 'a list',
  boolean: 'true or false',
  int: 'an integer',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  string: 'a string',
}

const BOUNDS: Record<string, string> = { '>=': 'at least', '<=': 'at most', '>': 'more than', '<': 'less than' }

/** Translates a message of zod. Any other message is returned unchanged. */
export function issueWords(message: string): string {
  const [, kind] = /^Invalid input: expected (\w+)/.exec(message) ?? []
  if (kind !== undefined) return `must be ${KINDS[kind] ?? kind}`
  const [, options] = /^Invalid (?:option: expected one of|input: expected) ("[^]*)$/.exec(message) ?? []
  if (options !== undefined) return `must be ${options.replaceAll('"|"', '", "').replace(/, (?="[^"]*"$)/, ' or ')}`
  const [, verb, bound, number, unit] =
    /^Too (?:small|big): expected \w+ to (be|have) ([<>]=?)(-?\d+)(?: (\w+))?$/.exec(message) ?? []
  if (bound !== undefined)
    return `must ${verb} ${BOUNDS[bound]} ${number}${unit === undefined ? '' : ` ${number === '1' ? unit.replace(/s$/, '') : unit}`}`
  return message
}

/** The first problem that zod reports for a value. */
export const firstIssue = <Issue>({ issues }: { readonly issues: readonly Issue[] }): Issue =>
  must(issues[0], 'The issue of a value')
