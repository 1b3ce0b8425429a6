// The image in a registry: Debian's docker-registry accepts both architectures from skopeo, and Podman and skopeo pull
// them by each tag, as documented in docs/install.md. setup.sh unpacks the registry and does not install it.
import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { version } from '../../src/base/version.ts'
import { withPrograms } from './rig/need.ts'

const REGISTRY = join(process.env['POSTRIDER_REGISTRY'] ?? '/var/tmp/postrider-registry', 'usr/bin/docker-registry')
const ARCHIVE = join(import.meta.dirname, `../../dist/postrider_${version}_oci.tar`)
const absent = [
  ...['skopeo', 'podman', 'runc'].filter((program) => spawnSync(program, ['--version']).error),
  ...(existsSync(REGISTRY) ? [] : ['docker-registry']),
  ...(existsSync(ARCHIVE) ? [] : ['the image (npm run image)']),
]

const run = promisify(execFile)

interface Registry extends AsyncDisposable {
  host: string
  folder: string
}

/** A registry on a free port of loopback, with its store in a folder that goes with it. */
async function startRegistry(): Promise<Registry> {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-registry-'))
  const settings = join(folder, 'registry.yml')
  writeFileSync(
    settings,
    `version: 0.1\nstorage: {filesystem: {rootdirectory: ${join(folder, 'store')}}}\nhttp: {addr: "127.0.0.1:0"}\n`,
  )
  const child = spawn(REGISTRY, ['serve', settings], { stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const host = await new Promise<string>((resolve, reject) => {
    createInterface(child.stderr).on('line', (line) => {
      const [, at] = /listening on (127\.0\.0\.1:\d+)/.exec(line) ?? []
      if (at !== undefined) resolve(at)
    })
    void ended.then(() => reject(new Error('the registry ended before it listened')))
  })
  return {
    host,
    folder,
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

withPrograms('a registry', absent, () => {
  test('accepts the image of both architectures, which runs after an anonymous pull by each tag', async () => {
    await using registry = await startRegistry()
    const { folder, host } = registry
    const names = [version, version.replace(/\.\d+$/, ''), 'latest']
    const url = (name: string): string => `docker://${host}/postrider:${name}`
    const inspected = async (name: string, ...options: string[]): Promise<string> =>
      (await run('skopeo', ['inspect', ...options, '--tls-verify=false', url(name)])).stdout
    for (const name of names)
      await run('skopeo', [
        'copy',
        '-q',
        '--all',
        '--dest-tls-verify=false',
        '--preserve-digests',
        `oci-archive:${ARCHIVE}:${name}`,
        url(name),
      ])
    const made = (await run('skopeo', ['inspect', '--raw', `oci-archive:${ARCHIVE}:${version}`])).stdout
    for (const name of names) assert.equal(await inspected(name, '--raw'), made, `the index ${name} is another`)
    for (const arch of ['amd64', 'arm64']) {
      const { Architecture, Labels } = JSON.parse(await inspected('latest', '--override-arch', arch))
      assert.equal(Architecture, arch)
      assert.equal(Labels['org.opencontainers.image.version'], version)
    }
    // An engine of its own: nothing of it stays.
    for (const part of ['tmp', 'images']) mkdirSync(join(folder, part))
    const places = [
      '--root',
      join(folder, 'images'),
      '--runroot',
      join(folder, 'run'),
      '--tmpdir',
      join(folder, 'engine'),
    ]
    const settings = '--storage-driver vfs --runtime runc --cgroup-manager cgroupfs --events-backend none'.split(' ')
    const engine = (...words: string[]) =>
      run('podman', [...places, ...settings, ...words], { env: { ...process.env, TMPDIR: join(folder, 'tmp') } })
    const image = `${host}/postrider:${names[1]}`
    await engine('pull', '-q', '--tls-verify=false', image)
    const hardened = ['--read-only', '--network', 'none', '--cap-drop', 'all', '--security-opt', 'no-new-privileges']
    const limits = ['--ulimit', 'nofile=4096:4096', '--ulimit', 'nproc=4096:4096']
    const said = await engine('run', '--rm', ...hardened, ...limits, image, 'version', '--json')
    const { arch, built_from, version: ran } = JSON.parse(said.stdout)
    assert.deepEqual({ arch, built_from, ran }, { arch: process.arch, built_from: 'image', ran: version })
  })
})
