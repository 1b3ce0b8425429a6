// Writes one file for each group of test files that share a process (kit/together.ts) and prints their names, for
// unit.sh.
import { globSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { grouped } from './kit/together.ts'

const ROOT = join(import.meta.dirname, '..')
const FOLDER = '.tests'
/** Tests that kill, break and flood whole servers take long: they have a command of their own. */
const SWEEPS = ['crash', 'faults', 'hostile']

mkdirSync(join(ROOT, FOLDER), { recursive: true })
const tests = globSync('test/**/*.test.ts', { cwd: ROOT, exclude: SWEEPS.map((folder) => `test/${folder}`) })
for (const [index, files] of grouped(tests).entries()) {
  const name = `${FOLDER}/group-${String(index + 1).padStart(2, '0')}.test.mjs`
  const draft = join(ROOT, `${name}.${process.pid}`)
  writeFileSync(
    draft,
    `import { together } from '../test/kit/together.ts'\ntogether(${JSON.stringify(files, null, 2)})\n`,
  )
  // Another run may be reading the file: it is replaced at once.
  renameSync(draft, join(ROOT, name))
  console.log(name)
}
