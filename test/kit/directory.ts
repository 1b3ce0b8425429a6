// A directory for the files of a test.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const directories: string[] = []

// A process that a test killed may still be writing, so a directory that is not empty yet is tried again.
process.once('exit', () => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
})

/** Returns the path of a new, empty directory. It is removed when the process of the test ends. */
export function temporaryDirectory(name = 'test'): string {
  const directory = mkdtempSync(join(tmpdir(), `postrider-${name}-`))
  directories.push(directory)
  return directory
}
