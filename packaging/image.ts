// npm run image [-- --update] [--unstripped] [--tree DIRECTORY]: dist/postrider_VERSION_oci.tar, the image for amd64
// and arm64. Podman builds it from the Containerfile, with a base of Debian packages (packaging/image/base.json), so
// that no registry is needed. The same sources and the same Podman result in the same bytes.
//
// With --tree, it only writes the contents of the Containerfile's stage "program", for this machine.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { messageOf } from '../src/base/errors.ts'
import { version } from '../src/base/version.ts'
import { readChangelog } from './changelog.ts'
import { addonFor, buildExecutable, DIST, executableFor } from './executable.ts'
import { ARCHITECTURES, updateBase, writeBase, writeFile, type Debian } from './image/base.ts'
import { demandTools, isNative, ROOT, type Architecture } from './node.ts'
import { thirdParty } from './third-party.ts'

/** The user in the image, as in the Containerfile. */
const USER = 10025
const HOME = 'var/lib/postrider'
const NODE: Record<Debian, Architecture> = { amd64: 'x64', arm64: 'arm64' }
const BASE = 'localhost/postrider-base'
const NAME = 'localhost/postrider'

/** Writes the program and its data directory. */
async function writeProgram(arch: Debian, folder: string): Promise<void> {
  const { packages } = await buildExecutable(NODE[arch], unstripped)
  const put = (path: string, content: string | Buffer, mode?: number): void =>
    writeFile(join(folder, 'program', path), content, mode)
  const doc = 'usr/share/doc/postrider'
  put('usr/bin/postrider', readFileSync(executableFor(NODE[arch])), 0o755)
  put('usr/lib/postrider/better_sqlite3.node', readFileSync(addonFor(NODE[arch])))
  put('usr/lib/postrider/built-from', 'image\n')
  put(`${doc}/copyright`, readFileSync(join(ROOT, 'packaging/debian/copyright')))
  put(`${doc}/third-party-licences.gz`, gzipSync(thirdParty([...packages.keys()].sort())))
  put('etc/passwd', `root:x:0:0:root:/root:/sbin/nologin\npostrider:x:${USER}:${USER}::/${HOME}:/sbin/nologin\n`)
  put('etc/group', `root:x:0:\npostrider:x:${USER}:\n`)
  mkdirSync(join(folder, 'program/var/lib'), { recursive: true })
  mkdirSync(join(folder, 'data/postrider'), { recursive: true, mode: 0o700 })
}

/** The commit that is built, or '' outside a checkout. */
function revision(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, stdio: 'pipe', encoding: 'utf8' }).trim()
  } catch {
    return ''
  }
}

async function makeImage(place: string): Promise<void> {
  demandTools(['podman', 'skopeo'].map((program) => ({ program, debian: program })))
  const time = Date.parse(`${readChangelog(version)[0]!.date}T12:00:00Z`) / 1000
  const run = (program: string, ...args: string[]): void =>
    void execFileSync(program, args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] })
  // A separate storage, so that the user's is not changed.
  const storage = ['--root', join(place, 'store'), '--runroot', join(place, 'run'), '--storage-driver', 'vfs']
  const podman = (...args: string[]): void => run('podman', '--log-level', 'error', ...storage, ...args)
  const labels = { version, revision: revision() }
  const labelled = Object.entries(labels).flatMap(([key, value]) => [
    '--label',
    `org.opencontainers.image.${key}=${value}`,
  ])
  for (const arch of ARCHITECTURES) {
    const folder = join(place, arch)
    writeBase(arch, join(folder, 'base'))
    await writeProgram(arch, folder)
    const common = ['build', '--quiet', '--layers=false', '--timestamp', `${time}`, '--platform', `linux/${arch}`]
    podman(...common, '--file', 'packaging/image/Containerfile', '--tag', `${BASE}:${arch}`, join(folder, 'base'))
    const replaced = ['--build-arg', `BASE=${BASE}:${arch}`, '--build-context', `program=${folder}`]
    podman(...common, ...labelled, ...replaced, '--manifest', `${NAME}:${version}`, '.')
  }
  const layout = join(place, 'layout')
  podman('manifest', 'push', '--quiet', '--all', '--format', 'oci', `${NAME}:${version}`, `oci:${layout}:${version}`)
  for (const tag of [version.split('.').slice(0, 2).join('.'), 'latest'])
    run('skopeo', 'copy', '--quiet', '--all', `oci:${layout}:${version}`, `oci:${layout}:${tag}`)
  const file = join(DIST, `postrider_${version}_oci.tar`)
  mkdirSync(DIST, { recursive: true })
  const fixed = ['--sort=name', '--format=ustar', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX']
  run('tar', ...fixed, `--mtime=@${time}`, '-C', layout, '-cf', file, 'blobs', 'index.json', 'oci-layout')
  console.log(
    `${relative(ROOT, file)}, ${(statSync(file).size / 1e6).toFixed(1)} MB for ${ARCHITECTURES.join(' and ')}`,
  )
}

const { tree, unstripped, update } = parseArgs({
  options: {
    tree: { type: 'string' },
    unstripped: { type: 'boolean', default: false },
    update: { type: 'boolean' },
  },
}).values
try {
  if (update) updateBase()
  else if (tree !== undefined)
    await writeProgram(
      ARCHITECTURES.find((arch) => isNative(NODE[arch]))!,
      tree,
    )
  else {
    const place = mkdtempSync(join(tmpdir(), 'postrider-image-'))
    try {
      await makeImage(place)
    } finally {
      // Files of a user's containers belong to other ids.
      if (process.getuid?.() === 0) rmSync(place, { recursive: true, force: true })
      else execFileSync('podman', ['unshare', 'rm', '-rf', place])
    }
  }
} catch (thrown) {
  console.error(`image: ${messageOf(thrown)}`)
  process.exitCode = 1
}
