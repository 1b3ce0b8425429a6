// The first start of a server in a container without a shell: POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL have the
// same effect as `postrider init` (D170). It is part of the start: the data directory is locked and the ports
// are open before it creates the user and the domain, and it prints the next steps when the server is ready (D189).
// Later starts print them again until a user has signed in, because the first output may have been missed.
import { existsSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { HOUR, iso } from '../base/clock.ts'
import { findConfig, inImage, namedConfig } from '../base/config-file.ts'
import { variable } from '../base/config-environment.ts'
import { configFrom, type Config } from '../base/config.ts'
import { execLine } from '../base/container.ts'
import { OperatorError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { formatEndpoint } from '../base/network.ts'
import { ownConfigOf, type Invocation } from '../views/command/open.ts'
import { makeKeyPair, type KeyPair } from '../domains/keys.ts'
import { listDomains } from '../domains/find.ts'
import { recordsToCopy, zoneText, type DomainRecords } from '../domains/command-text.ts'
import { reverseText, reverseZone } from '../domains/host-records.ts'
import { invitationOf, invite, linkOf } from '../users/invitations.ts'
import { findUser, listUsers, type User } from '../users/users.ts'
import type { Appliance } from '../server/appliance.ts'
import type { Endpoint } from '../server/listeners.ts'
import type { FirstStart } from '../server/wiring.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { sets, writeConfig } from '../base/config-edit.ts'
import { configPlace, serviceOwner, settingsIn } from './installation.ts'
import { checkNames, firstParts, newConfig, recordsFor, type FirstNames } from './set-up.ts'

const OTHERS = {
  reason:
    'POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL have no effect: this server is already set up with other names',
  fix: `Remove both variables, or add the user and the domain with "${execLine('user add')}" and "${execLine('domain add')}".`,
}
const LASTS = HOUR
/** The port on the user's computer. A lower port could be in use there. */
const NEAR = 8443
const UNSPECIFIED = ['::', '0.0.0.0', '']
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/

/** Whether the environment requests a first start, which can create the configuration file that it names. */
export const wantsFirstStart = ({ environment }: Pick<Invocation, 'environment'>): boolean =>
  ['POSTRIDER_INIT_DOMAIN', 'POSTRIDER_INIT_EMAIL'].some((name) => (variable(environment, name) ?? '') !== '')

/** Sets up an empty installation from the environment. If it has a domain or another user, it stays unchanged. */
export class FirstStartByEnvironment implements FirstStart {
  readonly #now: Invocation
  readonly #config: Config
  readonly #given: { domain: string; email: string }
  /** The names of the user, domain and server to create. */
  #names: FirstNames | undefined
  /** Keys for the domain. Generating them is slow, so it runs while the rest of the server starts. */
  #keys: Promise<KeyPair>[] = []
  #file: { path: string; text: string } | undefined

  /** Whether the log event and the text go to the same reader. */
  readonly #together: boolean

  constructor(now: Invocation, config: Config, together = now.terminal.interactive || inImage()) {
    this.#now = now
    this.#together = together
    this.#config = config
    this.#given = {
      domain: variable(now.environment, 'POSTRIDER_INIT_DOMAIN') ?? '',
      email: variable(now.environment, 'POSTRIDER_INIT_EMAIL') ?? '',
    }
  }

  /** Throws an OperatorError for a missing or invalid name. */
  prepare(store: Reader): void {
    const domain = store.first(db.selectFrom('domains').select('key').limit(1))
    // A user without a domain remains from a first start that was interrupted.
    if (domain !== undefined || (listUsers(store).length > 0 && this.#soleUser(store) === undefined))
      return this.#demandNamed()
    const config = this.#config
    this.#names = namesOf(this.#given, config, this.#now)
    this.#keys = [makeKeyPair(), makeKeyPair()]
    // If the start ends early, the keys are not used.
    for (const key of this.#keys) key.catch(() => {})
    const path = findConfig(this.#now) ?? configPlace(this.#now)
    if (settingsIn(path) !== undefined) return
    if (namedConfig(this.#now) !== undefined && !existsSync(dirname(path)))
      throw new OperatorError(
        `The configuration file ${path} cannot be created because ${dirname(path)} does not exist; create it or choose another path.`,
      )
    this.#file = { path, text: newConfig(this.#names, config.data_dir, config.acme.accept_terms) }
    Object.assign(config, configFrom(this.#file.text, path, this.#now.environment))
  }

  /** Whether the user that the environment names has the domain that it names. */
  #isHere(store: Reader): boolean {
    const { domain, email } = this.#given
    const key = findUser(store, email)?.key
    return listDomains(store, domain).some(({ user_key }) => user_key === key)
  }

  /** Returns the user that the environment names, if there is no other user. */
  #soleUser(store: Reader): User | undefined {
    const named = findUser(store, this.#given.email)
    return listUsers(store).length === 1 ? named : undefined
  }

  /** Throws for a named configuration file that is missing: without a setup, the start does not create it. */
  #demandNamed(): void {
    const named = namedConfig(this.#now)
    if (named !== undefined && !existsSync(named)) ownConfigOf(this.#now)
  }

  async setUp(deps: Parameters<FirstStart['setUp']>[0]): Promise<void> {
    if (this.#names === undefined) return
    const made = this.#file && !existsSync(this.#file.path) ? this.#file.path : undefined
    try {
      if (this.#file) writeConfig(this.#file.path, this.#file.text, serviceOwner())
      await firstParts(
        { ...deps, ring: deps.bells.domains, makeKeys: () => this.#keys.pop() ?? makeKeyPair() },
        this.#names,
      )
    } catch (thrown) {
      if (made !== undefined) rmSync(made, { force: true })
      throw thrown
    }
  }

  /** Prints the next steps until a user has signed in: as one log event, and as text. */
  async tell(appliance: Pick<Appliance, 'deps' | 'http' | 'https'>, log: Log): Promise<void> {
    const { deps } = appliance
    try {
      const { store } = deps
      if (!this.#isHere(store)) log.warn('init_variables_ignored', OTHERS)
      const user = this.#soleUser(store)
      if (user === undefined || hasComeIn(store, user)) return
      const records = await recordsFor(deps, user, this.#given.domain)
      if (records === undefined) return
      const now = deps.clock.now()
      const link = await deps.store.write((tx) => {
        const open = invitationOf(tx, user)
        // A link that was emailed, or printed by an earlier start, stays valid.
        return open !== undefined && open.expires_at - now > LASTS / 2 ? open : invite(tx, user, now, LASTS)
      })
      const url = linkOf(deps, link, user)
      const instructions = {
        ...records,
        hostname: deps.config.hostname,
        user,
        link: url,
        way: wayIn(url, appliance),
        until: iso(link.expires_at),
      }
      // If both are read, the event leaves out the contents of the text (D195).
      log.always('initial_setup_pending', this.#together ? whatOf(instructions) : eventOf(instructions))
      this.#now.terminal.err(textOf(instructions))
    } catch (thrown) {
      // The server runs, and its next start prints the steps again.
      log.fault('initial setup instructions', thrown)
    }
  }
}

function namesOf(given: Omit<FirstNames, 'hostname'>, { hostname }: Config, now: Invocation): FirstNames {
  const by = { domain: 'POSTRIDER_INIT_DOMAIN', email: 'POSTRIDER_INIT_EMAIL' }
  for (const each of ['domain', 'email'] as const)
    if (given[each] === '')
      throw new OperatorError(
        `${by[each]} is missing; the first start needs POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL.`,
      )
  const named = hostnameFrom(now)
  // Without one, the host name of the machine or container is used if it is fully qualified.
  if (named === undefined && !hostname.includes('.'))
    throw new OperatorError(
      'POSTRIDER_HOSTNAME is missing; set it to the DNS name of this server, such as mx.example.org.',
    )
  return checkNames({ ...given, hostname }, { ...by, hostname: named ?? 'The name of this machine' })
}

/** Returns the source of the hostname, the variable or the file, or undefined if neither sets it. */
function hostnameFrom(now: Invocation): string | undefined {
  if ((variable(now.environment, 'POSTRIDER_HOSTNAME') ?? '') !== '') return 'POSTRIDER_HOSTNAME'
  const file = findConfig(now)
  return file !== undefined && sets(settingsIn(file) ?? '', 'hostname') ? `"hostname" in ${file}` : undefined
}

/** Whether the user has signed in or has a password, or a token exists: then the next steps are known. */
const hasComeIn = (store: Reader, user: User): boolean =>
  user.seen_at !== null ||
  user.password_hash !== null ||
  store.first(db.selectFrom('tokens').select('key').limit(1)) !== undefined

interface SetUpToTell extends DomainRecords {
  user: User
  hostname: string
  link: string
  /** How the link is opened. */
  way: string
  until: string
}

const whatOf = ({ domain, hostname, user }: SetUpToTell) => ({
  domain: domain.name,
  hostname,
  user: user.email,
})

const eventOf = (instructions: SetUpToTell) => ({
  ...whatOf(instructions),
  records: zoneText(instructions).split('\n').filter(Boolean),
  reverse: reverseZone(instructions.advised),
  sign_in: instructions.link,
  sign_in_until: instructions.until,
})

/** The text for readers of the log. */
function textOf(instructions: SetUpToTell): string {
  const { advised, domain, link, until, user, way } = instructions
  return `
Postrider is set up for ${domain.name}. Two steps are left.

1. Publish these DNS records, each value on one line:

${recordsToCopy(instructions)}

   ${reverseText(advised)}
   Print them again:             ${execLine(`domain records ${domain.name}`)}
   Check whether DNS has them:   ${execLine(`domain check ${domain.name}`)}

2. Sign in and set a password before ${until.slice(0, 16).replace('T', ' ')} UTC:

   ${link}
${way}
   Create another link:          ${execLine(`user invite ${user.email}`)}

`
}

/** How to open the link, even before DNS points to this server. Forms over http are rejected if there is https. */
function wayIn(link: string, { http, https: [https] }: Pick<Appliance, 'http' | 'https'>): string {
  const { hostname, protocol, pathname, search } = new URL(link)
  const tunnel = (near: number, { host, port }: Endpoint): string =>
    `"ssh -L ${near}:${formatEndpoint(UNSPECIFIED.includes(host) ? '127.0.0.1' : host, port)} SERVER"`
  if (LOOPBACK.test(hostname))
    return `
   The link only works on this server. To open it on your computer, first run ${tunnel(Number(new URL(link).port) || 80, http)}.
`
  if (protocol !== 'https:') return ''
  const early =
    https &&
    `
   Until then, run ${tunnel(NEAR, https)} on your computer, accept the certificate warning and open
   https://localhost:${NEAR}${pathname}${search}`
  return `
   The link works when ${hostname} resolves to this server. Browsers show a warning until the certificate is issued, some minutes later.${early ?? ''}
`
}
