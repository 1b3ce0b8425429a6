// npm run package [-- --all | --arch amd64|arm64] [--unstripped]: dist/postrider_VERSION_ARCH.deb, by default for the
// architecture of this machine. It checks for its tools before it builds anything.
//
// The same sources result in the same bytes: all times are those of the release, and root owns all files.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { messageOf } from '../src/base/errors.ts'
import { version } from '../src/base/version.ts'
import { completionScript } from '../src/cli/completion.ts'
import { createProgram } from '../src/cli/main.ts'
import { debianChangelog, readChangelog } from './changelog.ts'
import { addonFor, buildExecutable, DIST, executableFor } from './executable.ts'
import { instanceUnit } from './instance-unit.ts'
import { manPages } from './man.ts'
import { demandTools, isNative, ROOT, stripFor, type Architecture } from './node.ts'
import { thirdParty } from './third-party.ts'

/** Debian's names of the architectures. */
const DEBIAN: Record<string, Architecture> = { amd64: 'x64', arm64: 'arm64' }
const MAINTAINER = 'Postrider <postrider@localhost>'
const SCRIPTS = ['preinst', 'postinst', 'prerm', 'postrm']

const releases = readChangelog(version)
const { date } = releases[0]!

const source = (name: string): string => readFileSync(join(ROOT, 'packaging', name), 'utf8')
const compressed = (text: string): Buffer => gzipSync(text, { level: 9 })

/**
 * Returns the files of the package besides the executable, by path. `inside` are the directories of the npm packages in
 * the executable.
 */
function contents(arch: Architecture, inside: readonly string[]): Map<string, string | Buffer> {
  const program = createProgram({})
  return new Map<string, string | Buffer>([
    ['etc/postrider/postrider.toml', source('debian/postrider.toml')],
    ['usr/lib/postrider/better_sqlite3.node', readFileSync(addonFor(arch))],
    ['usr/lib/postrider/built-from', 'package\n'],
    ['usr/lib/systemd/system/postrider.service', source('postrider.service')],
    ['usr/lib/systemd/system/postrider@.service', instanceUnit(source('postrider.service'))],
    ['usr/lib/sysusers.d/postrider.conf', source('debian/sysusers.conf')],
    ['usr/lib/tmpfiles.d/postrider.conf', source('debian/tmpfiles.conf')],
    ['usr/share/bash-completion/completions/postrider', completionScript('bash')],
    ['usr/share/zsh/vendor-completions/_postrider', completionScript('zsh')],
    ['usr/share/fish/vendor_completions.d/postrider.fish', completionScript('fish')],
    ['usr/share/doc/postrider/changelog.gz', compressed(debianChangelog(releases, MAINTAINER))],
    ['usr/share/doc/postrider/copyright', source('debian/copyright')],
    ['usr/share/doc/postrider/third-party-licences.gz', compressed(thirdParty(inside))],
    ['usr/share/doc/postrider/examples/fail2ban.conf', readFileSync(join(ROOT, 'packaging/fail2ban/postrider.conf'))],
    ['usr/share/doc/postrider/examples/postrider.toml', readFileSync(join(ROOT, 'config/postrider.toml'))],
    ...readdirSync(join(ROOT, 'packaging/high-availability')).map(
      (name) => [`usr/share/doc/postrider/high-availability/${name}`, source(`high-availability/${name}`)] as const,
    ),
    ...['alerts.yml', 'dashboard.json'].map(
      (name) => [`usr/share/postrider/monitoring/${name}`, source(`monitoring/${name}`)] as const,
    ),
    ...manPages(program, { version, date }).map(
      ({ file, text }) => [`usr/share/man/man1/${file}.gz`, compressed(text)] as const,
    ),
  ])
}

