// The completion script for fish: one line for each completion, with a condition on the words before the cursor.
import { must } from '../base/errors.ts'
import type { ArgumentKind, CompletionPlace } from './completion-places.ts'

const quoted = (text: string): string => `'${text.replaceAll(/[\\']/g, '\\$&')}'`

/** The fish options for a value. */
const values = (kind: ArgumentKind): string =>
  kind === 'file'
    ? '-r -F'
    : kind === 'dir'
      ? `-x -a '(__fish_complete_directories)'`
      : kind === 'any'
        ? '-x'
        : `-x -a ${quoted(kind.join(' '))}`

/** `__postrider_at PATH [COUNT]`: whether the words before the cursor are this command, with COUNT arguments so far. */
const AT = `function __postrider_at
    set -l tokens (commandline -opc)
    set -e tokens[1]
    set -l at ''
    set -l count 0
    set -l skip 0
    for token in $tokens
        if test $skip -eq 1
            set skip 0
            continue
        end
        switch $token
            case '--*=*'
            case '-?*'
                if contains -- "$at|$token" $__postrider_valued; or contains -- "|$token" $__postrider_valued
                    set skip 1
                end
            case '*'
                set -l next (string trim -- "$at $token")
                if contains -- "$next" $__postrider_paths
                    set at $next
                    set count 0
                else
                    set count (math $count + 1)
                end
        end
    end
    test (string replace -a ' ' / -- "$at") = (string trim -c / -- $argv[1]); or return 1
    test (count $argv) -lt 2; or test $count -eq $argv[2]
end
`

/** The completions after one command: options (the program's own are valid everywhere), subcommands and arguments. */
function completionsAt({ commands, options, path, places: kinds }: CompletionPlace, root: CompletionPlace): string[] {
  const here = path === '' ? '' : ` -n ${quoted(`__postrider_at ${path.replaceAll(' ', '/')}`)}`
  return [
    ...options
      .filter((option) => path === '' || !root.options.some(({ name }) => name === option.name))
      .map(
        ({ about, kind, name }) =>
          `complete -c postrider${here} -l ${name.slice(2)}${kind ? ` ${values(kind)}` : ''} -d ${quoted(about)}`,
      ),
    ...commands.map(
      ({ about, name }) =>
        `complete -c postrider -n ${quoted(`__postrider_at ${path === '' ? '/' : path.replaceAll(' ', '/')} 0`)} -a ${name} -d ${quoted(about)}`,
    ),
    ...kinds.flatMap((kind, index) => {
      const there = `complete -c postrider -n ${quoted(`__postrider_at ${path.replaceAll(' ', '/')} ${index}`)}`
      return kind === 'any'
        ? []
        : kind === 'file'
          ? [`${there} -F`]
          : kind === 'dir'
            ? [`${there} -a '(__fish_complete_directories)'`]
            : [`${there} -a ${quoted(kind.join(' '))}`]
    }),
  ]
}

export function fish(places: readonly CompletionPlace[]): string {
  const root = must(places[0], 'The program itself')
  const valued = places.flatMap(({ options, path }) =>
    options.flatMap(({ kind, name }) => (kind ? [quoted(`${path}|${name}`)] : [])),
  )
  const lines = places.flatMap((place) => completionsAt(place, root))
  return `# postrider completion for fish: postrider completion fish | source
set -g __postrider_paths ${places
    .slice(1)
    .map(({ path }) => quoted(path))
    .join(' ')}
set -g __postrider_valued ${valued.join(' ')}
${AT}complete -c postrider -f
${lines.join('\n')}
`
}
