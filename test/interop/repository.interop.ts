// The apt repository, with apt over HTTP on loopback and from files. The state of apt and its installation root are
// temporary directories, so this machine does not change.
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, normalize } from 'node:path'
import { after, before, test } from 'node:test'
import { version } from '../../src/base/version.ts'
import { SMALL_PROGRAM, smallDeb } from './rig/deb.ts'
import { passBy, withPrograms } from './rig/need.ts'

const ROOT = join(import.meta.dirname, '../..')
const SCRIPT = join(ROOT, 'packaging/repository.ts')
const ARCHITECTURES = ['amd64', 'arm64']
const DISTS = 'dists/stable'
const POOL = 'pool/main/p/postrider'
const PROGRAMS = ['apt-get', 'dpkg-deb', 'gpg', 'unshare', 'curl']

const absent = PROGRAMS.filter((program) => spawnSync(program, ['--version']).error)
const place = mkdtempSync(join(tmpdir(), 'postrider-repository-'))
const at = (...path: string[]): string => join(place, ...path)

// Serves the folders below `place`, and notes what was asked for.
const asked: string[] = []
const server = createServer(({ url = '' }, response) => {
  asked.push(url)
  const file = at('www', normalize(decodeURIComponent(url)))
  if (existsSync(file)) response.end(readFileSync(file))
  else response.writeHead(404).end()
})

const deb = (release: string, architecture: string): string => smallDeb(place, release, architecture)

/** A folder of gpg with a key of that name. */
function keyring(name: string): NodeJS.ProcessEnv {
  const env = { ...process.env, GNUPGHOME: at(name) }
  mkdirSync(at(name), { mode: 0o700 })
  const args = ['--batch', '--passphrase', '', '--quick-gen-key', name, 'ed25519', 'sign', '2y']
  execFileSync('gpg', args, { env, stdio: 'ignore' })
  return env
}

const url = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

/** Makes or extends the repository that is served under that name. */
function repository(name: string, env: NodeJS.ProcessEnv, debs: readonly string[], more: readonly string[] = []): void {
  const args = [SCRIPT, '--key', 'one', '--url', `${url()}/${name}`, ...more, at('www', name), ...debs]
  execFileSync(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
}

interface Ran {
  code: number
  said: string
}

/** Runs a program with an apt configuration. Returns its exit code and output. */
const ran = async (program: string, args: readonly string[], configuration: string, cwd = place): Promise<Ran> =>
  await new Promise((resolve) => {
    const env = { ...process.env, APT_CONFIG: configuration, LC_ALL: 'C' }
    execFile(program, [...args], { env, cwd }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), said: stdout + stderr }),
    )
  })

interface Machine {
  apt: (...args: string[]) => Promise<Ran>
  /** The version that is installed. */
  installed: () => string
  downloads: string
  configuration: string
}

