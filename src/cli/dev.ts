// `postrider dev`: the sandbox. API, queue, DKIM, SMTP and store are the real thing; DNS and the receiving exchangers are built
// in, so that a first mail needs neither a domain nor port 25.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { systemClock, type Clock } from '../base/clock.ts'
import { parseConfig } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { parseEndpoint } from '../base/network.ts'
import { createResolver } from '../base/resolver.ts'
import { SCOPES } from '../accounts/scopes.ts'
import { createToken } from '../accounts/tokens.ts'
import { addUser, findUser } from '../accounts/users.ts'
import { listenError } from '../api/server.ts'
import { checkDomain } from '../domains/check.ts'
import { domainByKey, listDomains, registerDomain } from '../domains/register.ts'
import { startDns } from '../sandbox/dns.ts'
import { startExchanger, type ReceivedMail } from '../sandbox/exchanger.ts'
import { sandboxZone } from '../sandbox/zone.ts'
import type { Store } from '../store/database.ts'
import { startAppliance, type Appliance } from './appliance.ts'
import { serverLog, type Invocation } from './open.ts'
import { untilSignal } from './serve.ts'
import { answer } from './terminal.ts'

const USER = 'you@sandbox.example'
const DOMAIN = 'sandbox.example'
const HOSTNAME = 'mx.sandbox.example'

export interface SandboxOptions {
  http: { host: string; port: number }
  smtp: { host: string; port: number }
  dataDir: string
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
  /** Port of the built-in exchanger. */
  smtpPort: number
  stop(): Promise<void>
}

/** Starts everything and makes a user, an active domain and a token. Throws an OperatorError. */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { clock, dataDir, http, log, smtp } = options
  let store: Store | undefined
  const dns = await startDns(sandboxZone(() => store))
  const undo: (() => Promise<unknown>)[] = [() => dns.close()]
  try {
    const resolver = createResolver({ servers: [{ host: '127.0.0.1', port: dns.port }], timeout: 1000 })
    const received = (mail: ReceivedMail): void => {
      const { message: _, ...told } = mail
      log.info('received', { ...told, to: told.to.join(',') })
      options.received?.(mail)
    }
    const exchanger = await startExchanger({ hostname: HOSTNAME, clock, resolver, listen: smtp, received }).catch(
      (thrown: unknown) => {
        throw listenError(thrown, '--smtp', smtp.host, smtp.port)
      },
    )
    undo.push(() => exchanger.close())
    const config = parseConfig({
      hostname: 'postrider.sandbox.example',
      data_dir: dataDir,
      http: { listen: `${http.host}:${http.port}` },
      delivery: { port: exchanger.port },
      network: { allow_private: ['127.0.0.0/8', '::1/128'] },
    })
    const appliance = await startAppliance({ config, clock, log, resolver })
    undo.push(() => appliance.stop())
    store = appliance.desk.store
    config.http.public_url = `http://${http.host}:${appliance.http.port}`
    const user = findUser(store, USER) ?? (await addUser({ store, clock }, { email: USER, name: 'You' }))
    const deskOfDomains = { ...appliance.desk, ring: appliance.desk.bells.domains }
    const domain =
      listDomains(store, DOMAIN)[0] ??
      (await registerDomain(deskOfDomains, user.key, { name: DOMAIN, purpose: 'both' }))
    await checkDomain({ store, clock, resolver, log, config }, domain.key)
    if (domainByKey(store, domain.key)?.status !== 'active')
      throw new OperatorError(
        `The sandbox's domain ${DOMAIN} could not be verified; start again with a new data directory.`,
      )
    const { plaintext } = await createToken({ store, clock }, user.key, {
      name: 'sandbox',
      scopes: SCOPES,
      duration: '1_month',
    })
    return {
      appliance,
      url: config.http.public_url,
      token: plaintext,
      domain: DOMAIN,
      user: USER,
      smtpPort: exchanger.port,
      async stop() {
        for (const step of undo.splice(0).reverse()) await step()
      },
    }
  } catch (thrown) {
    for (const step of undo.reverse()) await step()
    throw thrown
  }
}

export function devCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('dev')
    .description('the sandbox: everything real, DNS and receiving exchangers built in')
    .option('--http <address>', 'where the API listens', '127.0.0.1:8025')
    .option('--smtp <address>', 'where the built-in exchanger listens', '127.0.0.1:2525')
    .option('--data <dir>', 'keep the data in this directory (else a temporary one, removed at the end)')
    .action(async ({ http, smtp, data }: { http: string; smtp: string; data?: string }) => {
      const { terminal } = invocation()
      // With --json stdout carries the one document; what happens is told on stderr.
      const log = serverLog(
        { ...terminal, interactive: !terminal.json },
        'info',
        terminal.json ? terminal.err : terminal.out,
      )
      const dataDir = data === undefined ? mkdtempSync(join(tmpdir(), 'postrider-')) : resolve(data)
      const cleanUp = (): void => (data === undefined ? rmSync(dataDir, { recursive: true, force: true }) : undefined)
      try {
        const sandbox = await startSandbox({
          http: endpoint('--http', http),
          smtp: endpoint('--smtp', smtp),
          dataDir,
          clock: systemClock,
          log,
        })
        const { url, token, domain, user, smtpPort } = sandbox
        const shown = {
          url,
          api: `${url}/api/v1`,
          token,
          domain,
          user,
          from: `hello@${domain}`,
          to: 'ann@inbox.example',
          smtp_port: smtpPort,
          data_dir: dataDir,
        }
        answer(terminal, { ...shown, curl: curl(shown) }, welcome)
        await untilSignal(sandbox)
      } finally {
        cleanUp()
      }
    })
}

function endpoint(option: string, text: string): { host: string; port: number } {
  const parsed = parseEndpoint(text)
  if (!parsed) throw new OperatorError(`${option} must be host:port, such as 127.0.0.1:8025, not "${text}".`)
  return parsed
}

interface Shown {
  api: string
  token: string
  domain: string
  from: string
  to: string
}

function curl({ api, token, from, to }: Shown): string {
  const body = {
    data: {
      type: 'outbound-emails',
      attributes: { from, to, subject: 'First mail', html: '<p>It works.</p>', text: 'It works.' },
    },
  }
  return `curl -s ${api}/outbound-emails -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/vnd.api+json' -d '${JSON.stringify(body)}'`
}

const welcome = (shown: Shown): string => `
Postrider sandbox: the API, the queue, DKIM, SMTP and the store are real; DNS and the receiving exchangers are built in.

  API      ${shown.api}
  token    ${shown.token}
  domain   ${shown.domain} (active; mail from anybody@${shown.domain} is signed with its key)

Send a first mail from another terminal:

${curl(shown)}

Every address receives, whatever its domain. Some fail on purpose: bounce@, defer@ and slow@ anywhere.
What arrives is logged here with its DKIM verdict. Ctrl-C ends it.
`
