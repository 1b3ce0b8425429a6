// Other software that sends aggregate reports about the mail it received, private to the test that starts it: rspamd
// with its own Redis, and OpenDMARC with its own MariaDB. They send the reports automatically.
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { accessSync, readFileSync } from 'node:fs'
import { randomInt } from 'node:crypto'
import { answers, freePort, Sandbox, until } from './sandbox.ts'

/** The domains under which others register, as rspamd knows them. */
export const TLDS = '/usr/share/rspamd/effective_tld_names.dat'
const SCHEMA = '/usr/share/dbconfig-common/data/opendmarc/install/mysql'
const NEEDED = {
  rspamd: ['/usr/bin/rspamd', '/usr/bin/rspamadm', '/usr/bin/redis-server', TLDS],
  opendmarc: [
    '/usr/sbin/opendmarc-import',
    '/usr/sbin/opendmarc-reports',
    '/usr/sbin/mariadbd',
    '/usr/bin/mariadb-install-db',
    '/usr/share/perl5/Switch.pm',
    '/usr/share/perl5/HTTP/Request.pm',
    SCHEMA,
  ],
} as const
const READY = 120_000

/** The missing prerequisites of one of them. */
export function missingReporter(name: keyof typeof NEEDED): string[] {
  const absent = NEEDED[name].filter((path) => {
    try {
      accessSync(path)
      return false
    } catch {
      return true
    }
  })
  return process.getuid?.() === 0 ? absent : [...absent, 'the right to start it (root)']
}

/** Runs a program that must succeed. Returns its output. */
const run = (program: string, args: readonly string[], input = ''): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = execFile(
      program,
      args,
      { timeout: READY, killSignal: 'SIGKILL', maxBuffer: 1 << 24 },
      (error, stdout, stderr) =>
        error ? reject(new Error(`${program}: ${stderr}${stdout}`)) : resolve(stdout + stderr),
    )
    child.stdin!.on('error', () => {}).end(input)
  })

/** A mail as somebody received it. */
export interface JudgedMail {
  address: string
  from: string
}

export interface ReportPeer {
  /** Evaluates emails, and sends the report about them. Returns the output. */
  report: (mails: readonly JudgedMail[]) => Promise<string>
  stop: () => Promise<void>
}

/** A name server at port 53 of a loopback address: programs that read resolv.conf ask no other port. */
async function nameServer(port: number): Promise<{ address: string; close: () => void }> {
  const address = `127.${randomInt(1, 255)}.${randomInt(255)}.${randomInt(1, 255)}`
  const socket = createSocket('udp4')
  socket.on('message', (question, { address: asker, port: from }) => {
    const asking = createSocket('udp4')
    asking.once('message', (answer) => {
      socket.send(answer, from, asker)
      asking.close()
    })
    asking.send(question, port, '127.0.0.1')
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(53, address, resolve)
  })
  return { address, close: () => socket.close() }
}

