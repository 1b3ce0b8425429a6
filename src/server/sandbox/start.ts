// The sandbox: the server with simulated DNS and a simulated receiving exchanger, a user, an active domain, an inbox
// and a token. Only `postrider dev` loads this file, because the libraries that check received mail are a third of the
// program.
import { createServer } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectory } from '../../base/durable.ts'
import type { Clock } from '../../base/clock.ts'
import { parseConfig, type Config } from '../../base/config.ts'
import { OperatorError } from '../../base/errors.ts'
import type { Log } from '../../base/log.ts'
import { createResolver } from '../../net/resolver.ts'
import { SCOPES } from '../../identity/scopes.ts'
import { makeLink } from '../../identity/sign-in-links.ts'
import { createToken } from '../../identity/tokens.ts'
import { addUser, findUser } from '../../identity/users.ts'
import { formatEndpoint } from '../../base/network.ts'
import { addInbox, listInboxes } from '../../inbound/inboxes.ts'
import { checkDomain } from '../../domains/check.ts'
import { domainByKey, listDomains } from '../../domains/find.ts'
import { registerDomain } from '../../domains/lifecycle.ts'
import { startDns } from './dns.ts'
import { startExchanger, type ReceivedMail } from './exchanger.ts'
import { startReceiver } from './receiver.ts'
import { sandboxZone } from './zone.ts'
import type { Store } from '../../store/database.ts'
import { startAppliance, type Appliance } from '../appliance.ts'
import { keepServerNames } from '../../commands/server-names.ts'

const USER = 'you@sandbox.example'
const DOMAIN = 'sandbox.example'
const INBOX = `hello@${DOMAIN}`
const HOSTNAME = 'mx.sandbox.example'
const RECEIVER = 'hooks.sandbox.example'

export interface SandboxOptions {
  http: { host: string; port: number }
  /** The address of the sandbox's SMTP listener. */
  smtp: { host: string; port: number }
  dataDir: string
  /** The reserve of free disk space; by default that of a server. */
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
  /** Address of its inbox. */
  inbox: string
  /** The port that receives mail. */
  smtpPort: number
  submissionPort: number
  submissionsPort: number
  /** The port of the simulated exchanger. */
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
      const { message: _, ...told } = mail
      log.info('received', { ...told, to: told.to.join(',') })
      options.received?.(mail)
    }
    const exchanger = await startExchanger({
      hostname: HOSTNAME,
      clock,
      log,
      resolver,
      received,
      listener: () => listening,
    })
    undo.push(() => exchanger.close())
    const receiver = await startReceiver(RECEIVER, clock, (event) => log.info('webhook received', { ...event }))
    undo.push(() => receiver.close())
    makeDirectory(dataDir)
    const caFile = join(dataDir, 'sandbox-ca.pem')
    writeFileSync(caFile, receiver.certificate)
    const config = await configFor(options, exchanger.port, caFile)
    const appliance = await startAppliance({ config, clock, log, resolver, keys: { http: '--http', smtp: '--smtp' } })
    undo.push(() => appliance.stop())
    store = appliance.deps.store
    listening = appliance.smtp[0]
    // Browsers make passkeys at a name, not at an address.
    const host = http.host === '127.0.0.1' ? 'localhost' : http.host
    config.http.public_url = `http://${host}:${appliance.http.port}`
    keepServerNames(config, log)
    const { plaintext, link } = await furnish(appliance, options)
    return {
      appliance,
      consoleLink: `${config.http.public_url}/sign-in?link=${link}&now=1`,
      url: config.http.public_url,
      token: plaintext,
      domain: DOMAIN,
      user: USER,
      inbox: INBOX,
      smtpPort: appliance.smtp[0]!.port,
      submissionPort: appliance.submission[0]!.port,
      submissionsPort: appliance.submissions[0]!.port,
      exchangerPort: exchanger.port,
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

async function configFor(
  { dataDir, http, smtp, storage }: SandboxOptions,
  exchangerPort: number,
  caFile: string,
): Promise<Config> {
  const config = parseConfig({
    hostname: 'postrider.sandbox.example',
    data_dir: dataDir,
    http: { listen: formatEndpoint(http.host, http.port) },
    smtp: { listen: [formatEndpoint(smtp.host, smtp.port)] },
    submission: { listen: [await freeEndpoint(SUBMISSION)], tls_listen: [await freeEndpoint(SUBMISSIONS)] },
    delivery: { port: exchangerPort },
    network: { allow_private: ['127.0.0.0/8', '::1/128'] },
    // No mail leaves (DV17).
    warmup: { enabled: false },
    tls: { ca_file: caFile },
    // Its DNS has no lists.
    watch: { every: '0' },
  })
  if (storage) config.storage = storage
  return config
}

/**
 * Creates the user, the active domain and the inboxes unless they exist, a new token, and a link that signs in. Throws
 * an OperatorError when the domain cannot be verified.
 */
async function furnish(
  { deps }: Appliance,
  { clock, log }: SandboxOptions,
): Promise<{ plaintext: string; link: string }> {
  const { config, resolver, store } = deps
  const user = findUser(store, USER) ?? (await addUser({ store, clock }, { email: USER, name: 'You' }))
  const domainDeps = { ...deps, ring: deps.bells.domains }
  const domain =
    listDomains(store, DOMAIN)[0] ?? (await registerDomain(domainDeps, user.key, { name: DOMAIN, purpose: 'both' }))
  await checkDomain({ store, clock, resolver, log, config }, domain.key)
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
    duration: '1_month',
  })
  const link = await store.write((tx) => makeLink(tx, user, clock.now()))
  return { plaintext, link }
}

/** The preferred ports for submission; the next free ones are used. */
const SUBMISSION = 2587
const SUBMISSIONS = 2465
const MAX_TRIED = 100

async function freeEndpoint(from: number): Promise<string> {
  for (let port = from; port < from + MAX_TRIED; port++) {
    const server = createServer()
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!free) continue
    await new Promise((resolve) => server.close(resolve))
    return formatEndpoint('127.0.0.1', port)
  }
  throw new OperatorError(`No port from ${from} to ${from + MAX_TRIED - 1} is free on 127.0.0.1; end other programs.`)
}
