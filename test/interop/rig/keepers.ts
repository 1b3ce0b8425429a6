// Servers for backups, private to the test that starts them: OpenStack Swift as a strict S3 service, an SFTP server of
// rclone, and OpenSSH. Each listens on a loopback port.
import { execFileSync } from 'node:child_process'
import { accessSync, mkdirSync } from 'node:fs'
import { request } from 'node:http'
import { answers, freePort, until, type Daemon, type Sandbox } from './sandbox.ts'

const SWIFT = ['proxy', 'account', 'container', 'object'] as const
export const RCLONE = '/usr/bin/rclone'
export const SSHD = '/usr/sbin/sshd'
const SWIFT_PROGRAMS = [...SWIFT.map((kind) => `/usr/bin/swift-${kind}-server`), '/usr/bin/swift-ring-builder']

/** Which of these programs are not on this machine. */
export const absentOf = (programs: readonly string[]): string[] =>
  programs.filter((program) => {
    try {
      accessSync(program)
      return false
    } catch {
      return true
    }
  })

export const missingSwift = (): string[] => absentOf(SWIFT_PROGRAMS)

export const S3_KEY = { id: 'test:tester', secret: 'testing' }

export interface Swift {
  /** The URL of its S3. */
  endpoint: string
  /** The same from another proxy, which takes requests of two days ago and of the day after tomorrow. */
  patient: string
  /** Bounds what a container may hold; a bucket's uploads lie in its own name and "+segments". */
  quota: (container: string, bytes: number) => Promise<void>
  stop: () => Promise<void>
}

/** One object server, one disk, no replicas, no cache: four processes, and a second proxy. */
export async function startSwift(box: Sandbox): Promise<Swift> {
  const [proxy, account, container, object, patient] = await Promise.all([
    freePort(),
    freePort(),
    freePort(),
    freePort(),
    freePort(),
  ])
  const ports = { proxy, account, container, object, patient }
  mkdirSync(box.path('devices/d1'), { recursive: true })
  mkdirSync(box.path('cache'))
  box.write('swift.conf', '[swift-hash]\nswift_hash_path_suffix = suffix\nswift_hash_path_prefix = prefix\n')
  for (const kind of ['account', 'container', 'object'] as const)
    for (const args of [
      // One partition: every object lies in partition 0.
      ['create', '0', '1', '0'],
      ['add', `r1z1-127.0.0.1:${ports[kind]}/d1`, '100'],
      ['rebalance'],
    ])
      execFileSync('/usr/bin/swift-ring-builder', [box.path(`${kind}.builder`), ...args], { stdio: 'pipe' })
  const common = (kind: keyof typeof ports): string =>
    [
      '[DEFAULT]',
      'bind_ip = 127.0.0.1',
      `bind_port = ${ports[kind]}`,
      `user = ${execFileSync('id', ['-un'], { encoding: 'utf8' }).trim()}`,
      `swift_dir = ${box.dir}`,
      `devices = ${box.path('devices')}`,
      'mount_check = false',
      'workers = 0',
      'fallocate_reserve = 0',
      'log_level = INFO',
      '',
    ].join('\n')
  const daemons: Daemon[] = []
  const start = (name: keyof typeof ports, rest: string, kind: (typeof SWIFT)[number] = 'proxy'): void => {
    const conf = box.write(`${name}-server.conf`, `${common(name)}${rest}`)
    daemons.push(box.daemon(`/usr/bin/swift-${kind}-server`, [conf, '-v'], `${name}.log`))
  }
  for (const kind of ['account', 'container', 'object'] as const)
    start(
      kind,
      `[pipeline:main]\npipeline = ${kind}-server\n[app:${kind}-server]\nuse = egg:swift#${kind}\nrecon_cache_path = ${box.path('cache')}\n`,
      kind,
    )
  const proxyConf = `[pipeline:main]
pipeline = catch_errors gatekeeper proxy-logging cache listing_formats s3api tempauth bulk slo dlo container-quotas proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:proxy-logging]
use = egg:swift#proxy_logging
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:cache]
use = egg:swift#memcache
# Nobody listens there: the authentication wants a cache, which may be empty.
memcache_servers = 127.0.0.1:1
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
# Buckets may stand in the host: BUCKET.s3.test.
storage_domain = s3.test
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:bulk]
use = egg:swift#bulk
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:container-quotas]
use = egg:swift#container_quotas
`
  start('proxy', proxyConf)
  start('patient', proxyConf.replace('s3_acl = false', 's3_acl = false\nallowable_clock_skew = 200000'))
  for (const [kind, port] of Object.entries(ports))
    await until(
      async () => {
        if (daemons.some((daemon) => !daemon.alive())) throw new Error(`Swift ended:\n${box.read(`${kind}.log`)}`)
        return await answers(port)
      },
      30_000,
      () => `Swift's ${kind} server is not ready:\n${box.read(`${kind}.log`)}`,
    )
  return {
    endpoint: `http://127.0.0.1:${proxy}`,
    patient: `http://127.0.0.1:${patient}`,
    quota: (name, bytes) =>
      post(`http://127.0.0.1:${container}/d1/0/AUTH_test/${encodeURIComponent(name)}`, {
        'x-timestamp': (Date.now() / 1000).toFixed(5),
        'x-container-meta-quota-bytes': String(bytes),
      }),
    async stop() {
      for (const daemon of daemons) await daemon.stop()
    },
  }
}

