// The first start of a server in a container, where nobody has a shell: POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL
// do what `postrider init` does, once (D170). It is a part of the start of the server: the data directory is locked and
// the ports are open before anything is made, and what is to be done is told when the server is ready (D189). Later
// starts tell it again until somebody has come in, for nobody can be sure to have seen it.
import { HOUR, iso } from '../base/clock.ts'
import { findConfig } from '../base/config-file.ts'
import { variable } from '../base/config-environment.ts'
import { configFrom, type Config } from '../base/config.ts'
import { execLine } from '../base/container.ts'
import { OperatorError } from '../base/errors.ts'
import { configAsset } from '../base/assets.ts'
import type { Log } from '../base/log.ts'
import type { Invocation } from '../commands/open.ts'
import { makeKeyPair, type KeyPair } from '../domains/keys.ts'
import { recordsToCopy, zoneText, type DomainRecords } from '../domains/command-text.ts'
import { invitationOf, invite, linkOf } from '../identity/invitations.ts'
import { listUsers, type User } from '../identity/users.ts'
import type { Appliance } from '../server/appliance.ts'
import type { FirstStart } from '../server/wiring.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { hostRecords, hostZone, reverseText, reverseZone, typeOfAddress, type HostRecords } from './host-records.ts'
import {
  configPlace,
  keepConfig,
  serviceOwner,
  settingsIn,
  withFrontDoor,
  withSetting,
  writeConfig,
} from './installation.ts'
import { checkNames, firstParts, recordsFor, type FirstNames } from './set-up.ts'

const LASTS = HOUR
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/

/** Whether the environment asks for a first start: the file that it names need not be there then. */
export const wantsFirstStart = ({ environment }: Pick<Invocation, 'environment'>): boolean =>
  ['POSTRIDER_INIT_DOMAIN', 'POSTRIDER_INIT_EMAIL'].some((name) => (variable(environment, name) ?? '') !== '')

/** Sets up an empty installation as the environment says; one that has a domain, or another user, stays as it is. */
export class FirstStartByEnvironment implements FirstStart {
  readonly #now: Invocation
  readonly #config: Config
  readonly #given: { domain: string; email: string }
  /** What is to be made. */
  #names: FirstNames | undefined
  /** Keys for the domain: they take long, and are made while the rest of the server starts. */
  #keys: Promise<KeyPair>[] = []
  /** The configuration file that is to be written. */
  #file: { path: string; text: string } | undefined

