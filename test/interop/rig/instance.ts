// One private Postfix instance: its directories, its main.cf and master.cf, its master process.
//
// `master -d` stays in the foreground as our child; `postfix start` would detach it and run shell scripts over /etc.

import { chmodSync, chownSync, mkdirSync, readFileSync, utimesSync } from 'node:fs'
import { freePort, PROGRAMS, until, type Sandbox } from './sandbox.ts'

export type Settings = Record<string, string | number>

/** Ids from /etc/passwd and /etc/group; the rig runs where Debian's packages made the accounts. */
function idOf(file: '/etc/passwd' | '/etc/group', name: string): number {
  const line = readFileSync(file, 'utf8')
    .split('\n')
    .find((l) => l.startsWith(`${name}:`))
  if (line === undefined) throw new Error(`no ${name} in ${file}`)
  return Number(line.split(':')[2])
}

/** The account that owns delivered mail. */
export const NOBODY = 65534

/** The queue as post-install would make it (postfix-files(5)), without running that script. */
function makeQueue(box: Sandbox): void {
  const postfix = idOf('/etc/passwd', 'postfix')
  const postdrop = idOf('/etc/group', 'postdrop')
  const make = (name: string, mode: number, uid: number, gid: number) => {
    mkdirSync(box.path(name))
    chownSync(box.path(name), uid, gid)
    // mkdir's mode is cut by the umask.
    chmodSync(box.path(name), mode)
  }
  make('data', 0o700, postfix, 0)
  make('spool', 0o755, 0, 0)
  make('spool/pid', 0o755, 0, 0)
  make('spool/public', 0o710, postfix, postdrop)
  make('spool/maildrop', 0o730, postfix, postdrop)
  const own = 'active bounce corrupt defer deferred flush hold incoming private saved trace'
  for (const name of own.split(' ')) make(`spool/${name}`, 0o700, postfix, 0)
}

// Nothing in a chroot (column 5): certificates and milter sockets lie outside the queue.
const SERVICES = `
cleanup   unix n - n - 0 cleanup
qmgr      unix n - n 300 1 qmgr
tlsmgr    unix - - n 1000? 1 tlsmgr
tlsproxy  unix - - n - 0 tlsproxy
rewrite   unix - - n - - trivial-rewrite
bounce    unix - - n - 0 bounce
defer     unix - - n - 0 bounce
trace     unix - - n - 0 bounce
flush     unix n - n 1000? 0 flush
proxymap  unix - - n - - proxymap
smtp      unix - - n - - smtp
error     unix - - n - - error
retry     unix - - n - - error
virtual   unix - n n - - virtual
anvil     unix - - n - 1 anvil
scache    unix - - n - 1 scache
postlog   unix-dgram n - n - 1 postlogd
`

export interface Running {
  port: number
  /** Also the process group of all its daemons. */
  masterPid: number
  /** All of its log so far. */
  log: () => string
}

export interface Listen {
  /** Of 127.0.0.0/8. Default 127.0.0.1. */
  address?: string | undefined
  /** Default: a free one. */
  port?: number | undefined
  /** Further lines of master.cf. */
  services?: string
  /** A program that starts Postfix, such as unshare(1) with its options. */
  under?: readonly string[]
}

/** Lays out the directory, starts Postfix in it and waits until it listens. */
export async function runPostfix(
  box: Sandbox,
  hostname: string,
  settings: Settings,
  listen: Listen = {},
): Promise<Running> {
  makeQueue(box)
  const { address = '127.0.0.1', port = await freePort(), services = '', under = [] } = listen
  const main: Settings = {
    compatibility_level: '3.6',
    queue_directory: box.path('spool'),
    data_directory: box.path('data'),
    maillog_file: box.path('mail.log'),
    maillog_file_prefixes: box.dir,
    myhostname: hostname,
    mydestination: '',
    mynetworks: '127.0.0.0/8',
    inet_interfaces: '127.0.0.1',
    inet_protocols: 'ipv4',
    alias_maps: '',
    alias_database: '',
    local_transport: 'error:no local delivery here',
    append_dot_mydomain: 'no',
    biff: 'no',
    // The machine's own resolver has no part in a test, and a slow one would only add waiting.
    smtpd_peername_lookup: 'no',
    ...settings,
  }
  const lines = Object.entries(main).map(([key, value]) => `${key} = ${value}\n`)
  mkdirSync(box.path('conf'))
  box.write('conf/main.cf', lines.join(''))
  box.write('conf/master.cf', `${address}:${port} inet n - n - - smtpd${SERVICES}${services}`)
  // Postfix takes a main.cf changed within the last two seconds for one still being edited, and waits.
  utimesSync(box.path('conf/main.cf'), 0, 0)
  const [program, ...args] = [...under, PROGRAMS.master, '-d', '-c', box.path('conf')]
  const master = box.daemon(program!, args, 'master.log')
  let kept = ''
  // Once the directory is gone the last reading stays, for a test that reports after stop().
  const log = () => (kept = box.read('master.log') + box.read('mail.log') || kept)
  const ready = async () => {
    if (!master.alive()) throw new Error(`Postfix ended at once:\n${log()}`)
    // master(8) says so once its sockets are bound; a probing connection would stand in the log as a lost client.
    return /master\[\d+\]: daemon started/.test(log())
  }
  await until(ready, 10_000, () => `Postfix does not listen:\n${log()}`)
  return { port, masterPid: master.pid, log }
}
