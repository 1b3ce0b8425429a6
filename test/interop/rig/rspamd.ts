// rspamd as a spam filter: the rules and scores of its package, in a separate process. It only uses the test's DNS,
// where every name not set there does not exist, without fuzzy storage and Redis.
import { answers, freePort, Sandbox, until } from './sandbox.ts'
import { missingReporter, TLDS } from './reporters.ts'

const READY = 60_000

export const missingRspamd = (): string[] => missingReporter('rspamd')

/** A message as a receiving server of another organisation got it. */
export interface Arrived {
  letter: Buffer
  from: string
  to: readonly string[]
}

export interface Judgement {
  score: number
  /** The rules that matched. A score above 0 is a penalty. */
  rules: { name: string; score: number }[]
}

export interface RspamdJudge {
  judge: (arrived: Arrived) => Promise<Judgement>
  stop: () => Promise<void>
}

/** `client`: the name and the address by which the letters come. */
export async function startRspamdJudge(
  dnsPort: number,
  client: { name: string; address: string },
): Promise<RspamdJudge> {
  const box = new Sandbox('rspamd-judge')
  const port = await freePort()
  const config = box.write(
    'rspamd.conf',
    `.include "$CONFDIR/common.conf"
options {
  pidfile = "${box.path('pid')}"; tempdir = "${box.dir}"; hs_cache_dir = "${box.dir}"; disable_hyperscan = true;
  filters = "chartable,dkim,regexp"; local_addrs = ["192.168.0.0/16"]; url_tld = "${TLDS}";
  dns { nameserver = ["127.0.0.1:${dnsPort}"]; timeout = 1s; retransmits = 2; }
}
logging { type = "console"; level = "warning"; }
worker "normal" { bind_socket = "127.0.0.1:${port}"; count = 1; }
`,
  )
  const own = ['DBDIR', 'RUNDIR', 'LOGDIR', 'LOCAL_CONFDIR'].flatMap((name) => ['--var', `${name}=${box.dir}`])
  const daemon = box.daemon('/usr/bin/rspamd', ['-f', '-i', ...own, '-c', config], 'rspamd.log')
  await until(
    async () => {
      if (!daemon.alive()) throw new Error(`rspamd ended at once: ${box.read('rspamd.log')}`)
      return answers(port)
    },
    READY,
    () => `rspamd does not listen: ${box.read('rspamd.log')}`,
  )
  return {
    async judge({ from, letter, to }) {
      const headers = new Headers({ IP: client.address, Helo: client.name, Hostname: client.name, From: from })
      for (const each of to) headers.append('Rcpt', each)
      const answer = await fetch(`http://127.0.0.1:${port}/checkv2`, {
        method: 'POST',
        headers,
        body: new Uint8Array(letter),
      })
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(`rspamd: ${answer.status} ${text}`)
      const { score, symbols } = JSON.parse(text) as { score: number; symbols: Record<string, { score: number }> }
      return {
        score,
        rules: Object.entries(symbols).map(([name, symbol]) => ({ name, score: symbol.score })),
      }
    },
    stop: () => box.close(),
  }
}
