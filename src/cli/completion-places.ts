// The possible completions of the command line, read from the command table, for the scripts of all shells.
import type { Command } from 'commander'
import { must } from '../base/errors.ts'

/** The kind of a value: a file, a directory, one of a list of words, or any text. */
export type ArgumentKind = 'file' | 'dir' | 'any' | readonly string[]

export interface Choice {
  name: string
  about: string
}

export interface CompletionPlace {
  /** "" for the program, "domain add" for a subcommand. */
  path: string
  commands: Choice[]
  /** `kind` is missing for an option without a value. */
  options: (Choice & { kind?: ArgumentKind })[]
  places: ArgumentKind[]
}

/** Names of values in the usage lines. */
const KINDS: Record<string, ArgumentKind> = { file: 'file', dir: 'dir' }

const kindOf = (called: string, choices: readonly string[] | undefined): ArgumentKind =>
  choices ?? KINDS[called.replaceAll(/[[\]<>.]/g, '')] ?? 'any'

/** Every place of the command line that can be completed. */
export function placesOf(program: Command, path = ''): CompletionPlace[] {
  const here: CompletionPlace = {
    path,
    commands: program.commands.map((child) => ({ name: child.name(), about: child.description() })),
    options: [
      ...program.options.flatMap(({ argChoices, description, flags, long, optional, required }) => {
        if (typeof long !== 'string') return []
        const [value = ''] = /[<[].*[\]>]/.exec(flags) ?? []
        const kind = required || optional ? { kind: kindOf(value, argChoices) } : {}
        return [{ name: long, about: description, ...kind }]
      }),
      { name: '--help', about: 'show what it takes' },
    ],
    places: program.registeredArguments.map((argument) =>
      // The arguments of "help" are names of commands.
      argument.variadic && path === 'help'
        ? must(program.parent, 'The program itself').commands.map((command) => command.name())
        : kindOf(argument.name(), argument.argChoices),
    ),
  }
  const below = program.commands.flatMap((child) =>
    placesOf(child, path === '' ? child.name() : `${path} ${child.name()}`),
  )
  return [here, ...below]
}
