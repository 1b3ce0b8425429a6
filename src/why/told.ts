// An explanation as text for a terminal.
import { forTerminal } from '../base/clean-text.ts'
import type { AskedSource, Explanation } from './explain.ts'
import type { Strength } from './evidence.ts'

/** How sure a cause is, in words before it; what the words of a receiver or a record say needs none. */
const SURE: Record<Strength, string> = { shown: '', likely: 'Likely: ', possible: 'Possibly: ' }

const STATES: Record<AskedSource['state'], string> = {
  read: 'Looked at (and how much was found)',
  empty: 'Looked at, nothing found',
  off: 'Not available here',
}

/** `verbose`: with the names of causes and of all that was looked at. */
export function told(
  { asked, causes, kind, not_known, subject, summary }: Explanation,
  { verbose = false }: { verbose?: boolean } = {},
): string {
  const because = causes.flatMap(({ cause, evidence, mend, rank, says, strength }) => [
    '',
    `${rank}. ${SURE[strength]}${forTerminal(says)}${verbose ? ` (${cause.replaceAll('_', ' ')})` : ''}`,
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
    return names.length === 0 ? [] : [`${STATES[state]}: ${names.join(', ')}.`]
  })
  const sources = verbose ? ['', ...lines] : []
  return [`${kind} ${forTerminal(subject)}`, forTerminal(summary), ...because, ...open, ...sources].join('\n')
}
