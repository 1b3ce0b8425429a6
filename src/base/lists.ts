// What lists of values are asked for more than once.
import { must } from './errors.ts'

/** The value of a list with one value; undefined for any other list. */
export const sole = <Value>(list: readonly Value[]): Value | undefined => (list.length === 1 ? list[0] : undefined)

/** Each value of a list with the value at the same place of another list, which is as long. */
export const pairs = <One, Other>(list: readonly One[], others: readonly Other[]): [One, Other][] =>
  list.map((value, index) => [value, must(others[index], 'The other value of a pair')])
