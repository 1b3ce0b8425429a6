// Writes CSV.

/** A cell that a spreadsheet would run as a formula gets a leading apostrophe (D81). */
const safe = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)
const quoted = (cell: string): string => (/[",;\t\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** One record with its line end (RFC 4180), as it is. */
export const csvRecord = (cells: readonly (string | null)[]): string =>
  `${cells.map((cell) => quoted(cell ?? '')).join(',')}\r\n`

/** One record for a spreadsheet: formulas are made harmless. */
export const csvLine = (cells: readonly string[]): string => csvRecord(cells.map(safe))
