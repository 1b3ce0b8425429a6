// An option that a command takes is used, or refused: never accepted and ignored.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'

/** The long names of the options that were given to a command, by the names of their values. */
const givenTo = (command: Command): [name: string, long: string][] =>
  command.options
    .map((option): [string, string] => [option.attributeName(), option.long ?? option.flags])
    .filter(([name]) => command.getOptionValueSource(name) === 'cli')

/**
 * Throws an OperatorError for an option that was given and is not among those that are used; `way` ends "it has no
 * meaning …".
 */
export function refuseUnused(command: Command, used: readonly string[], way: string): void {
  const unused = givenTo(command).find(([name]) => !used.includes(name))
  if (unused) throw new OperatorError(`${unused[1]} has no meaning ${way}; leave it out.`)
}

/**
 * Throws an OperatorError for a file or a folder that is named by an empty text: a script whose variable is not set
 * says so, and "" would be the folder where it runs, or none.
 */
export function refuseEmpty(action: Command): void {
  const options: [string, unknown][] = action.options
    .filter(({ flags }) => /<(?:file|folder)>/.test(flags))
    .map((option) => [option.long ?? option.flags, action.getOptionValue(option.attributeName())])
  const named = action.registeredArguments
    .map((argument, at): [string, unknown] => [argument.name(), action.processedArgs[at]])
    .filter(([name]) => /^(?:file|folder|from)$/.test(name))
  const empty = [...options, ...named].find(([, value]) => [value].flat().includes(''))
  if (empty) throw new OperatorError(`${empty[0]} is empty; name one, or leave it out.`)
}

/** As `refuseUnused`, for options of a command that has commands of its own ("backup --force now"). */
export function refuseAbove(program: Command, action: Command): void {
  for (let above = action.parent; above && above !== program; above = above.parent)
    refuseUnused(above, [], `with "${above.name()} ${action.name()}"`)
}
