// OpenDKIM as the rig uses it: a milter that signs, a milter that verifies, or a judge of one stored letter.
//
// Keys for verifying come from a file of records (`TestPublicKeys`), never over DNS: Debian's OpenDKIM asks through
// libunbound's asynchronous resolver, and under load that answers "temporary failure" for a record that is there, or
// ends the whole daemon. The file is read at start, hence the restart in setKeys().

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

// The rig's directories lie under a world-writable /tmp, which RequireSafeKeys would refuse.
const COMMON = ['Background no', 'RequireSafeKeys no', 'UMask 0000']

export interface Milter {
  /** As Postfix names it. */
  address: string
  daemon: () => Daemon
  restart: () => Promise<void>
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
    async restart() {
      await daemon.stop()
      await start()
    },
  }
}

export interface VerifyingMilter extends Milter {
  setKeys: (keys: DkimKey[]) => Promise<void>
}

/** A milter that verifies messages and writes Authentication-Results without rejecting. It has no keys yet. */
export async function verifyingMilter(box: Sandbox, hostname: string): Promise<VerifyingMilter> {
  const keysFile = box.write('keys.txt', '')
  const milter = await serve(box, [
    'Mode v',
    `TestPublicKeys ${keysFile}`,
    `AuthservID ${hostname}`,
    // Unsigned mail is judged aloud too ("dkim=none"), so that a test can tell it from a milter that was not asked.
    'AlwaysAddARHeader yes',
    // Loopback counts as our own network by default, and own mail is signed, not verified.
    'InternalHosts 192.0.2.1',
    'On-Default accept',
  ])
  return {
    ...milter,
    async setKeys(keys) {
      box.write('keys.txt', testPublicKeys(keys))
      await milter.restart()
    },
  }
}

export interface Signer {
  domain: string
  selector: string
  /** Path of the private key in PEM. */
  keyFile: string
}

/**
 * A milter that signs messages from loopback: RSA, sha256, relaxed/relaxed, From oversigned as in Debian's
 * configuration.
 */
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
