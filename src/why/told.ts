// An explanation as text for a terminal.
import { forTerminal } from '../base/clean-text.ts'
import type { Explanation } from './explain.ts'

export function told({ asked, causes, kind, not_known, subject, summary }: Explanation): string {
  const because = causes.flatMap(({ cause, evidence, mend, rank, says, strength }) => [
    '',
    `${rank}. ${forTerminal(says)} (${cause.replaceAll('_', ' ')}, ${strength})`,
    `   -> ${forTerminal(mend)}`,
    ...evidence.map(({ at, source, text }) => `   ${at}  ${source}: ${forTerminal(text)}`),
  ])
  const open = not_known.flatMap(({ because: why, question }) => [
    '',
    `Not known: ${forTerminal(question)}`,
    `   ${forTerminal(why)}`,
  ])
  const of = (state: string): string[] =>
    asked
      .filter((each) => each.state === state)
      .map(({ rows, source }) => (state === 'read' ? `${source} (${rows})` : source))
  const lines = (['read', 'empty', 'off'] as const).flatMap((state) => {
    const names = of(state)
    return names.length === 0 ? [] : [`${state.charAt(0).toUpperCase()}${state.slice(1)}: ${names.join(', ')}.`]
  })
  return [`${kind} ${forTerminal(subject)}`, forTerminal(summary), ...because, ...open, '', ...lines].join('\n')
}