// The SQLite addon is linked with glibc and libstdc++, and Node with libatomic1.
const control = (debian: string, bytes: number): string => `Package: postrider
Version: ${version}
Architecture: ${debian}
Maintainer: ${MAINTAINER}
Installed-Size: ${Math.ceil(bytes / 1024)}
Depends: libc6 (>= 2.34), libstdc++6 (>= 11), libgcc-s1, libatomic1, systemd | systemd-standalone-sysusers
Section: mail
Priority: optional
Description: self-hosted email server for applications
 Sends transactional email and campaigns over a JSON:API or SMTP, signs them
 with DKIM and delivers them directly to the recipients' mail servers. Receives
 email in inboxes and reports the delivery result for every recipient. One
 executable and one SQLite database.
 .
 The package does not start the service. Run "postrider init" to set it up and
 "systemctl enable --now postrider" to start it.
`

/** Builds the package of one architecture. Returns its file. */
async function makePackage(debian: string): Promise<string> {
  const arch = DEBIAN[debian]!
  const { packages } = await buildExecutable(arch, unstripped)
  const inside = [...packages.keys()].sort()
  const root = mkdtempSync(join(DIST, 'package-'))
  const sums: string[] = []
  let bytes = 0
  const put = (path: string, content: string | Buffer, mode = 0o644): void => {
    const file = join(root, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
    chmodSync(file, mode)
    bytes += content.length
    sums.push(`${createHash('md5').update(content).digest('hex')}  ${path}`)
  }
  try {
    put('usr/bin/postrider', readFileSync(executableFor(arch)), 0o755)
    for (const [path, content] of contents(arch, inside)) put(path, content)
    const conffiles = sums.flatMap((line) => /(?<= {2})etc\/.*/.exec(line)?.[0] ?? [])
    const meta: Record<string, string> = {
      control: control(debian, bytes),
      conffiles: conffiles.map((path) => `/${path}\n`).join(''),
      md5sums: `${sums.filter((line) => !line.includes('  etc/')).join('\n')}\n`,
    }
    for (const [name, text] of Object.entries(meta)) put(`DEBIAN/${name}`, text)
    for (const name of SCRIPTS) put(`DEBIAN/${name}`, source(`debian/${name}`), 0o755)
    const time = Date.parse(`${date}T12:00:00Z`) / 1000
    for (const path of ['', ...readdirSync(root, { recursive: true, encoding: 'utf8' })]) {
      const file = join(root, path)
      // Independent of the umask.
      if (statSync(file).isDirectory()) chmodSync(file, 0o755)
      utimesSync(file, time, time)
    }
    const output = join(DIST, `postrider_${version}_${debian}.deb`)
    // Level 15 would exceed 38 MB, and level 17 takes a third longer for 3 % less. One thread, because their number
    // changes the bytes.
    execFileSync('dpkg-deb', ['--root-owner-group', '--threads-max=1', '-Zzstd', '-z16', '--build', root, output], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, SOURCE_DATE_EPOCH: `${time}` },
    })
    return output
  } finally {
    rmSync(root, { recursive: true })
  }
}

const { all, arch, unstripped } = parseArgs({
  options: { all: { type: 'boolean' }, arch: { type: 'string' }, unstripped: { type: 'boolean' } },
}).values
const every = Object.keys(DEBIAN)
const wanted = all ? every : arch === undefined ? every.filter((name) => isNative(DEBIAN[name]!)) : [arch]
if (!wanted.every((name) => Object.hasOwn(DEBIAN, name))) {
  console.error(`There is no package for "${arch}"; --arch takes ${Object.keys(DEBIAN).join(' or ')}.`)
  process.exit(2)
}
try {
  const strips = unstripped ? [] : wanted.map((debian) => stripFor(DEBIAN[debian]!))
  demandTools([{ program: 'dpkg-deb', debian: 'dpkg' }, ...strips])
  for (const debian of wanted) {
    const file = await makePackage(debian)
    console.log(`${relative(ROOT, file)}, ${Math.round(statSync(file).size / 1e6)} MB`)
  }
} catch (thrown) {
  console.error(`package: ${messageOf(thrown)}`)
  process.exitCode = 1
}