  constructor(now: Invocation, config: Config) {
    this.#now = now
    this.#config = config
    this.#given = {
      domain: variable(now.environment, 'POSTRIDER_INIT_DOMAIN') ?? '',
      email: variable(now.environment, 'POSTRIDER_INIT_EMAIL') ?? '',
    }
  }

  /** Throws an OperatorError for a name that is missing or wrong. */
  prepare(store: Reader): void {
    const { email } = this.#given
    const domain = store.first(db.selectFrom('domains').select('key').limit(1))
    // A user without a domain is what a first start has left that was cut off.
    if (domain !== undefined || listUsers(store).some((user) => user.email !== email)) return
    const config = this.#config
    this.#names = namesOf(this.#given, config)
    this.#keys = [makeKeyPair(), makeKeyPair()]
    // Where the start ends before they are used, nobody waits for them.
    for (const key of this.#keys) key.catch(() => {})
    const path = findConfig(this.#now) ?? configPlace(this.#now)
    if (settingsIn(path) !== undefined) return
    this.#file = { path, text: textFor(this.#names, config) }
    Object.assign(config, configFrom(this.#file.text, path, this.#now.environment))
  }

  async setUp(deps: Parameters<FirstStart['setUp']>[0]): Promise<void> {
    if (this.#names === undefined) return
    const owner = serviceOwner()
    const putBack = this.#file && keepConfig(this.#file.path, owner)
    try {
      if (this.#file) writeConfig(this.#file.path, this.#file.text, owner)
      await firstParts(
        { ...deps, ring: deps.bells.domains, makeKeys: () => this.#keys.pop() ?? makeKeyPair() },
        this.#names,
      )
    } catch (thrown) {
      putBack?.()
      throw thrown
    }
  }

  /** Tells what is left to do, while nobody has come in: as one event of the log, and as text for a person. */
  async tell({ deps }: Pick<Appliance, 'deps'>, log: Log): Promise<void> {
    try {
      const { store } = deps
      const [user, ...others] = listUsers(store)
      if (user?.email !== this.#given.email || others.length > 0 || hasComeIn(store, user)) return
      const records = await recordsFor(deps, user, this.#given.domain)
      if (records === undefined) return
      const host = await hostRecords(deps)
      const now = deps.clock.now()
      const link = await deps.store.write((tx) => {
        const open = invitationOf(tx, user)
        // One that is sent to somebody, or was told by an earlier start, stays good.
        return open !== undefined && open.expires_at - now > LASTS / 2 ? open : invite(tx, user, now, LASTS)
      })
      const told = { ...records, user, host, link: linkOf(deps, link, user), until: iso(link.expires_at) }
      // A terminal shows the text below: of the event it gets what that does not repeat.
      log.always('set up', this.#now.terminal.interactive ? whatOf(told) : eventOf(told))
      this.#now.terminal.err(textOf(told))
    } catch (thrown) {
      // The server runs: another start tells it.
      log.fault('telling what was set up', thrown)
    }
  }
}

function namesOf({ domain, email }: { domain: string; email: string }, { hostname }: Config): FirstNames {
  for (const [name, value] of [
    ['POSTRIDER_INIT_DOMAIN', domain],
    ['POSTRIDER_INIT_EMAIL', email],
  ] as const)
    if (value === '') throw new OperatorError(`${name} is missing: the first start needs the domain and the email.`)
  if (!hostname.includes('.'))
    throw new OperatorError(
      'POSTRIDER_HOSTNAME is missing: the first start needs the name of this server in DNS, such as mx.example.org.',
    )
  return checkNames({ domain, email, hostname })
}

function textFor(names: FirstNames, { acme, data_dir }: Config): string {
  const named = withSetting(configAsset('postrider.toml'), 'hostname', names.hostname)
  const text = withSetting(named, 'data_dir', data_dir)
  return acme.accept_terms ? withFrontDoor(text, names) : text
}

/** Whether a person has signed in or has a password, or a program can come in: then the way was found. */
const hasComeIn = (store: Reader, user: User): boolean =>
  user.seen_at !== null ||
  user.password_hash !== null ||
  store.first(db.selectFrom('tokens').select('key').limit(1)) !== undefined

interface SetUpToTell extends DomainRecords {
  user: User
  host: HostRecords
  link: string
  until: string
}

const whatOf = ({ domain, host, user }: SetUpToTell) => ({
  domain: domain.name,
  hostname: host.hostname,
  user: user.email,
})

const eventOf = (told: SetUpToTell) => ({
  ...whatOf(told),
  records: [...hostZone(told.host), ...zoneText(told).split('\n').filter(Boolean)],
  reverse: reverseZone(told.host),
  sign_in: told.link,
  sign_in_until: told.until,
})

/** For whoever reads the log. */
function textOf(told: SetUpToTell): string {
  const { domain, host, link, until, user } = told
  const addresses = host.addresses.length > 0 ? host.addresses : ['<the public address of this server>']
  const own = addresses.map((address) => [typeOfAddress(address), host.hostname, address])
  return `
Postrider is set up for ${domain.name}. Two things are left to do.

1. Publish these records in DNS, each value as one line:

${recordsToCopy(told, own)}

   ${reverseText(host)}
   Printed again, and as a zone file:  ${execLine(`domain records ${domain.name}`)}
   Looks whether they are there:       ${execLine(`domain check ${domain.name}`)}

2. Sign in and choose a password, until ${until.slice(0, 16).replace('T', ' ')} UTC:

   ${link}
${onlyHere(link)}
   Makes another link:                 ${execLine(`user invite ${user.email}`)}

`
}

/** How to open a link to this machine alone from elsewhere: HTTPS is not set up then. */
function onlyHere(link: string): string {
  const { hostname, port } = new URL(link)
  return LOOPBACK.test(hostname)
    ? `
   It opens on this server alone. From your own computer, "ssh -L ${port || 80}:${hostname}:${port || 80} SERVER" comes first.
`
    : ''
}
