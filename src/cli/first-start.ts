// The first start of a server in a container, where nobody has a shell: POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL
// do what `postrider init` does, once (D170). An installation that has a domain, or another user, stays as it is.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { HOUR, iso } from '../base/clock.ts'
import { variable } from '../base/config-environment.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { becomeOwner } from '../base/ownership.ts'
import { configAsset } from '../base/assets.ts'
import type { Log } from '../base/log.ts'
import { findConfig } from '../base/config-file.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { zoneText } from '../domains/command-text.ts'
import { invite, linkOf } from '../identity/invitations.ts'
import { listUsers } from '../identity/users.ts'
import { openInstance } from '../store/instance.ts'
import { DATABASE } from '../store/open.ts'
import { db } from '../store/query.ts'
import {
  configPlace,
  prepareDataDir,
  serviceOwner,
  settingsIn,
  withFrontDoor,
  withSetting,
  writeConfig,
} from './installation.ts'
import { checkNames, setUp, type FirstNames } from './set-up.ts'

const LASTS = HOUR

/** Whether the environment asks for a first start: the file that it names need not be there then. */
export const wantsFirstStart = ({ environment }: Pick<Invocation, 'environment'>): boolean =>
  ['POSTRIDER_INIT_DOMAIN', 'POSTRIDER_INIT_EMAIL'].some((name) => (variable(environment, name) ?? '') !== '')

/**
 * Sets up an empty installation as the environment says, and logs the records and a link to sign in. Whether it did:
 * the configuration may be another then. Throws an OperatorError.
 */
export async function firstStart(now: Invocation, config: Config, log: Log): Promise<boolean> {
  const { hostname } = config
  const domain = variable(now.environment, 'POSTRIDER_INIT_DOMAIN') ?? ''
  const email = variable(now.environment, 'POSTRIDER_INIT_EMAIL') ?? ''
  if (!wantsFirstStart(now) || !isEmpty(config, email)) return false
  for (const [name, value] of [
    ['POSTRIDER_INIT_DOMAIN', domain],
    ['POSTRIDER_INIT_EMAIL', email],
  ] as const)
    if (value === '') throw new OperatorError(`${name} is missing: the first start needs the domain and the email.`)
  if (!hostname.includes('.'))
    throw new OperatorError(
      'POSTRIDER_HOSTNAME is missing: the first start needs the name of this server in DNS, such as mx.example.org.',
    )
  const names = checkNames({ domain, email, hostname })
  const owner = serviceOwner()
  prepareDataDir(config.data_dir, owner)
  becomeOwner(config.data_dir)
  const file = findConfig(now) ?? configPlace(now)
  if (settingsIn(file) === undefined) {
    const text = withSetting(
      withSetting(configAsset('postrider.toml'), 'hostname', names.hostname),
      'data_dir',
      config.data_dir,
    )
    writeConfig(file, config.acme.accept_terms ? withFrontDoor(text, names) : text, owner)
  }
  await withDeps({ ...now, configFile: file }, (deps) => makeFirst(deps, names, log))
  return true
}

/** Whether nothing is there but what a first start that was cut off has made. */
function isEmpty({ data_dir }: Config, email: string): boolean {
  if (!existsSync(join(data_dir, DATABASE))) return true
  try {
    const { store } = openInstance(data_dir)
    try {
      const domain = store.first(db.selectFrom('domains').select('key').limit(1))
      return domain === undefined && listUsers(store).every((user) => user.email === email)
    } finally {
      store.close()
    }
  } catch (thrown) {
    // Of an older version, or damaged: no new installation. The start says what is to be done.
    if (thrown instanceof OperatorError) return false
    throw thrown
  }
}

async function makeFirst(deps: Deps, names: FirstNames, log: Log): Promise<void> {
  const made = await setUp(deps, names)
  const expires = deps.clock.now() + LASTS
  const invitation = await deps.store.write((tx) => invite(tx, made.user, deps.clock.now(), LASTS))
  log.always('set up', {
    domain: made.domain.name,
    hostname: names.hostname,
    user: made.user.email,
    records: zoneText(made).split('\n').filter(Boolean),
    sign_in: linkOf(deps, invitation, made.user),
    sign_in_until: iso(expires),
  })
}
