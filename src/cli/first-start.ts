// The first start of a server in a container, where nobody has a shell: POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL
// do what `postrider init` does, once (D170). It is a part of the start of the server: the data directory is locked and
// the ports are open before anything is made, and what is to be done is told when the server is ready (D189). Later
// starts tell it again until somebody has come in, for nobody can be sure to have seen it.
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { HOUR, iso } from '../base/clock.ts'
import { findConfig, inImage, namedConfig } from '../base/config-file.ts'
import { variable } from '../base/config-environment.ts'
import { configFrom, type Config } from '../base/config.ts'
import { execLine } from '../base/container.ts'
import { OperatorError } from '../base/errors.ts'
import { configAsset } from '../base/assets.ts'
import type { Log } from '../base/log.ts'
import { formatEndpoint } from '../base/network.ts'
import { ownConfigOf, type Invocation } from '../commands/open.ts'
import { makeKeyPair, type KeyPair } from '../domains/keys.ts'
import { listDomains } from '../domains/find.ts'
import { recordsToCopy, zoneText, type DomainRecords } from '../domains/command-text.ts'
import { invitationOf, invite, linkOf } from '../identity/invitations.ts'
import { findUser, listUsers, type User } from '../identity/users.ts'
import type { Appliance } from '../server/appliance.ts'
import type { Endpoint } from '../server/listeners.ts'
import type { FirstStart } from '../server/wiring.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { hostRecords, hostZone, reverseText, reverseZone, typeOfAddress, type HostRecords } from './host-records.ts'
import {
  configPlace,
  keepConfig,
  serviceOwner,
  sets,
  settingsIn,
  withFrontDoor,
  withSetting,
  writeConfig,
} from './installation.ts'
import { checkNames, firstParts, recordsFor, type FirstNames } from './set-up.ts'

