// npm run build [-- --arch x64|arm64]: dist/postrider, one executable file for this machine, or
// dist/postrider-linux-ARCH.
import { statSync } from 'node:fs'
import { relative } from 'node:path'
import { parseArgs } from 'node:util'
import { buildExecutable, executableFor } from './executable.ts'
import { ARCHITECTURES, isArchitecture, isNative, ROOT } from './node.ts'

const { arch } = parseArgs({ options: { arch: { type: 'string', default: process.arch } } }).values
if (!isArchitecture(arch)) {
  console.error(`There is no build for "${arch}"; --arch takes ${ARCHITECTURES.join(' or ')}.`)
  process.exit(2)
}
await buildExecutable(arch)
const file = executableFor(arch)
const platform = isNative(arch) ? process.platform : 'linux'
console.log(`${relative(ROOT, file)} for ${platform}-${arch}, ${Math.round(statSync(file).size / 1e6)} MB`)
