// What commands print: text for a person, or with --json one document on stdout and nothing else there.

export interface Terminal {
  json: boolean
  out: (text: string) => void
  err: (text: string) => void
  /** Where stdout is a terminal: colours, prompts and progress bars make sense. */
  interactive: boolean
}

/** Prints an answer: the document with --json, else what `human` makes of it. */
export function answer<T>(terminal: Terminal, document: T, human: (document: T) => string): void {
  const text = terminal.json ? JSON.stringify(document) : human(document)
  terminal.out(text.endsWith('\n') ? text : `${text}\n`)
}

/** Columns under their heads, as wide as they need. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  const cells = [heads, ...rows.map((row) => row.map((cell) => (cell === null ? '-' : String(cell))))]
  const widths = heads.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  return cells
    .map((row) =>
      row
        .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
