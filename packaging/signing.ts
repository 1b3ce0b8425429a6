// The keys that sign releases: the given ones, otherwise test keys, which are created once in dist/test-keys. Other
// machines do not trust test keys.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DIST } from './executable.ts'

const TEST_KEYS = join(DIST, 'test-keys')
const TEST_NAME = 'Postrider test key'

function need(program: string, answers: string): void {
  if (spawnSync(program, [answers], { stdio: 'ignore' }).error) throw new Error(`${program} is not installed.`)
}

/** Creates a private directory for keys. */
function keyFolder(name: string): string {
  const folder = join(TEST_KEYS, name)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

/** Prints that a test key is used. `option` sets a real key. */
const warn = (program: string, option: string): void =>
  console.log(`Signed with an untrusted test key of ${program} in dist/test-keys; use ${option} for a real key.`)

export interface GnupgKey {
  /** Runs gpg with the key. Returns its output. */
  gpg: (args: readonly string[]) => string
  fingerprint: string
  /** Stops the agent that gpg started for a test key. */
  close: () => void
}

/** Returns the key of the repository. Throws unless gpg has exactly one secret key with this id. */
export function gnupgKey(id: string | undefined): GnupgKey {
  need('gpg', '--version')
  const home = id === undefined ? keyFolder('gnupg') : undefined
  const env = home === undefined ? process.env : { ...process.env, GNUPGHOME: home }
  const gpg = (args: readonly string[]): string =>
    execFileSync('gpg', ['--batch', '--yes', ...args], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  const close = (): void => {
    if (home !== undefined) spawnSync('gpgconf', ['--kill', 'all'], { env, stdio: 'ignore' })
  }
  const name = id ?? TEST_NAME
  const found = (): string[] => {
    const args = ['--batch', '--with-colons', '--list-secret-keys', '--', name]
    const { stdout } = spawnSync('gpg', args, { env, encoding: 'utf8' })
    // The fingerprint of a key is in the next line. Subkeys have their own lines.
    return [...stdout.matchAll(/^sec:.*\n(?:fpr|fp2):{9}([0-9A-F]+):/gm)].map(([, fingerprint]) => fingerprint!)
  }
  if (id === undefined) {
    warn('gpg', '--key')
    if (found().length === 0) gpg(['--passphrase', '', '--quick-gen-key', name, 'ed25519', 'sign', 'never'])
  }
  const [fingerprint, ...others] = found()
  if (fingerprint === undefined || others.length > 0)
    throw new Error(
      `gpg has ${others.length === 0 ? 'no secret key' : 'more than one secret key'} "${name}"; gpg --list-secret-keys shows their fingerprints.`,
    )
  return { gpg, fingerprint, close }
}

/** Returns the secret key file of minisign, and the text of the public key if it is a test key. */
export function minisignKey(given: string | undefined): { secret: string; publicKey: string | undefined } {
  need('minisign', '-v')
  if (given !== undefined) {
    if (!existsSync(given)) throw new Error(`The minisign secret key ${given} does not exist.`)
    return { secret: given, publicKey: undefined }
  }
  warn('minisign', '--minisign')
  const folder = keyFolder('minisign')
  const [publicKey, secret] = [join(folder, 'test.pub'), join(folder, 'test.sec')]
  if (!existsSync(secret)) execFileSync('minisign', ['-G', '-W', '-p', publicKey, '-s', secret], { stdio: 'ignore' })
  return { secret, publicKey: readFileSync(publicKey, 'utf8') }
}
