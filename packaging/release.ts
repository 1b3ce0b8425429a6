// npm run release -- [--key ID] [--url URL] [--minisign FILE] [--repository DIRECTORY]: builds a release in dist/: the
// packages and their tar archives, the image, the bills of materials, SHA256SUMS with its signature, and the apt
// repository with the packages. Without a key, a test key signs. .github/workflows/release.yml runs it for a tag.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { releaseKey } from '../src/archive/signature.ts'
import { messageOf } from '../src/base/errors.ts'
import { version } from '../src/base/version.ts'
import { DIST } from './executable.ts'
import { minisignKey } from './signing.ts'
import { signSums, writeSums } from './sums.ts'

const { values } = parseArgs({
  options: {
    key: { type: 'string' },
    url: { type: 'string' },
    minisign: { type: 'string' },
    repository: { type: 'string', default: join(DIST, 'repository') },
  },
})
const run = (step: string, ...args: string[]): void => {
  execFileSync(process.execPath, [join(import.meta.dirname, `${step}.ts`), ...args], { stdio: 'inherit' })
}
const option = (name: 'key' | 'url'): string[] => (values[name] === undefined ? [] : [`--${name}`, values[name]])

try {
  const { publicKey, secret } = minisignKey(values.minisign)
  // First, because the program contains the key and must be able to verify its own release.
  if (publicKey === undefined && !/^RW/m.test(releaseKey()))
    throw new Error('config/release-key.pub contains no key; write the public key to it first.')
  run('package', '--all')
  for (const step of ['image', 'sbom']) run(step)
  const files = writeSums(DIST, version)
  signSums(DIST, version, secret, publicKey ?? releaseKey())
  run('repository', ...option('key'), ...option('url'), values.repository)
  console.log(`Postrider ${version}: ${[...files, 'SHA256SUMS', 'SHA256SUMS.minisig'].join(', ')} in dist/`)
} catch (thrown) {
  console.error(`release: ${messageOf(thrown)}`)
  process.exitCode = 1
}
