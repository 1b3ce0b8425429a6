// Helpers for lists of values.
import { must } from './errors.ts'

/** The value of a list with one value, or undefined for any other list. */
export const sole = <Value>(list: readonly Value[]): Value | undefined => (list.length === 1 ? list[0] : undefined)

/** Pairs each value of a list with the value at the same index of another list of the same length. */
export const pairs = <One, Other>(list: readonly One[], others: readonly Other[]): [One, Other][] =>
  list.map((value, index) => [value, must(others[index], 'The other value of a pair')])