let machines = 0
/** A machine with only these sources. */
function machine(sources: string): Machine {
  const own = at(`machine${machines++}`)
  const inside = (...path: string[]): string => join(own, ...path)
  for (const folder of [
    'etc/sources.list.d',
    'etc/apt.conf.d',
    'etc/preferences.d',
    'state/lists/partial',
    'cache/archives/partial',
    'log',
    'downloads',
  ])
    mkdirSync(inside(folder), { recursive: true })
  for (const folder of ['info', 'updates']) mkdirSync(inside('root/var/lib/dpkg', folder), { recursive: true })
  writeFileSync(inside('root/var/lib/dpkg/status'), '')
  writeFileSync(inside('etc/sources.list.d/postrider.sources'), sources)
  const native = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
  const settings = {
    'Dir::Etc': inside('etc'),
    'Dir::State': inside('state'),
    'Dir::State::status': inside('root/var/lib/dpkg/status'),
    'Dir::Cache': inside('cache'),
    'Dir::Log': inside('log'),
    'APT::Architecture': native,
    'APT::Sandbox::User': 'root',
    'Acquire::http::Proxy': 'DIRECT',
    'Acquire::Retries': '0',
    // Some machines turn these off.
    'Acquire::Check-Valid-Until': 'true',
    'Acquire::Check-Date': 'true',
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`)
  lines.push(`APT::Architectures { ${ARCHITECTURES.map((each) => `"${each}"; `).join('')}};\n`)
  lines.push(`DPkg::Options { "--root=${inside('root')}"; "--force-not-root"; "--log=/dev/null"; };\n`)
  const configuration = inside('apt.conf')
  writeFileSync(configuration, lines.join(''))
  return {
    apt: async (...args) => await ran('apt-get', args, configuration, inside('downloads')),
    installed: () => readFileSync(inside('root', SMALL_PROGRAM), 'utf8').split(' ')[0]!,
    downloads: inside('downloads'),
    configuration,
  }
}

const sourcesOf = (name: string): string => readFileSync(at('www', name, 'postrider.sources'), 'utf8')
const hash = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

async function well(command: Promise<Ran>): Promise<void> {
  const { code, said } = await command
  assert.equal(code, 0, said)
  assert.doesNotMatch(said, /^[WE]:/m)
}

withPrograms('the apt repository', absent, () => {
  let one: NodeJS.ProcessEnv
  let former: string[]

  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    one = keyring('one')
    former = ARCHITECTURES.map((each) => deb('1.9.0', each))
    repository('good', one, former)
  })
  after(() => {
    server.close()
    for (const home of ['one', 'other'])
      spawnSync('gpgconf', ['--kill', 'all'], { env: { ...process.env, GNUPGHOME: at(home) } })
    rmSync(place, { recursive: true, force: true })
  })

  test('installs, and serves each package as it was built', async () => {
    const fresh = machine(sourcesOf('good'))
    await well(fresh.apt('update'))
    assert.ok(asked.some((path) => path.includes('/by-hash/SHA256/')))
    await well(fresh.apt('install', '-y', 'postrider'))
    assert.equal(fresh.installed(), '1.9.0')
    // The origin that unattended-upgrades requires: "origin=Postrider,codename=stable".
    assert.match((await ran('apt-cache', ['policy'], fresh.configuration)).said, /\bo=Postrider,.*\bn=stable,/)
    for (const [n, architecture] of ARCHITECTURES.entries()) {
      await well(fresh.apt('download', `postrider:${architecture}`))
      assert.equal(hash(join(fresh.downloads, `postrider_1.9.0_${architecture}.deb`)), hash(former[n]!))
    }
  })

  test('upgrades a machine with an older version, which stays available', async () => {
    repository('growing', one, former)
    const old = machine(sourcesOf('growing'))
    await well(old.apt('update'))
    await well(old.apt('install', '-y', 'postrider'))
    const folder = at('www/growing', DISTS, 'main/binary-amd64/by-hash/SHA256')
    const before = readdirSync(folder)
    repository(
      'growing',
      one,
      ARCHITECTURES.map((each) => deb('1.10.0', each)),
    )
    await well(old.apt('update'))
    await well(old.apt('upgrade', '-y'))
    assert.equal(old.installed(), '1.10.0')
    await well(old.apt('download', 'postrider=1.9.0'))
    // Who has the former InRelease still gets what it names; what is older goes.
    for (const name of before) assert.ok(readdirSync(folder).includes(name), name)
    repository(
      'growing',
      one,
      ARCHITECTURES.map((each) => deb('1.11.0', each)),
    )
    for (const name of before) assert.ok(!readdirSync(folder).includes(name), name)
  })

  test('a version in the pool never changes', () => {
    const changed = ARCHITECTURES.map((each) => at(`changed-${each}.deb`))
    for (const [n, file] of changed.entries())
      writeFileSync(file, Buffer.concat([readFileSync(former[n]!), Buffer.from('\n')]))
    assert.throws(() => repository('good', one, changed), /exists with other contents.*another version/)
  })

  test('serves the built packages of this release for both architectures', async (t) => {
    const built = ARCHITECTURES.map((each) => join(ROOT, `dist/postrider_${version}_${each}.deb`))
    if (!built.every((file) => existsSync(file))) return passBy(t, 'npm run package has made no packages')
    repository('release', one, [])
    const fresh = machine(sourcesOf('release'))
    await well(fresh.apt('update'))
    for (const [n, architecture] of ARCHITECTURES.entries()) {
      await well(fresh.apt('download', `postrider:${architecture}`))
      assert.equal(hash(join(fresh.downloads, `postrider_${version}_${architecture}.deb`)), hash(built[n]!))
    }
  })

  test('a directory works as a repository', async () => {
    const local = machine(sourcesOf('good').replace(/^URIs: .*$/m, `URIs: file:${at('www/good')}`))
    await well(local.apt('update'))
    await well(local.apt('install', '-y', 'postrider'))
  })

  /** A copy of the good repository in which a file was changed. */
  function changed(name: string, change: (text: Buffer) => Buffer, files: RegExp): string {
    cpSync(at('www/good'), at('www', name), { recursive: true })
    const paths = readdirSync(at('www', name), { recursive: true, encoding: 'utf8' }).filter((path) => files.test(path))
    assert.ok(paths.length > 0)
    for (const path of paths) {
      const file = at('www', name, path)
      writeFileSync(file, change(readFileSync(file)))
    }
    return sourcesOf('good').replace('/good', `/${name}`)
  }
  const flipped = (bytes: Buffer): Buffer => {
    const other = Buffer.from(bytes)
    other.writeUInt8(other.readUInt8(other.length - 10) ^ 1, other.length - 10)
    return other
  }

  const refusals: [name: string, sources: () => string, why: RegExp][] = [
    [
      'another key',
      () => {
        const env = keyring('other')
        execFileSync('gpg', ['--batch', '--passphrase', '', '--quick-gen-key', 'one', 'ed25519', 'sign', '2y'], {
          env,
          stdio: 'ignore',
        })
        repository('foreign', env, former)
        return sourcesOf('good').replace('/good', '/foreign')
      },
      /NO_PUBKEY[^]*is not signed/,
    ],
    [
      'changed indexes',
      () => changed('indexes', flipped, /\/(?:Packages(?:\.gz)?|[0-9a-f]{64})$/),
      /(?:Hash Sum mismatch|unexpected size)/,
    ],
    [
      'a changed InRelease',
      () =>
        changed('signed', (bytes) => Buffer.from(bytes.toString().replace('Postrider', 'Postridex')), /\/InRelease$/),
      /BADSIG|invalid/,
    ],
    [
      'indexes whose time is over',
      () => {
        const env = { ...one, SOURCE_DATE_EPOCH: `${Math.floor(Date.now() / 1000) - 91 * 86_400}` }
        repository('expired', env, former)
        return sourcesOf('expired')
      },
      /Release file .* is expired/,
    ],
  ]
  for (const [name, sources, why] of refusals)
    test(`apt rejects ${name}`, async () => {
      const wary = machine(sources())
      const { code, said } = await wary.apt('update')
      assert.match(said, why)
      assert.notEqual(code, 0, said)
      assert.notEqual((await wary.apt('install', '-y', 'postrider')).code, 0)
    })

  test('apt rejects a changed package', async () => {
    const wary = machine(changed('package', flipped, new RegExp(`^${POOL}/.*\\.deb$`)))
    await well(wary.apt('update'))
    const { code, said } = await wary.apt('install', '-y', 'postrider')
    assert.match(said, /Hash Sum mismatch/)
    assert.notEqual(code, 0)
  })

  test('apt accepts expired indexes after they are signed again', async () => {
    repository('again', { ...one, SOURCE_DATE_EPOCH: '1000000000' }, former)
    const patient = machine(sourcesOf('again'))
    assert.match((await patient.apt('update')).said, /Release file .* is expired/)
    repository('again', one, [], ['--sign-only'])
    await well(patient.apt('update'))
    await well(patient.apt('install', '-y', 'postrider'))
  })

  test('install.sh adds the sources and reads the indexes, and does not run if it is truncated', async (t) => {
    if (process.getuid?.() !== 0) return passBy(t, 'not root')
    const fresh = machine('')
    const conf = readFileSync(fresh.configuration, 'utf8')
    writeFileSync(fresh.configuration, `${conf}Dir::Etc::sourceparts "/etc/apt/sources.list.d";\n`)
    // The folder is another one within this mount namespace alone.
    const script = `set -eu
mount -t tmpfs none /etc/apt/sources.list.d
curl -sS "$1/install.sh" >${at('install.sh')}
bytes=$(wc -c <${at('install.sh')})
for part in 300 500 $((bytes / 2)) $((bytes - 20)) $((bytes - 3)); do
  head -c $part ${at('install.sh')} | sh 2>/dev/null && exit 3
  [ -z "$(ls /etc/apt/sources.list.d)" ] || exit 4
done
curl -sS "$1/install.sh" | sh
ls /etc/apt/sources.list.d
cmp /etc/apt/sources.list.d/postrider.sources ${at('www/good/postrider.sources')}
apt-cache policy postrider`
    const args = ['--mount', 'sh', '-c', script, 'sh', `${url()}/good`]
    const { code, said } = await ran('unshare', args, fresh.configuration)
    assert.equal(code, 0, said)
    assert.match(said, /^postrider\.sources$/m)
    assert.match(said, /Candidate: 1\.9\.0/)
  })
})
