// npm run package [-- --arch amd64|arm64] [--unstripped]: dist/postrider_VERSION_ARCH.deb, for both architectures where
// none is named.
//
// The same sources give the same octets: all times are those of the last release, all files are root's.
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
import { version } from '../src/base/version.ts'
import { completionScript } from '../src/cli/completion.ts'
import { createProgram } from '../src/cli/main.ts'
import { debianChangelog, readChangelog } from './changelog.ts'
import { addonFor, buildExecutable, DIST, executableFor } from './executable.ts'
import { manPages } from './man.ts'
import { ROOT, type Architecture } from './node.ts'
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
 * What the package installs beside the executable, by path. `inside` are the folders of the npm packages in the
 * executable.
 */
function contents(arch: Architecture, inside: readonly string[]): Map<string, string | Buffer> {
  const program = createProgram({})
  return new Map<string, string | Buffer>([
    ['etc/postrider/postrider.toml', source('debian/postrider.toml')],
    ['usr/lib/postrider/better_sqlite3.node', readFileSync(addonFor(arch))],
    ['usr/lib/postrider/built-from', 'package\n'],
    ['usr/lib/systemd/system/postrider.service', source('postrider.service')],
    ['usr/lib/systemd/system/postrider.socket', source('postrider.socket')],
    ['usr/lib/sysusers.d/postrider.conf', source('debian/sysusers.conf')],
    ['usr/lib/tmpfiles.d/postrider.conf', source('debian/tmpfiles.conf')],
    ['usr/share/bash-completion/completions/postrider', completionScript(program, 'bash')],
    ['usr/share/zsh/vendor-completions/_postrider', completionScript(program, 'zsh')],
    ['usr/share/fish/vendor_completions.d/postrider.fish', completionScript(program, 'fish')],
    ['usr/share/doc/postrider/changelog.gz', compressed(debianChangelog(releases, MAINTAINER))],
    ['usr/share/doc/postrider/copyright', source('debian/copyright')],
    ['usr/share/doc/postrider/third-party-licences.gz', compressed(thirdParty(inside))],
    ['usr/share/doc/postrider/examples/fail2ban.conf', readFileSync(join(ROOT, 'packaging/fail2ban/postrider.conf'))],
    ['usr/share/doc/postrider/examples/postrider.toml', readFileSync(join(ROOT, 'config/postrider.toml'))],
    ...['alerts.yml', 'dashboard.json'].map(
      (name) => [`usr/share/postrider/monitoring/${name}`, source(`monitoring/${name}`)] as const,
    ),
    ...manPages(program, { version, date }).map(
      ({ file, text }) => [`usr/share/man/man1/${file}.gz`, compressed(text)] as const,
    ),
  ])
}

// glibc and libstdc++ are what the SQLite addon was linked with, libatomic1 what Node was.
const control = (debian: string, octets: number): string => `Package: postrider
Version: ${version}
Architecture: ${debian}
Maintainer: ${MAINTAINER}
Installed-Size: ${Math.ceil(octets / 1024)}
Depends: libc6 (>= 2.34), libstdc++6 (>= 11), libgcc-s1, libatomic1, systemd | systemd-standalone-sysusers
Section: mail
Priority: optional
Description: self-hosted email appliance in one process
 Sends transactional mail and campaigns over a JSON:API, signs them with DKIM,
 delivers them straight to the recipients' mail exchangers, receives mail for
 inboxes, and tells truthfully what became of each. One program, one process,
 one SQLite file.
 .
 The installation starts nothing: "postrider init" sets it up, and "systemctl
 enable --now postrider" starts it.
`

/** Makes the package of one architecture; answers its file. */
async function makePackage(debian: string): Promise<string> {
  const arch = DEBIAN[debian]!
  const { packages } = await buildExecutable(arch, unstripped)
  const inside = [...packages.keys()].sort()
  const root = mkdtempSync(join(DIST, 'package-'))
  const sums: string[] = []
  let octets = 0
  const put = (path: string, content: string | Buffer, mode = 0o644): void => {
    const file = join(root, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
    chmodSync(file, mode)
    octets += content.length
    sums.push(`${createHash('md5').update(content).digest('hex')}  ${path}`)
  }
  try {
    put('usr/bin/postrider', readFileSync(executableFor(arch)), 0o755)
    for (const [path, content] of contents(arch, inside)) put(path, content)
    const conffiles = sums.flatMap((line) => /(?<= {2})etc\/.*/.exec(line)?.[0] ?? [])
    const meta: Record<string, string> = {
      control: control(debian, octets),
      conffiles: conffiles.map((path) => `/${path}\n`).join(''),
      md5sums: `${sums.filter((line) => !line.includes('  etc/')).join('\n')}\n`,
    }
    for (const [name, text] of Object.entries(meta)) put(`DEBIAN/${name}`, text)
    for (const name of SCRIPTS) put(`DEBIAN/${name}`, source(`debian/${name}`), 0o755)
    const time = Date.parse(`${date}T12:00:00Z`) / 1000
    for (const path of ['', ...readdirSync(root, { recursive: true, encoding: 'utf8' })]) {
      const file = join(root, path)
      // Whatever umask this runs under.
      if (statSync(file).isDirectory()) chmodSync(file, 0o755)
      utimesSync(file, time, time)
    }
    const output = join(DIST, `postrider_${version}_${debian}.deb`)
    // "upgrade --check" unpacks it by Node's zlib, which has zstd and no xz. Level 15 would be above 38 MB (E5), 17
    // takes a third longer for 3 % less. With one thread: how many there are would change the octets.
    execFileSync('dpkg-deb', ['--root-owner-group', '--threads-max=1', '-Zzstd', '-z16', '--build', root, output], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, SOURCE_DATE_EPOCH: `${time}` },
    })
    return output
  } finally {
    rmSync(root, { recursive: true })
  }
}

const { arch, unstripped } = parseArgs({
  options: { arch: { type: 'string' }, unstripped: { type: 'boolean' } },
}).values
const wanted = arch === undefined ? Object.keys(DEBIAN) : [arch]
if (!wanted.every((name) => Object.hasOwn(DEBIAN, name))) {
  console.error(`There is no package for "${arch}"; --arch takes ${Object.keys(DEBIAN).join(' or ')}.`)
  process.exit(2)
}
for (const debian of wanted) {
  const file = await makePackage(debian)
  console.log(`${relative(ROOT, file)}, ${Math.round(statSync(file).size / 1e6)} MB`)
}
