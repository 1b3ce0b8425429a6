// Several test files in one process. Each file is a separate suite, so that its hooks run only before and after its own
// tests. Loading the code takes half a second of CPU time. Here it is loaded once for the tests of many files, and
// these run faster, because the code is compiled by then.
import { readFileSync } from 'node:fs'
import { describe } from 'node:test'

const ROOT = new URL('../../', import.meta.url)

/** Lines of tests in one process: enough that its start does not matter, and few enough to use all processors. */
const LINES = 4000

/** Divides test files, named from the root, into the groups that share a process. */
export function grouped(files: readonly string[]): string[][] {
  const groups: string[][] = []
  let lines = Infinity
  for (const file of files.toSorted()) {
    const more = readFileSync(new URL(file, ROOT), 'utf8').split('\n').length
    if (lines + more > LINES) {
      groups.push([])
      lines = 0
    }
    groups.at(-1)!.push(file)
    lines += more
  }
  return groups
}

/** Runs test files in this process, one after the other. */
export function together(files: readonly string[]): void {
  for (const file of files)
    describe(file, async () => {
      await import(new URL(file, ROOT).href)
    })
}