/** rspamd evaluates emails with its modules for SPF, DKIM and DMARC. `rspamadm dmarc_report` sends the report. */
export async function startRspamd(dnsPort: number, smtpPort: number, email: string): Promise<ReportPeer> {
  const box = new Sandbox('rspamd')
  const redis = box.path('redis.sock')
  const port = await freePort()
  const { address, close } = await nameServer(dnsPort)
  const organisation = email.slice(email.indexOf('@') + 1)
  const config = box.write(
    'rspamd.conf',
    `lua = "/usr/share/rspamd/rules/rspamd.lua"
modules { path = "/usr/share/rspamd/plugins/"; }
options {
  pidfile = "${box.path('pid')}"; tempdir = "${box.dir}"; hs_cache_dir = "${box.dir}"; disable_hyperscan = true;
  url_tld = "${box.write('tlds', `test\n${readFileSync(TLDS, 'utf8')}`)}";
  filters = "spf,dkim"; local_addrs = ["192.168.0.0/16"];
  dns { nameserver = ["127.0.0.1:${dnsPort}"]; }
}
logging { type = "console"; level = "info"; }
worker "normal" { bind_socket = "127.0.0.1:${port}"; count = 1; }
redis { servers = "${redis}"; }
spf {}
dkim {}
dmarc {
  servers = "${redis}";
  reporting {
    enabled = true; email = "${email}"; domain = "${organisation}"; org_name = "${organisation}";
    smtp = "127.0.0.1"; smtp_port = ${smtpPort};
  }
}
`,
  )
  const resolv = box.write('resolv.conf', `nameserver ${address}\n`)
  box.daemon('/usr/bin/redis-server', ['--port', '0', '--unixsocket', redis, '--save', ''], 'redis.log')
  const daemon = box.daemon('/usr/bin/rspamd', ['-f', '-i', '-c', config], 'rspamd.log')
  await until(
    async () => {
      if (!daemon.alive()) throw new Error(`rspamd ended at once: ${box.read('rspamd.log')}`)
      return (await answers(redis)) && (await answers(port))
    },
    READY,
    () => `rspamd does not listen: ${box.read('rspamd.log')}`,
  )
  const saved = (): number => box.read('rspamd.log').split('dmarc report saved').length - 1
  return {
    async report(mails) {
      for (const [n, { address: client, from }] of mails.entries()) {
        const message = `From: ${from}\r\nTo: x@${organisation}\r\nSubject: ${n}\r\nMessage-ID: <${n}@${organisation}>\r\n\r\nHello.\r\n`
        const headers = { IP: client, From: from, Rcpt: `x@${organisation}`, Helo: 'mx.test' }
        const answer = await fetch(`http://127.0.0.1:${port}/checkv2`, { method: 'POST', headers, body: message })
        if (answer.status !== 200) throw new Error(`rspamd: ${answer.status} ${await answer.text()}`)
      }
      await until(
        () => saved() === mails.length,
        READY,
        () => `rspamd noted ${saved()} mails: ${box.read('rspamd.log')}`,
      )
      const now = new Date()
      const day = [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((each) => String(each).padStart(2, '0'))
      // It asks the servers of resolv.conf alone.
      const own = 'mount --bind "$0" /etc/resolv.conf && exec rspamadm dmarc_report -c "$1" -v "$2"'
      return run('/usr/bin/unshare', ['--mount', 'sh', '-c', own, resolv, config, day.join('')])
    },
    async stop() {
      close()
      await box.close()
    },
  }
}

/** A mail in the history of the OpenDMARC filter (README of its reports): numbers of its library. */
const history = (n: number, { address, from, passes, to }: HistoryEntry): string => {
  const domain = from.slice(from.indexOf('@') + 1)
  const [result, aligned] = passes ? [0, 4] : [7, 5]
  const entries = {
    job: `job${n}`,
    reporter: 'mx.test',
    received: Math.floor(Date.now() / 1000) - 3600,
    ipaddr: address,
    from: domain,
    mfrom: domain,
    spf: result,
    pdomain: domain,
    policy: passes ? 15 : 16,
    rua: `mailto:${to}`,
    pct: 100,
    adkim: 114,
    aspf: 114,
    p: 113,
    sp: 0,
    align_dkim: aligned,
    align_spf: aligned,
    arc: 7,
    arc_policy: '20 json:[]',
    action: passes ? 2 : 4,
  }
  const dkim = passes ? `dkim ${domain} selector 0\n` : ''
  return `${Object.entries(entries)
    .map(([name, value]) => `${name} ${value}\n`)
    .join('')}${dkim}`
}

interface HistoryEntry extends JudgedMail {
  /** Whether SPF and DKIM passed. */
  passes: boolean
  /** The recipient of the report. */
  to: string
}

/** OpenDMARC's programs for reports, by the history that its filter would have written. */
export async function startOpendmarc(
  smtpPort: number,
  { email, passes, to }: { email: string; passes: (mail: JudgedMail) => boolean; to: string },
): Promise<ReportPeer> {
  const box = new Sandbox('opendmarc')
  const [data, socket, port] = [box.path('data'), box.path('mariadb.sock'), await freePort()]
  const unnamed = ['--no-defaults', '--user=root', `--datadir=${data}`]
  await run('/usr/bin/mariadb-install-db', [...unnamed, '--auth-root-authentication-method=normal', '--skip-test-db'])
  const listening = [`--socket=${socket}`, `--port=${port}`, '--bind-address=127.0.0.1', '--skip-grant-tables']
  const daemon = box.daemon('/usr/sbin/mariadbd', [...unnamed, ...listening], 'mariadb.log')
  await until(
    async () => {
      if (!daemon.alive()) throw new Error(`mariadbd ended at once: ${box.read('mariadb.log')}`)
      return answers(socket)
    },
    READY,
    () => `mariadbd does not listen: ${box.read('mariadb.log')}`,
  )
  await run('/usr/bin/mariadb', ['--no-defaults', '-S', socket], readFileSync(SCHEMA, 'utf8'))
  const database = ['--dbhost=127.0.0.1', `--dbport=${port}`, '--dbuser=root', '--dbpasswd=none']
  const organisation = email.slice(email.indexOf('@') + 1)
  return {
    async report(mails) {
      const entries = mails.map((mail, n) => history(n, { ...mail, passes: passes(mail), to }))
      const imported = await run('/usr/sbin/opendmarc-import', [...database, '--verbose'], entries.join(''))
      const sending = ['--smtp-server=127.0.0.1', `--smtp-port=${smtpPort}`, `--report-email=${email}`]
      const options = [...sending, `--report-org=${organisation}`, '--utc', '--verbose']
      return imported + (await run('/usr/sbin/opendmarc-reports', [...database, ...options]))
    },
    stop: () => box.close(),
  }
}
