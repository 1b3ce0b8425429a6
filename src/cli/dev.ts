// `postrider dev`: the sandbox. API, queue, DKIM, SMTP and store are real. DNS and the receiving servers are simulated
// in the process, so a first email needs no domain and no port 25.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { loadConfig } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { becomeOwner } from '../base/ownership.ts'
import { formatEndpoint, parseEndpoint, reachedAt } from '../base/network.ts'
import { namedConfig } from '../base/config-file.ts'
import { serverLog, type Invocation } from '../views/command/open.ts'
import type { Sandbox } from '../server/sandbox/start.ts'
import { Ending } from './serve.ts'
import { answer } from '../views/command/terminal.ts'

const ADDRESSES = {
  http: '127.0.0.1:8025',
  smtp: '127.0.0.1:2525',
  submission: '127.0.0.1:2587',
  submissions: '127.0.0.1:2465',
}
type Addresses = Record<keyof typeof ADDRESSES, string>
type DevOptions = Addresses & { data?: string }

const FORM = '(host:port or a local port)'

export function devCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('dev')
    .description('run the sandbox, with simulated DNS and recipients')
    .option('--http <address>', `listening address of the API ${FORM}`, ADDRESSES.http)
    .option('--smtp <address>', `listening address for received email ${FORM}`, ADDRESSES.smtp)
    .option('--submission <address>', `address for submission with STARTTLS ${FORM}`, ADDRESSES.submission)
    .option('--submissions <address>', `address for submission with TLS ${FORM}`, ADDRESSES.submissions)
    .option('--data <dir>', 'data directory to keep (default: a temporary one, deleted at exit)')
    .action(async ({ data, ...addresses }: DevOptions, command: Command) => {
      const asked = invocation()
      const { terminal } = asked
      const { storage } = loadConfig(namedConfig(asked), asked.environment)
      // With --json, stdout has only the document, and the log goes to stderr.
      const log = serverLog(
        { ...terminal, interactive: !terminal.json },
        'info',
        terminal.json ? terminal.err : terminal.out,
      )
      const dataDir = data === undefined ? mkdtempSync(join(tmpdir(), 'postrider-')) : resolve(data)
      becomeOwner(dataDir)
      const cleanUp = (): void => (data === undefined ? rmSync(dataDir, { recursive: true, force: true }) : undefined)
      const ending = new Ending()
      try {
        const { startSandbox } = await import('../server/sandbox/start.ts')
        const starting = startSandbox({
          http: endpoint(command, addresses, 'http'),
          smtp: endpoint(command, addresses, 'smtp'),
          submission: endpoint(command, addresses, 'submission'),
          submissions: endpoint(command, addresses, 'submissions'),
          dataDir,
          storage,
          clock: systemClock,
          log,
        })
        const sandbox = await ending.orStarted(starting)
        const shown = shownOf(sandbox, dataDir)
        answer(terminal, { ...shown, curl: curl(shown), curl_received: received(shown) }, welcome)
        await ending.stops(sandbox)
      } finally {
        ending.over()
        cleanUp()
      }
    })
}

/** Returns the address at which an application on this machine reaches a listener. */
const reached = (endpoints: readonly { host: string; port: number }[]): string =>
  endpoints.map(({ host, port }) => formatEndpoint(reachedAt(host), port)).join()

/** The output of the command for a sandbox, with the member names of its JSON. */
const shownOf = ({ domain, form, inbox, receiver, token, url, user, ...sandbox }: Sandbox, dataDir: string) => ({
  url,
  console: sandbox.consoleLink,
  api: `${url}/api/v1`,
  token,
  domain,
  user,
  inbox,
  ...(form !== undefined && { form }),
  from: inbox,
  to: 'reply@friend.example',
  smtp_port: sandbox.smtpPort,
  submission: reached(sandbox.appliance.submission),
  submissions: reached(sandbox.appliance.submissions),
  submission_port: sandbox.submissionPort,
  submissions_port: sandbox.submissionsPort,
  exchanger_port: sandbox.exchangerPort,
  receiver,
  data_dir: dataDir,
})

/** A port without a host is a port of this machine. A default port that is in use is replaced by the next free one. */
function endpoint(
  command: Command,
  given: Addresses,
  name: keyof Addresses,
): { host: string; port: number; next: boolean } {
  const text = given[name]
  const parsed = parseEndpoint(/^\d+$/.test(text) ? `127.0.0.1:${text}` : text)
  if (!parsed)
    throw new OperatorError(
      `--${name} "${text}" is not an address; use host:port or a port, such as ${ADDRESSES[name]} or 8025.`,
    )
  return { ...parsed, next: command.getOptionValueSource(name) === 'default' }
}

type DevSettings = ReturnType<typeof shownOf>

function curl({ api, token, from, to }: DevSettings): string {
  const body = {
    data: {
      type: 'outbound-emails',
      attributes: { from, to, subject: 'First email', html: '<p>It works.</p>', text: 'It works.' },
    },
  }
  return `curl -s ${api}/outbound-emails -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/vnd.api+json' -d '${JSON.stringify(body)}'`
}

const received = ({ api, token }: DevSettings): string =>
  `curl -s ${api}/inbound-emails -H 'Authorization: Bearer ${token}'`

const welcome = (shown: DevSettings): string => `
Postrider sandbox: the real server with simulated DNS and simulated recipients. No email leaves this machine.

  console  ${shown.console} (signs you in; works once)
  API      ${shown.api}
  token    ${shown.token}
  domain   ${shown.domain} (active; email from any address @${shown.domain} is signed)
  inbox    ${shown.inbox} (receives email on port ${shown.smtp_port})
${shown.form === undefined ? '' : `  form     ${shown.form} (people subscribe to your newsletter)\n`}  SMTP     ${shown.submission} (STARTTLS) and ${shown.submissions} (TLS); any user name, the token as the password

Send a first email from another terminal:

${curl(shown)}

${shown.to} replies. A few seconds later the reply is in the inbox:

${received(shown)}

Every address at every domain accepts email. Some simulate something else (a tag such as bounce+1@ changes nothing):

  reply@     replies to the email
  bounce@    returns a bounce message after the delivery
  complain@  returns a spam complaint after the delivery
  confirm@   confirms a sign-up, a second after its confirmation email
  refuse@    rejects permanently (550)
  defer@     rejects temporarily (451)
  slow@      responds after 10 seconds

To test webhooks, post them to ${shown.receiver}/ (/500, /410, /429 and /slow return such responses).
Each delivery is logged here with its DKIM result. Press Ctrl-C to stop.
`
