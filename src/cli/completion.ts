// `postrider completion bash|zsh|fish`: a completion script, made from the command table itself.
import { Argument, type Command } from 'commander'
import type { Invocation } from './open.ts'

/** "" -> the commands, "domain" -> its subcommands, each with its options. */
function words(program: Command): Map<string, string[]> {
  const found = new Map<string, string[]>()
  const visit = (command: Command, path: string[]): void => {
    const options = command.options.map(({ long }) => long).filter((long) => long !== undefined && long !== null)
    found.set(path.join(' '), [...command.commands.map((child) => child.name()), ...options, '--help'])
    for (const child of command.commands) visit(child, [...path, child.name()])
  }
  visit(program, [])
  return found
}

function bash(program: Command): string {
  const cases = [...words(program)].map(([path, list]) => `    "${path}") words="${list.join(' ')}" ;;`)
  return `# postrider completion for bash: source <(postrider completion bash)
_postrider() {
  local path="" word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) case " $(_postrider_paths) " in *" \${path:+\${path}_}$word "*) path="\${path:+$path }$word" ;; esac ;; esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
_postrider_paths() { echo "${[...words(program).keys()].map((path) => path.replaceAll(' ', '_')).join(' ')}"; }
complete -F _postrider postrider
`
}

const zsh = (program: Command): string =>
  `#compdef postrider\nautoload -U +X bashcompinit && bashcompinit\n${bash(program)}`

function fish(program: Command): string {
  const lines = [...words(program)].flatMap(([path, list]) => {
    const condition = path === '' ? '__fish_use_subcommand' : `__fish_seen_subcommand_from ${path.split(' ').at(-1)}`
    return list.map(
      (word) =>
        `complete -c postrider -f -n '${condition}' ${word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`}`,
    )
  })
  return `# postrider completion for fish: postrider completion fish | source\n${lines.join('\n')}\n`
}

const SHELLS = { bash, zsh, fish }

export function completionCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('completion')
    .description('print a completion script for your shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(Object.keys(SHELLS)))
    .action((shell: keyof typeof SHELLS) => invocation().terminal.out(SHELLS[shell](program)))
}
