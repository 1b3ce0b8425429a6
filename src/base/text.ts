// Pieces of a text.

/** A text up to the first `end`; the whole text when it has none. */
export const upTo = (text: string, end: string | RegExp): string => text.split(end, 1)[0] ?? text

/** A text after the last `mark`, one character; the whole text when it has none. */
export const afterLast = (text: string, mark: string): string => text.slice(text.lastIndexOf(mark) + 1)

/** A text with its first letter as a capital. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** A figure with its noun: "1 day", "2 days". */
export const counted = (value: number, noun: string): string => `${value} ${noun}${value === 1 ? '' : 's'}`
