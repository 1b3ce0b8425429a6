// The keys that sign releases: those that are given, else keys for tests, which are made once and stay in
// dist/test-keys. Nobody else's machine takes what a test key signed.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DIST } from './executable.ts'

const TEST_KEYS = join(DIST, 'test-keys')
const TEST_NAME = 'Postrider test key'

function need(program: string, answers: string): void {
  if (spawnSync(program, [answers], { stdio: 'ignore' }).error) throw new Error(`${program} is not installed.`)
}

/** A folder for keys that others cannot look into. */
function keyFolder(name: string): string {
  const folder = join(TEST_KEYS, name)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

/** Says that a test key signs; `option` is what names a key of one's own. */
const tell = (program: string, option: string): void =>
  console.log(`A test key of ${program} in dist/test-keys signs, which nobody trusts; ${option} names another.`)

export interface GnupgKey {
  /** Runs gpg where the key is; answers what it prints. */
  gpg: (args: readonly string[]) => string
  fingerprint: string
  /** Ends the agent that gpg left running, for a key that was made here. */
  close: () => void
}

/** The key of the repository. Throws when gpg has not exactly one secret key of that id. */
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
    // The fingerprint of a key stands in the line after it; those of its subkeys follow lines of their own.
    return [...stdout.matchAll(/^sec:.*\n(?:fpr|fp2):{9}([0-9A-F]+):/gm)].map(([, fingerprint]) => fingerprint!)
  }
  if (id === undefined) {
    tell('gpg', '--key')
    if (found().length === 0) gpg(['--passphrase', '', '--quick-gen-key', name, 'ed25519', 'sign', 'never'])
  }
  const [fingerprint, ...others] = found()
  if (fingerprint === undefined || others.length > 0)
    throw new Error(
      `gpg has ${others.length === 0 ? 'no secret key' : 'more than one secret key'} "${name}"; gpg --list-secret-keys shows their fingerprints.`,
    )
  return { gpg, fingerprint, close }
}

/** The secret key file of minisign, and the text of the public key where it is one for tests. */
export function minisignKey(given: string | undefined): { secret: string; publicKey: string | undefined } {
  need('minisign', '-v')
  if (given !== undefined) {
    if (!existsSync(given)) throw new Error(`There is no secret key of minisign at ${given}.`)
    return { secret: given, publicKey: undefined }
  }
  tell('minisign', '--minisign')
  const folder = keyFolder('minisign')
  const [publicKey, secret] = [join(folder, 'test.pub'), join(folder, 'test.sec')]
  if (!existsSync(secret)) execFileSync('minisign', ['-G', '-W', '-p', publicKey, '-s', secret], { stdio: 'ignore' })
  return { secret, publicKey: readFileSync(publicKey, 'utf8') }
}
