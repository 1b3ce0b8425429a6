// Takes the packages' "engines" out of package-lock.json; run it after every change of the dependencies (npm run lock).
//
// npm holds them against the Node that npm runs on, which is not the Node that the packages run on: it would print
// dozens of warnings, and on Node 18 leave out optional packages that the linter needs. What the machine's own Node
// must be good enough for is npm, and that the "engines" of package.json says.
import { readFileSync, writeFileSync } from 'node:fs'

const FILE = new URL('../package-lock.json', import.meta.url)

interface Lock {
  packages: Record<string, { engines?: unknown }>
}

const lock = JSON.parse(readFileSync(FILE, 'utf8')) as Lock
let taken = 0
for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === '' || entry.engines === undefined) continue
  delete entry.engines
  taken += 1
}
writeFileSync(FILE, `${JSON.stringify(lock, null, 2)}\n`)
console.log(`package-lock.json: engines of ${taken} packages taken out`)
