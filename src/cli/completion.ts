// `postrider completion bash|zsh|fish`: a completion script, made from the command table. It completes subcommands,
// options, the values of options with a list, files and directories.
import { Argument, type Command } from 'commander'
import { must } from '../base/errors.ts'
import { fish } from './completion-fish.ts'
import { placesOf, type Choice, type ArgumentKind, type CompletionPlace } from './completion-places.ts'
import type { Invocation } from '../commands/open.ts'

const written = (kind: ArgumentKind): string => (typeof kind === 'string' ? kind : `words:${kind.join(' ')}`)

/** The part that bash and zsh share: finds the place from the words before the cursor, and its possible values. */
function parser(places: readonly CompletionPlace[]): string {
  const root = must(places[0], 'The program itself')
  const global = root.options.map(({ kind, name }) =>
    kind ? `    *"|${name}") echo "${written(kind)}" ;;` : undefined,
  )
  const own = places
    .slice(1)
    .flatMap(({ options, path }) =>
      options.flatMap(({ kind, name }) => (kind ? [`    "${path}|${name}") echo "${written(kind)}" ;;`] : [])),
    )
  const positions = places.flatMap(({ path, places: kinds }) =>
    kinds.map((kind, index) => `    "${path}|${index}") echo "${written(kind)}" ;;`),
  )
  const paths = places.slice(1).map(({ path }) => `"${path}"`)
  return `_postrider_is() { case "$1" in ${paths.join(' | ')}) return 0 ;; *) return 1 ;; esac; }
_postrider_value() {
  case "$1|$2" in
${[...own, ...global.filter((line) => line !== undefined)].join('\n')}
  esac
}
_postrider_position() {
  case "$1|$2" in
${positions.join('\n')}
  esac
}`
}

const names = (choices: readonly Choice[]): string => choices.map(({ name }) => name).join(' ')

/** The part of the loop over the words that bash and zsh share: moves to the next place for each word. */
const WALK = `    if [[ -n $kind ]]; then
      kind=""
    elif [[ $word == -?* ]]; then
      kind="$(_postrider_value "$at" "$word")"
    else
      next="\${at:+$at }$word"
      if _postrider_is "$next"; then at="$next" count=0; else count=$((count + 1)); fi
    fi`

function bash(places: readonly CompletionPlace[]): string {
  const root = must(places[0], 'The program itself')
  const cases = places.map(
    ({ commands, options, path }) =>
      `    "${path}") commands="${names(commands)}" options="${names(path === '' ? options : [...options, ...root.options.slice(0, -1)])}" ;;`,
  )
  return `# postrider completion for bash: source <(postrider completion bash)
${parser(places)}
_postrider() {
  local current="\${COMP_WORDS[COMP_CWORD]}" at="" kind="" word next commands="" options="" count=0 i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    if [[ $word == "=" ]]; then continue; fi
${WALK}
  done
  if [[ $current == "=" ]]; then current=""; fi
  case "$at" in
${cases.join('\n')}
  esac
  if [[ -z $kind ]]; then
    if [[ $current == -* ]]; then kind="words:$options"
    elif [[ -n $commands ]]; then kind="words:$commands"
    else kind="$(_postrider_position "$at" "$count")"
    fi
  fi
  local IFS=$'\\n'
  COMPREPLY=()
  case "$kind" in
    file) COMPREPLY=($(compgen -f -- "$current")) ;;
    dir) COMPREPLY=($(compgen -d -- "$current")) ;;
    words:*) IFS=$' \\n'; COMPREPLY=($(compgen -W "\${kind#words:}" -- "$current")) ;;
  esac
  case "$kind" in file | dir) compopt -o filenames 2>/dev/null ;; esac
  return 0
}
complete -F _postrider postrider
`
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

function zsh(places: readonly CompletionPlace[]): string {
  const root = must(places[0], 'The program itself')
  const list = (choices: readonly Choice[]): string =>
    choices.map(({ about, name }) => quoted(`${name}:${about}`)).join(' ')
  const cases = places.map(
    ({ commands, options, path }) =>
      `    "${path}")
      commands=(${list(commands)})
      options=(${list(path === '' ? options : [...options, ...root.options.slice(0, -1)])}) ;;`,
  )
  return `#compdef postrider
# postrider completion for zsh: source <(postrider completion zsh), or as _postrider in a directory of $fpath
${parser(places)}
_postrider() {
  local current="$words[CURRENT]" at="" kind="" word next count=0 i
  local -a commands options
  for ((i = 2; i < CURRENT; i++)); do
    word="\${(Q)words[i]}"
${WALK}
  done
  case "$at" in
${cases.join('\n')}
  esac
  if [[ -z $kind && $current == --*=* ]]; then
    kind="$(_postrider_value "$at" "\${current%%=*}")"
    compset -P '*='
  elif [[ -z $kind && $current == -* ]]; then
    _describe -o option options
    return
  elif [[ -z $kind && $#commands -gt 0 ]]; then
    _describe command commands
    return
  elif [[ -z $kind ]]; then
    kind="$(_postrider_position "$at" "$count")"
  fi
  case "$kind" in
    file) _files ;;
    dir) _files -/ ;;
    words:*) compadd -- \${=kind#words:} ;;
    *) _message 'a value' ;;
  esac
}
if [[ $funcstack[1] == _postrider ]]; then _postrider "$@"; else compdef _postrider postrider; fi
`
}

const SHELLS = { bash, zsh, fish }

/** The completion script of a shell. */
export const completionScript = (program: Command, shell: keyof typeof SHELLS): string =>
  SHELLS[shell](placesOf(program))

export function completionCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('completion')
    .description('print a completion script for your shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(Object.keys(SHELLS)))
    .action((shell: keyof typeof SHELLS) => invocation().terminal.out(completionScript(program, shell)))
}
