// `postrider completion bash|zsh|fish`: a completion script. On each Tab, the script runs this program with the words
// of the command line, and gets the completions of the last word: subcommands, options and values from the command
// table. Files and directories are left to the shell.
import { Argument, type Command } from 'commander'
import { instances } from '../base/config-file.ts'
import type { Invocation } from '../views/command/open.ts'

interface Completion {
  name: string
  about: string
}

/** Values that the shell completes, by their name in the usage line: the line that the program prints instead. */
const BY_SHELL: Record<string, string> = { file: ':file', dir: ':dir' }

const BASH = `# postrider completion for bash: source <(postrider completion bash)
_postrider() {
  local IFS=$'\\n' current="\${COMP_WORDS[COMP_CWORD]}"
  if [[ $current == "=" ]]; then current=""; fi
  COMPREPLY=($("$1" completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  case "\${COMPREPLY[0]}" in
    :file) COMPREPLY=($(compgen -f -- "$current")) ;;
    :dir) COMPREPLY=($(compgen -d -- "$current")) ;;
    *) return ;;
  esac
  compopt -o filenames 2>/dev/null
}
complete -F _postrider postrider
`

const ZSH = `#compdef postrider
# postrider completion for zsh: source <(postrider completion zsh), or as _postrider in a directory of $fpath
_postrider() {
  local -a found
  found=("\${(@f)$("\${(Q)words[1]}" completion zsh -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  case "$words[CURRENT]" in --*=*) compset -P '*=' ;; esac
  case "$found[1]" in
    :file) _files ;;
    :dir) _files -/ ;;
    -*) _describe -o option found ;;
    ?*) _describe completion found ;;
  esac
}
if [[ $funcstack[1] == _postrider ]]; then _postrider "$@"; else compdef _postrider postrider; fi
`

const FISH = `# postrider completion for fish: postrider completion fish | source
function __postrider_completions
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] completion fish -- $words[2..] 2>/dev/null)
    switch "$found[1]"
        case ':file'
            __fish_complete_path (commandline -ct)
        case ':dir'
            __fish_complete_directories (commandline -ct)
        case '*'
            printf '%s\\n' $found
    end
end
complete -c postrider -f -a '(__postrider_completions)'
`

/** The script of each shell, and a completion as a line for it. */
const SHELLS = {
  bash: { script: BASH, line: ({ name }: Completion) => name },
  zsh: { script: ZSH, line: ({ about, name }: Completion) => `${name.replaceAll(':', '\\:')}:${about}` },
  fish: { script: FISH, line: ({ about, name }: Completion) => `${name}\t${about}` },
}
type Shell = keyof typeof SHELLS

export const completionScript = (shell: Shell): string => SHELLS[shell].script

/** Returns the completions of the last word, or a text of BY_SHELL. `words` are those after "postrider". */
function completionsOf(program: Command, words: readonly string[]): Completion[] | string {
  // bash splits "--option=value" at the sign.
  const [, given, typed = ''] = /^(?:(--[\w-]+)=)?(.*)$/.exec(words.at(-1) ?? '') ?? []
  const { command, count, option } = positionOf(program, [
    ...words.slice(0, -1),
    ...(given === undefined ? [] : [given]),
  ])
  const found =
    option !== undefined
      ? valuesOf(/[<[](\w+)/.exec(option.flags)?.[1], option.long === '--instance' ? instances() : option.argChoices)
      : typed.startsWith('-')
        ? [...optionsOf(command), ...(command === program ? [] : optionsOf(program)), HELP]
        : command.commands.length > 0
          ? commandsOf(command)
          : argumentOf(program, command, count)
  return typeof found === 'string' ? found : found.filter(({ name }) => name.startsWith(typed === '=' ? '' : typed))
}

const HELP: Completion = { name: '--help', about: 'show the help' }

const commandsOf = ({ commands }: Command): Completion[] =>
  commands.map((each) => ({ name: each.name(), about: each.description() }))

const optionsOf = ({ options }: Command): Completion[] =>
  options.flatMap(({ description, hidden, long }) =>
    typeof long === 'string' && !hidden ? [{ name: long, about: description }] : [],
  )

/** The command that these words name, the number of its arguments so far, and the option whose value follows. */
function positionOf(program: Command, words: readonly string[]) {
  let command = program
  let count = 0
  let option: Command['options'][number] | undefined
  for (const word of words.filter((each) => each !== '=')) {
    const next = command.commands.find((each) => each.name() === word)
    if (option !== undefined) option = undefined
    else if (/^-./.test(word))
      option = [...command.options, ...program.options].find(
        ({ long, optional, required }) => long === word && (required || optional),
      )
    else if (next) [command, count] = [next, 0]
    else count += 1
  }
  return { command, count, option }
}

function argumentOf(program: Command, command: Command, at: number): Completion[] | string {
  const argument = command.registeredArguments[at]
  if (argument === undefined) return []
  return command.name() === 'help' ? commandsOf(program) : valuesOf(argument.name(), argument.argChoices)
}

const valuesOf = (name = '', choices: readonly string[] | undefined): Completion[] | string =>
  choices?.map((each) => ({ name: each, about: '' })) ?? BY_SHELL[name] ?? []

export function completionCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('completion')
    .description('print a shell completion script')
    .addArgument(new Argument('<shell>', 'shell').choices(Object.keys(SHELLS)))
    .argument('[words...]', 'used by the script: print the completions of these words')
    .action((shell: Shell, words: string[]) => {
      const { out, raw } = invocation().terminal
      if (words.length === 0) return out(completionScript(shell))
      const found = completionsOf(program, words)
      return raw(
        typeof found === 'string' ? `${found}\n` : found.map((each) => `${SHELLS[shell].line(each)}\n`).join(''),
      )
    })
}
