// npm run lock [-- --node VERSION]: removes the packages' "engines" from package-lock.json. Run it after every change
// of the dependencies. With --node, it also changes the pinned Node, for all platforms or not at all.
//
// npm compares "engines" with the Node that npm runs on, which is not the Node that the packages run on: it would print
// dozens of warnings, and on Node 18 leave out optional packages that the linter needs. The machine's own Node only
// has to run npm, and the "engines" of package.json contains this requirement.
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { messageOf } from '../src/base/errors.ts'
import { npm } from './node.ts'

// Of the folder that it is run in, as npm does it.
const PROJECT = 'package.json'
const LOCK = 'package-lock.json'

const read = <T>(file: string): T => JSON.parse(readFileSync(file, 'utf8')) as T
const write = (file: string, content: unknown): void => writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`)

function withoutEngines(): void {
  const lock = read<{ packages: Record<string, { engines?: unknown }> }>(LOCK)
  let taken = 0
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (path === '' || entry.engines === undefined) continue
    delete entry.engines
    taken += 1
  }
  write(LOCK, lock)
  console.log(`${LOCK}: engines of ${taken} packages taken out`)
}

/** Names the version of Node in both files. Throws, and has changed neither, when a package of it is not to be had. */
function takeNode(version: string): void {
  const project = read<{ optionalDependencies: Record<string, string> }>(PROJECT)
  const names = Object.keys(project.optionalDependencies)
  const offered = names.map(
    (name) => new Set([JSON.parse(npm('view', name, 'versions', '--json', '--loglevel=error')) as string[]].flat()),
  )
  const absent = names.filter((_, n) => !offered[n]!.has(version))
  if (absent.length > 0) {
    const common = [...offered[0]!].filter((each) => offered.every((versions) => versions.has(each))).at(-1)
    const last = common === undefined ? 'they have no version in common' : `the last version that all have is ${common}`
    throw new Error(`The registry has no ${version} of ${absent.join(', ')}: nothing is changed; ${last}.`)
  }
  const former = [PROJECT, LOCK].map((file) => [file, readFileSync(file)] as const)
  try {
    for (const name of names) project.optionalDependencies[name] = version
    write(PROJECT, project)
    npm('install', '--silent', '--package-lock-only')
  } catch (thrown) {
    for (const [file, bytes] of former) writeFileSync(file, bytes)
    throw thrown
  }
  console.log(`${PROJECT}, ${LOCK}: Node ${version} of ${names.join(', ')}`)
}

try {
  const { node } = parseArgs({ options: { node: { type: 'string' } } }).values
  if (node !== undefined) takeNode(node)
  withoutEngines()
} catch (thrown) {
  console.error(`lock: ${messageOf(thrown)}`)
  process.exitCode = 1
}
