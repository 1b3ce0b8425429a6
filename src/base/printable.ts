// Text from strangers for a line of output: a terminal, a message, a table cell.

/** Control characters (C0, DEL, C1), line and paragraph separators, and the controls of bidirectional text (UAX #9). */
export const CONTROLS = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu
export const HOLE = '\u{fffd}'

/** Text from strangers, made safe for a terminal, on one line. */
export const printable = (text: string): string => text.replaceAll(CONTROLS, HOLE)
