// npm run build [-- --arch x64|arm64] [--unstripped]: dist/postrider, one executable file for this machine, or
// dist/postrider-linux-ARCH. Prints its contents: the bundles and the ten largest packages.
import { statSync } from 'node:fs'
import { relative } from 'node:path'
import { parseArgs } from 'node:util'
import { messageOf } from '../src/base/errors.ts'
import { buildExecutable, executableFor, type Built } from './executable.ts'
import { ARCHITECTURES, isArchitecture, isNative, ROOT, type Architecture } from './node.ts'

const HEAVIEST = 10

function tell(arch: Architecture, { bundles, packages }: Built): void {
  const kb = (bytes: number): string => `${Math.round(bytes / 1000)} KB`
  for (const [name, { bytes }] of Object.entries(bundles)) console.log(`  ${name} ${kb(bytes)}`)
  console.log('The heaviest packages, in all bundles and assets together:')
  for (const [folder, bytes] of [...packages].slice(0, HEAVIEST)) console.log(`  ${folder} ${kb(bytes)}`)
  const file = executableFor(arch)
  const platform = isNative(arch) ? process.platform : 'linux'
  console.log(`${relative(ROOT, file)} for ${platform}-${arch}, ${(statSync(file).size / 1e6).toFixed(1)} MB`)
}

const options = { arch: { type: 'string', default: process.arch }, unstripped: { type: 'boolean' } } as const
const { arch, unstripped } = parseArgs({ options }).values
if (!isArchitecture(arch)) {
  console.error(`There is no build for "${arch}"; --arch takes ${ARCHITECTURES.join(' or ')}.`)
  process.exit(2)
}
try {
  tell(arch, await buildExecutable(arch, unstripped))
} catch (thrown) {
  console.error(`build: ${messageOf(thrown)}`)
  process.exitCode = 1
}
