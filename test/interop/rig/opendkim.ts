// OpenDKIM as the rig uses it: a milter that signs, a milter that verifies, or a judge of one stored letter.
//
// Keys for verifying come from one of two places. `Nameservers` takes addresses without a port, but Debian's OpenDKIM is
// linked with libunbound, whose own configuration file (`ResolverConfiguration`) forwards to any address@port: so a
// running verifier can ask the test's DNS server as it would ask the world. `TestPublicKeys` is a file of records that
// replaces DNS altogether; it is read at start, hence the restart in setKeys().

import { answers, until, PROGRAMS, type Daemon, type Sandbox } from './sandbox.ts'

export interface DkimKey {
  selector: string
  domain: string
  /** The TXT record: `v=DKIM1; k=rsa; p=...` */
  record: string
}

/** The `TestPublicKeys` file: one `name record` per line, no continuation. */
export function testPublicKeys(keys: DkimKey[]): string {
  return keys.map((k) => `${k.selector}._domainkey.${k.domain} ${k.record.replace(/\s+/g, ' ')}\n`).join('')
}

/** What libunbound needs to ask exactly one server, on loopback, and to remember nothing: tests rotate keys. */
function unboundConfiguration(dnsPort: number): string {
  return [
    'server:',
    '  module-config: "iterator"',
    '  do-not-query-localhost: no',
    '  cache-max-ttl: 0',
    '  cache-max-negative-ttl: 0',
    'forward-zone:',
    '  name: "."',
    `  forward-addr: 127.0.0.1@${dnsPort}`,
    '',
  ].join('\n')
}

// The rig's directories lie under a world-writable /tmp, which RequireSafeKeys would refuse.
const COMMON = ['Background no', 'RequireSafeKeys no', 'UMask 0000']

export interface Milter {
  /** As Postfix names it. */
  address: string
  daemon: () => Daemon
  setKeys: (keys: DkimKey[]) => Promise<void>
}

async function serve(box: Sandbox, lines: string[]): Promise<Milter> {
  const socket = box.path('opendkim.sock')
  const conf = box.write('opendkim.conf', [...COMMON, `Socket local:${socket}`, ...lines, ''].join('\n'))
  let daemon: Daemon
  const start = async () => {
    daemon = box.daemon(PROGRAMS.opendkim, ['-f', '-x', conf], 'opendkim.log')
    const ready = async () => {
      if (!daemon.alive()) throw new Error(`opendkim ended at once: ${box.read('opendkim.log')}`)
      return await answers(socket)
    }
    await until(ready, 10_000, () => `opendkim does not listen: ${box.read('opendkim.log')}`)
  }
  await start()
  return {
    address: `unix:${socket}`,
    daemon: () => daemon,
    async setKeys(keys) {
      if (!lines.some((line) => line.startsWith('TestPublicKeys')))
        throw new Error('this OpenDKIM takes its keys from DNS')
      await daemon.stop()
      box.write('keys.txt', testPublicKeys(keys))
      await start()
    },
  }
}

export interface Verifier {
  hostname: string
  /** Ask this DNS server for keys; without it only `keys` are known. */
  dnsPort?: number | undefined
  keys?: DkimKey[] | undefined
}

/** A milter that judges what arrives and writes Authentication-Results, refusing nothing. */
export async function verifyingMilter(box: Sandbox, { hostname, dnsPort, keys }: Verifier): Promise<Milter> {
  const source =
    dnsPort !== undefined && keys === undefined
      ? `ResolverConfiguration ${box.write('unbound.conf', unboundConfiguration(dnsPort))}`
      : `TestPublicKeys ${box.write('keys.txt', testPublicKeys(keys ?? []))}`
  return await serve(box, [
    'Mode v',
    source,
    `AuthservID ${hostname}`,
    // Unsigned mail is judged aloud too ("dkim=none"), so that a test can tell it from a milter that was not asked.
    'AlwaysAddARHeader yes',
    // Loopback counts as our own network by default, and own mail is signed, not verified.
    'InternalHosts 192.0.2.1',
    'On-Default accept',
  ])
}

export interface Signer {
  domain: string
  selector: string
  /** Path of the private key in PEM. */
  keyFile: string
}

/** A milter that signs what comes from loopback: RSA, sha256, relaxed/relaxed, From sealed as in Debian's own conf. */
export async function signingMilter(box: Sandbox, { domain, selector, keyFile }: Signer): Promise<Milter> {
  return await serve(box, [
    'Mode s',
    `Domain ${domain}`,
    `Selector ${selector}`,
    `KeyFile ${keyFile}`,
    'Canonicalization relaxed/relaxed',
    'SignatureAlgorithm rsa-sha256',
    'OversignHeaders From',
  ])
}
