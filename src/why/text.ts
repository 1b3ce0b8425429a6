// An explanation as text for a terminal.
import { forTerminal } from '../base/clean-text.ts'
import type { ReadSource, Explanation } from './explain.ts'
import type { Confidence } from './evidence.ts'

/** The confidence before a cause. Empty if a reply or a record proves it. */
const SURE: Record<Confidence, string> = { confirmed: '', likely: 'Likely: ', possible: 'Possibly: ' }

const STATES: Record<ReadSource['state'], string> = {
  read: 'Checked (number of results)',
  empty: 'Checked, no results',
  unavailable: 'Not available',
}

/** `verbose`: includes the names of causes and the sources. */
export function explanationText(
  { causes, kind, sources, subject, summary, unknowns }: Explanation,
  { verbose = false }: { verbose?: boolean } = {},
): string {
  // The summary ends with the message of the first cause, which follows below.
  const [first] = causes
  const status = first && summary.endsWith(first.message) ? summary.slice(0, -first.message.length).trim() : summary
  const because = causes.flatMap(({ cause, confidence, evidence, fix, message, rank }) => [
    '',
    `${rank}. ${SURE[confidence]}${forTerminal(message)}${verbose ? ` (${cause.replaceAll('_', ' ')})` : ''}`,
    `   -> ${forTerminal(fix)}`,
    ...evidence.map(({ at, source, text }) => `   ${at}  ${source}: ${forTerminal(text)}`),
  ])
  const open = unknowns.flatMap(({ question, reason }) => [
    '',
    `Unknown: ${forTerminal(question)}`,
    `   ${forTerminal(reason)}`,
  ])
  const of = (state: string): string[] =>
    sources
      .filter((each) => each.state === state)
      .map(({ rows, source }) => (state === 'read' ? `${source} (${rows})` : source))
  const lines = (['read', 'empty', 'unavailable'] as const).flatMap((state) => {
    const names = of(state)
    return names.length === 0 ? [] : [`${STATES[state]}: ${names.join(', ')}.`]
  })
  const read = verbose ? ['', ...lines] : []
  return [`${kind} ${forTerminal(subject)}`, forTerminal(status), ...because, ...open, ...read].join('\n')
}
