// The sandbox: the server with simulated DNS and a simulated MX host, a user, an active domain, an inbox
// and a token. Only `postrider dev` loads this file, because the libraries that check received mail are a third of the
// program.
import { writeFileSync } from 'node:fs'
import { makeDirectory } from '../../base/durable.ts'
import type { Clock } from '../../base/clock.ts'
import { parseConfig, type Config } from '../../base/config.ts'
import { OperatorError } from '../../base/errors.ts'
import type { Log } from '../../base/log.ts'
import { createResolver } from '../../net/resolver.ts'
import { SCOPES } from '../../jsonapi/scopes.ts'
import { makeLink } from '../../users/sign-in-links.ts'
import { createToken } from '../../users/tokens.ts'
import { addUser, findUser } from '../../users/users.ts'
import { formatEndpoint } from '../../base/network.ts'
import { addInbox, listInboxes } from '../../inbound/inboxes.ts'
import { checkDomain } from '../../domains/check.ts'
import { domainByKey, listDomains } from '../../domains/find.ts'
import { registerDomain } from '../../domains/lifecycle.ts'
import { startDns } from './dns.ts'
import { startExchanger, type ReceivedMail } from './exchanger.ts'
import { sandboxForm } from './form.ts'
import { startReceiver } from './receiver.ts'
import { sandboxZone } from './zone.ts'
import type { Store } from '../../store/database.ts'
import { startAppliance, type Appliance } from '../appliance.ts'
import { refuseServerData, sandboxAuthority, sandboxSettings } from '../../views/command/sandbox-config.ts'
import { keepServerNames, NO_PORTS, type SandboxPorts } from '../../views/command/server-names.ts'
import type { SandboxAddress } from '../ipv4-ipv6.ts'
import type { ApplianceOptions } from '../wiring.ts'

const USER = 'you@sandbox.example'
const DOMAIN = 'sandbox.example'
const INBOX = `hello@${DOMAIN}`
const HOSTNAME = 'mx.sandbox.example'
const RECEIVER = 'hooks.sandbox.example'

/** An address of the sandbox. `next`: if its port is in use, the next free one is used. */
interface SandboxEndpoint {
  host: string
  port: number
  next?: boolean
}

export interface SandboxOptions {
  http: SandboxEndpoint
  smtp: SandboxEndpoint
  submission?: SandboxEndpoint
  submissions?: SandboxEndpoint
  dataDir: string
  /** The reserve of free disk space. The default is that of a server. */
  storage?: Config['storage']
  clock: Clock
  log: Log
  received?: (mail: ReceivedMail) => void
}

export interface Sandbox {
  appliance: Appliance
  url: string
  token: string
  domain: string
  user: string
  /** A link that signs in to the console, once. */
  consoleLink: string
  inbox: string
  /** The URL of an open sign-up form, if the server has forms. */
  form: string | undefined
  smtpPort: number
  submissionPort: number
  submissionsPort: number
  /** The port of the simulated MX host. */
  exchangerPort: number
  /** The URL of the built-in webhook receiver. */
  receiver: string
  stop(): Promise<void>
}

