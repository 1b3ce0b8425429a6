// `postrider dev`: the sandbox. API, queue, DKIM, SMTP and store are real. DNS and the receiving exchangers are
// simulated inside the program, so that a first mail needs no domain and no port 25.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { loadConfig } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { becomeOwner } from '../base/ownership.ts'
import { parseEndpoint } from '../base/network.ts'
import { namedConfig } from '../base/config-file.ts'
import { serverLog, type Invocation } from '../commands/open.ts'
import type { Sandbox } from '../server/sandbox/start.ts'
import { Ending } from './serve.ts'
import { answer } from '../commands/terminal.ts'

export function devCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('dev')
    .description(
      'the sandbox: everything real, DNS and receiving exchangers built in; of the configuration it uses only [storage]',
    )
    .option('--http <address>', 'where the API listens; a port alone is one of 127.0.0.1', '127.0.0.1:8025')
    .option(
      '--smtp <address>',
      'where mail for the sandbox is received; a port alone is one of 127.0.0.1',
      '127.0.0.1:2525',
    )
    .option('--data <dir>', 'keep the data in this directory (else a temporary one, removed at the end)')
    .action(async ({ http, smtp, data }: { http: string; smtp: string; data?: string }) => {
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
          http: endpoint('--http', http),
          smtp: endpoint('--smtp', smtp),
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

/** The output of the command for a sandbox, with the member names of its JSON. */
const shownOf = ({ domain, inbox, receiver, token, url, user, ...sandbox }: Sandbox, dataDir: string) => ({
  url,
  console: sandbox.consoleLink,
  api: `${url}/api/v1`,
  token,
  domain,
  user,
  inbox,
  from: inbox,
  to: 'reply@friend.example',
  smtp_port: sandbox.smtpPort,
  submission_port: sandbox.submissionPort,
  submissions_port: sandbox.submissionsPort,
  exchanger_port: sandbox.exchangerPort,
  receiver,
  data_dir: dataDir,
})

/** A port without a host is a port of this machine. */
function endpoint(option: string, text: string): { host: string; port: number } {
  const parsed = parseEndpoint(/^\d+$/.test(text) ? `127.0.0.1:${text}` : text)
  if (!parsed)
    throw new OperatorError(`${option} must be host:port or a port, such as 127.0.0.1:8025 or 8025, not "${text}".`)
  return parsed
}

type DevSettings = ReturnType<typeof shownOf>

function curl({ api, token, from, to }: DevSettings): string {
  const body = {
    data: {
      type: 'outbound-emails',
      attributes: { from, to, subject: 'First mail', html: '<p>It works.</p>', text: 'It works.' },
    },
  }
  return `curl -s ${api}/outbound-emails -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/vnd.api+json' -d '${JSON.stringify(body)}'`
}

const received = ({ api, token }: DevSettings): string =>
  `curl -s ${api}/inbound-emails -H 'Authorization: Bearer ${token}'`

const welcome = (shown: DevSettings): string => `
Postrider sandbox: the API, the queue, DKIM, SMTP and the store are real; DNS and the receiving exchangers are built in.

  console  ${shown.console} (signs you in, once)
  API      ${shown.api}
  token    ${shown.token}
  domain   ${shown.domain} (active; mail from anybody@${shown.domain} is signed with its key)
  inbox    ${shown.inbox} (mail for it is received on port ${shown.smtp_port})
  SMTP     127.0.0.1:${shown.submission_port} (STARTTLS) and 127.0.0.1:${shown.submissions_port} (TLS) for programs that send; any user, the token as password

Send a first mail from another terminal:

${curl(shown)}

A webhook receiver is at ${shown.receiver}/ (a path of /500, /410, /429 or /slow makes it answer so).
${shown.to} answers it. A few seconds later the reply is in the inbox:

${received(shown)}

Every address receives, whatever its domain. Some do something on purpose, at any domain: reply@ answers, bounce@ sends a delivery
report, complain@ a spam complaint, refuse@ says no at once, defer@ not now, and slow@ takes its time; a tag (bounce+1@) changes nothing.
What arrives is logged here with its DKIM verdict. Ctrl-C ends it.
`
