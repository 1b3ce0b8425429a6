// A command uses an option or rejects it. It never accepts and ignores one.
import type { Command } from 'commander'
import { OperatorError } from '../../base/errors.ts'

/** The long names of the options that were given to a command, by the names of their values. */
const givenTo = (command: Command): [name: string, long: string][] =>
  command.options
    .map((option): [string, string] => [option.attributeName(), option.long ?? option.flags])
    .filter(([name]) => command.getOptionValueSource(name) === 'cli')

/**
 * Throws an OperatorError for an option that was given and has no effect. `used` are the options that have one, `way`
 * completes the sentence "has no effect …".
 */
export function refuseUnused(command: Command, used: readonly string[], way: string): void {
  const unused = givenTo(command).find(([name]) => !used.includes(name))
  if (unused) throw new OperatorError(`${unused[1]} has no effect ${way}; remove it.`)
}

/**
 * Throws an OperatorError for a file or a directory that is an empty string, as from an unset variable of a script. ""
 * would mean the working directory, or no file.
 */
export function refuseEmpty(action: Command): void {
  const options: [string, unknown][] = action.options
    .filter(({ flags }) => /<(?:file|dir)>/.test(flags))
    .map((option) => [option.long ?? option.flags, action.getOptionValue(option.attributeName())])
  const named = action.registeredArguments
    .map((argument, at): [string, unknown] => [argument.name(), action.processedArgs[at]])
    .filter(([name]) => /^(?:file|from)$/.test(name))
  const empty = [...options, ...named].find(([, value]) => [value].flat().includes(''))
  if (empty) throw new OperatorError(`${empty[0]} is empty; set it to a path or remove it.`)
}

/** As `refuseUnused`, for options of a command that has commands of its own ("backup --force now"). */
export function refuseAbove(program: Command, action: Command): void {
  for (let above = action.parent; above && above !== program; above = above.parent)
    refuseUnused(above, [], `with "${above.name()} ${action.name()}"`)
}