/** Tells a storage server of Swift something of a container; the token that its proxy would want needs a cache. */
function post(url: string, headers: Record<string, string>): Promise<void> {
  return new Promise((resolve, reject) => {
    request(url, { method: 'POST', headers }, (response) => {
      response.resume()
      if ((response.statusCode ?? 0) < 300) resolve()
      else reject(new Error(`${url}: ${response.statusCode}`))
    })
      .on('error', reject)
      .end()
  })
}

export interface Login {
  port: number
  user: string
  password: string
}

export interface Keeper extends Login {
  /** The folder that it gives away. */
  folder: string
  stop: () => Promise<void>
}

/** A pair of keys of SSH: the path of the private half, and the public half as a line has it. */
export function newSshKey(box: Sandbox, name: string, kind = 'ed25519'): { file: string; line: string } {
  const file = box.path(name)
  execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', kind, '-N', '', '-C', '', '-f', file], { stdio: 'pipe' })
  return { file, line: box.read(`${name}.pub`).trim() }
}

/** An SFTP server of rclone. */
export async function startRcloneSftp(box: Sandbox, name: string, hostKey: string): Promise<Keeper> {
  const port = await freePort()
  const folder = box.path(name)
  mkdirSync(folder)
  const log = `${name}.log`
  const login = ['--addr', `127.0.0.1:${port}`, '--user', 'keeper', '--pass', 'secret', '--config', box.path('none')]
  const cache = ['--vfs-cache-mode', 'writes', '--vfs-write-back', '0s']
  const daemon = box.daemon(RCLONE, ['serve', 'sftp', folder, ...login, '--key', hostKey, ...cache], log)
  await until(
    async () => {
      if (!daemon.alive()) throw new Error(`rclone ended:\n${box.read(log)}`)
      return await answers(port)
    },
    20_000,
    () => `rclone does not listen:\n${box.read(log)}`,
  )
  return { port, user: 'keeper', password: 'secret', folder, stop: () => daemon.stop() }
}

/** OpenSSH, for the user of the test, with a line of authorized_keys. */
export async function startSshd(
  box: Sandbox,
  hostKeys: readonly string[],
  authorized: string,
): Promise<{ port: number; stop: () => Promise<void> }> {
  const port = await freePort()
  // Root's sshd gives up its rights in this directory, which only a boot makes.
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
  const conf = box.write(
    `sshd-${port}.conf`,
    [
      `ListenAddress 127.0.0.1:${port}`,
      ...hostKeys.map((file) => `HostKey ${file}`),
      'PidFile none',
      'UsePAM no',
      'StrictModes no',
      'PasswordAuthentication no',
      'PermitRootLogin prohibit-password',
      // Else bash would read the ~/.bashrc of this user.
      'SetEnv SHLVL=2',
      `AuthorizedKeysFile ${box.write(`authorized-${port}`, `${authorized}\n`)}`,
      '',
    ].join('\n'),
  )
  const log = `sshd-${port}.log`
  const daemon = box.daemon(SSHD, ['-D', '-e', '-f', conf], log)
  await until(
    async () => {
      if (!daemon.alive()) throw new Error(`sshd ended:\n${box.read(log)}`)
      return await answers(port)
    },
    20_000,
    () => `sshd does not listen:\n${box.read(log)}`,
  )
  return { port, stop: () => daemon.stop() }
}