const OTHERS = {
  reason: 'POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL name what is not here; they count for the first start alone',
  mend: `Remove them, or add what they name by "${execLine('user add')}" and "${execLine('domain add')}".`,
}
const LASTS = HOUR
/** On the person's own computer, where a lower port may be another's. */
const NEAR = 8443
const UNSPECIFIED = ['::', '0.0.0.0', '']
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

  /** Whether whoever reads the event reads the text as well, in the same place. */
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

  /** Throws an OperatorError for a name that is missing or wrong. */
  prepare(store: Reader): void {
    const domain = store.first(db.selectFrom('domains').select('key').limit(1))
    // A user without a domain is what a first start has left that was cut off.
    if (domain !== undefined || (listUsers(store).length > 0 && this.#soleUser(store) === undefined))
      return this.#demandNamed()
    const config = this.#config
    this.#names = namesOf(this.#given, config, this.#now)
    this.#keys = [makeKeyPair(), makeKeyPair()]
    // Where the start ends before they are used, nobody waits for them.
    for (const key of this.#keys) key.catch(() => {})
    const path = findConfig(this.#now) ?? configPlace(this.#now)
    if (settingsIn(path) !== undefined) return
    if (namedConfig(this.#now) !== undefined && !existsSync(dirname(path)))
      throw new OperatorError(`The configuration file ${path} cannot be made: ${dirname(path)} is not there.`)
    this.#file = { path, text: textFor(this.#names, config) }
    Object.assign(config, configFrom(this.#file.text, path, this.#now.environment))
  }

  /** Whether the user that the environment names has the domain that it names. */
  #isHere(store: Reader): boolean {
    const { domain, email } = this.#given
    const key = findUser(store, email)?.key
    return listDomains(store, domain).some(({ user_key }) => user_key === key)
  }

  /** The user that the environment names, where there is no other. */
  #soleUser(store: Reader): User | undefined {
    const named = findUser(store, this.#given.email)
    return listUsers(store).length === 1 ? named : undefined
  }

  /** Nothing is to be made: a named file that is missing is missing, as for any start. */
  #demandNamed(): void {
    const named = namedConfig(this.#now)
    if (named !== undefined && !existsSync(named)) ownConfigOf(this.#now)
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
  async tell(appliance: Pick<Appliance, 'deps' | 'http' | 'https'>, log: Log): Promise<void> {
    const { deps } = appliance
    try {
      const { store } = deps
      if (!this.#isHere(store)) log.warn('names of the first start are others', OTHERS)
      const user = this.#soleUser(store)
      if (user === undefined || hasComeIn(store, user)) return
      const records = await recordsFor(deps, user, this.#given.domain)
      if (records === undefined) return
      const host = await hostRecords(deps)
      const now = deps.clock.now()
      const link = await deps.store.write((tx) => {
        const open = invitationOf(tx, user)
        // One that is sent to somebody, or was told by an earlier start, stays good.
        return open !== undefined && open.expires_at - now > LASTS / 2 ? open : invite(tx, user, now, LASTS)
      })
      const url = linkOf(deps, link, user)
      const told = { ...records, user, host, link: url, way: wayIn(url, appliance), until: iso(link.expires_at) }
      // Where both are read, the event has what the text does not repeat (D195).
      log.always('set up', this.#together ? whatOf(told) : eventOf(told))
      this.#now.terminal.err(textOf(told))
    } catch (thrown) {
      // The server runs: another start tells it.
      log.fault('telling what was set up', thrown)
    }
  }
}

function namesOf(given: Omit<FirstNames, 'hostname'>, { hostname }: Config, now: Invocation): FirstNames {
  const by = { domain: 'POSTRIDER_INIT_DOMAIN', email: 'POSTRIDER_INIT_EMAIL' }
  for (const each of ['domain', 'email'] as const)
    if (given[each] === '')
      throw new OperatorError(`${by[each]} is missing: the first start needs the domain and the email.`)
  const named = hostnameFrom(now)
  // Without one, the name that the machine or the container has counts where it is a full one.
  if (named === undefined && !hostname.includes('.'))
    throw new OperatorError(
      'POSTRIDER_HOSTNAME is missing: the first start needs the name of this server in DNS, such as mx.example.org.',
    )
  return checkNames({ ...given, hostname }, { ...by, hostname: named ?? 'The name of this machine' })
}

/** What names the server: the variable, or the file; undefined where neither does. */
function hostnameFrom(now: Invocation): string | undefined {
  if ((variable(now.environment, 'POSTRIDER_HOSTNAME') ?? '') !== '') return 'POSTRIDER_HOSTNAME'
  const file = findConfig(now)
  return file !== undefined && sets(settingsIn(file) ?? '', 'hostname') ? `"hostname" in ${file}` : undefined
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
  /** From where it opens. */
  way: string
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
  const { domain, host, link, until, user, way } = told
  const addresses = host.addresses.length > 0 ? host.addresses : ['<the public address of this server>']
  const own = addresses.map((address) => ['address', typeOfAddress(address), host.hostname, address])
  return `
Postrider is set up for ${domain.name}. Two things are left to do.

1. Publish these records in DNS, each value as one line:

${recordsToCopy(told, own)}

   ${reverseText(host)}
   Printed again, and as a zone file:  ${execLine(`domain records ${domain.name}`)}
   Looks whether they are there:       ${execLine(`domain check ${domain.name}`)}

2. Sign in and choose a password, until ${until.slice(0, 16).replace('T', ' ')} UTC:

   ${link}
${way}
   Makes another link:                 ${execLine(`user invite ${user.email}`)}

`
}

/** From where the link opens, and how it opens before DNS leads here. A form over http is refused beside https. */
function wayIn(link: string, { http, https: [https] }: Pick<Appliance, 'http' | 'https'>): string {
  const { hostname, protocol, pathname, search } = new URL(link)
  const tunnel = (near: number, { host, port }: Endpoint): string =>
    `"ssh -L ${near}:${formatEndpoint(UNSPECIFIED.includes(host) ? '127.0.0.1' : host, port)} SERVER"`
  if (LOOPBACK.test(hostname))
    return `
   It opens on this server alone. From your own computer, ${tunnel(Number(new URL(link).port) || 80, http)} comes first.
`
  if (protocol !== 'https:') return ''
  const early =
    https &&
    `
   Before that, from your own computer: ${tunnel(NEAR, https)}, and then, past the warning of the browser,
   https://localhost:${NEAR}${pathname}${search}`
  return `
   It opens when DNS leads ${hostname} to this server; until the certificate has come, minutes later, browsers warn.${early ?? ''}
`
}
