// A separate network for the test and its machines: this process runs again in a network namespace without internet
// access, and simulates the internet: a bridge with the addresses of a gateway, a name server and receiving servers.

import { execFileSync, spawn } from 'node:child_process'

const MARK = 'POSTRIDER_GUIDE_NETWORK'

export const BRIDGE = 'world'
// Mail goes to public addresses alone, so those for documentation will not do. These are public, and no mail server can
// have them: AS112's, which sink reverse questions about private networks (RFC 7535).
export const GATEWAY = '192.31.196.1'
export const NAMESERVER = '192.31.196.53'
/** The exchangers of others. */
export const PROVIDER = '192.31.196.25'
export const LATER = '192.31.196.26'
/** The machine that is set up. */
export const SERVER = '192.31.196.7'
const PREFIX = 24

export const withPrefix = (address: string): string => `${address}/${PREFIX}`

/**
 * Resolves true within the network of its own. Outside, does what needs the way out (`prepare`), runs this test file
 * again in there, and resolves false once that has ended. The runner's events go through, for the inner process has
 * this one's environment and standard output. It dies with this one.
 */
export async function inOwnNetwork(file: string, prepare: () => Promise<unknown>): Promise<boolean> {
  if (process.env[MARK] === '1') {
    build()
    return true
  }
  await prepare()
  const again = ['--pdeathsig', 'KILL', 'unshare', '--net', process.execPath, ...process.execArgv, file]
  const child = spawn('setpriv', again, { stdio: 'inherit', env: { ...process.env, [MARK]: '1' } })
  // A runner that is killed does not take its test files with it.
  const runner = process.ppid
  const watch = setInterval(() => process.ppid === runner || process.exit(1), 500)
  process.exitCode = await new Promise<number>((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1))
    child.once('error', () => resolve(1))
  })
  clearInterval(watch)
  return false
}

function build(): void {
  const lines = [
    'link set lo up',
    `link add ${BRIDGE} type bridge`,
    ...[GATEWAY, NAMESERVER, PROVIDER, LATER].map((address) => `address add ${withPrefix(address)} dev ${BRIDGE}`),
    `link set ${BRIDGE} up`,
  ]
  execFileSync('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n`, stdio: ['pipe', 'pipe', 'inherit'] })
}