/** Starts all parts and creates a user, an active domain, an inbox and a token. Throws an OperatorError. */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { clock, dataDir, http, log } = options
  let store: Store | undefined
  let listening: { host: string; port: number } | undefined
  const dns = await startDns(sandboxZone(() => store))
  const undo: (() => Promise<unknown>)[] = [() => dns.close()]
  try {
    const resolver = createResolver({ servers: [{ host: '127.0.0.1', port: dns.port }], timeout: 1000 })
    const received = (mail: ReceivedMail): void => {
      const { message: _, ...logged } = mail
      log.info('sandbox_message_received', { ...logged, to: logged.to.join(',') })
      options.received?.(mail)
    }
    const mxHost = await startExchanger({
      hostname: HOSTNAME,
      clock,
      log,
      resolver,
      received,
      listener: () => listening,
    })
    undo.push(() => mxHost.close())
    const receiver = await startReceiver(RECEIVER, clock, (event) => log.info('sandbox_webhook_received', { ...event }))
    undo.push(() => receiver.close())
    prepareData(dataDir, receiver.certificate)
    const ports = { dns: dns.port, delivery: mxHost.port }
    const { config, sandbox } = settingsFor(options, ports)
    keepServerNames(config, log, ports)
    undo.push(async () => keepServerNames(config, log, NO_PORTS))
    const appliance = await startAppliance({ config, clock, log, resolver, sandbox })
    undo.push(() => appliance.stop())
    store = appliance.deps.store
    listening = appliance.smtp[0]
    // Browsers make passkeys at a name, not at an address.
    const host = http.host === '127.0.0.1' ? 'localhost' : http.host
    config.http.public_url = `http://${host}:${appliance.http.port}`
    keepServerNames(config, log)
    const { link, ...made } = await furnish(appliance, options)
    return {
      appliance,
      consoleLink: `${config.http.public_url}/sign-in?link=${link}&now=1`,
      url: config.http.public_url,
      ...made,
      domain: DOMAIN,
      user: USER,
      inbox: INBOX,
      smtpPort: appliance.smtp[0]!.port,
      submissionPort: appliance.submission[0]!.port,
      submissionsPort: appliance.submissions[0]!.port,
      exchangerPort: mxHost.port,
      receiver: `https://${RECEIVER}:${receiver.port}`,
      async stop() {
        for (const step of undo.splice(0).reverse()) await step()
      },
    }
  } catch (thrown) {
    for (const step of undo.reverse()) await step()
    throw thrown
  }
}

/** Makes the data directory with the authority of the webhook receiver. Throws an OperatorError for a server's data. */
function prepareData(dataDir: string, authority: string): void {
  makeDirectory(dataDir)
  refuseServerData(dataDir)
  writeFileSync(sandboxAuthority(dataDir), authority)
}

/** Any free port unless it is given. */
const ANY: SandboxEndpoint = { host: '127.0.0.1', port: 0 }

function settingsFor(
  { dataDir, http, smtp, storage, submission = ANY, submissions = ANY }: SandboxOptions,
  ports: SandboxPorts,
): Pick<ApplianceOptions, 'config' | 'sandbox'> {
  const written = ({ host, port }: SandboxEndpoint): string => formatEndpoint(host, port)
  const addressOf = ({ next = false }: SandboxEndpoint, option: string): SandboxAddress => ({ option, next })
  const config = parseConfig({
    ...sandboxSettings(dataDir, ports),
    http: { listen: written(http) },
    smtp: { listen: [written(smtp)] },
    submission: { listen: [written(submission)], tls_listen: [written(submissions)] },
  })
  if (storage) config.storage = storage
  return {
    config,
    sandbox: {
      http: addressOf(http, '--http'),
      smtp: addressOf(smtp, '--smtp'),
      submission: addressOf(submission, '--submission'),
      submissions: addressOf(submissions, '--submissions'),
    },
  }
}

/**
 * Creates the user, the active domain, the inboxes and the form unless they exist, a new token, and a link that signs
 * in. Throws an OperatorError when the domain cannot be verified.
 */
async function furnish(
  { deps }: Appliance,
  { clock, log }: SandboxOptions,
): Promise<{ token: string; link: string; form: string | undefined }> {
  const { store } = deps
  const user = findUser(store, USER) ?? (await addUser({ store, clock }, { email: USER, name: 'You' }))
  const domainDeps = { ...deps, ring: deps.bells.domains }
  const domain =
    listDomains(store, DOMAIN)[0] ?? (await registerDomain(domainDeps, user.key, { name: DOMAIN, purpose: 'both' }))
  await checkDomain({ ...deps, clock, log }, domain.key)
  if (domainByKey(store, domain.key)?.status !== 'active')
    throw new OperatorError(
      `The sandbox's domain ${DOMAIN} could not be verified; start again with a new data directory.`,
    )
  // The user's own address has an inbox too, so that notices to the user arrive there.
  for (const [name, address] of Object.entries({ Hello: INBOX, You: USER }))
    if (!listInboxes(store).some((inbox) => inbox.address === address))
      await addInbox(domainDeps, user.key, { name, address })
  const { plaintext } = await createToken({ store, clock }, user.key, {
    name: 'sandbox',
    scopes: SCOPES,
    operator: true,
    duration: '1_month',
  })
  const link = await store.write((tx) => makeLink(tx, user, clock.now()))
  const form = await sandboxForm(deps, user, domain.id)
  return { token: plaintext, link, form }
}
