// `postrider token …`: personal access tokens for the API.
import { InvalidArgumentError, Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { must, OperatorError } from '../base/errors.ts'
import { jsonOf } from '../base/json.ts'
import { counted } from '../base/text.ts'
import { isScope, SCOPES } from '../jsonapi/scopes.ts'
import { changeToken, createToken, DURATIONS, listTokens, revokeToken, type Duration } from './tokens.ts'
import { requireUser } from './users.ts'
import { line, name } from '../jsonapi/schemas.ts'
import { asks, confirm, type Sure } from '../views/command/confirm.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'

/** Reads "all" or a list of scope names. Throws an OperatorError that names an unknown scope. */
function parseScopes(text: string): (typeof SCOPES)[number][] {
  if (text === 'all') return [...SCOPES]
  return text.split(',').map((part) => {
    const scope = part.trim()
    if (!isScope(scope))
      throw new OperatorError(
        scope === 'all'
          ? '"all" already includes every scope; use it without other scopes.'
          : `"${scope}" is not a scope; use "all" or one or more of ${SCOPES.join(', ')}.`,
      )
    return scope
  })
}

/** The settings for sending by SMTP through this server, or null without a submission listener. */
function smtpSettings({
  hostname,
  submission,
}: Config): { host: string; ports: number[]; tls_ports: number[]; user: string } | null {
  const portsOf = (endpoints: readonly { port: number }[]): number[] => [...new Set(endpoints.map(({ port }) => port))]
  const { listen, tls_listen } = submission
  if (listen.length + tls_listen.length === 0) return null
  return { host: hostname, ports: portsOf(listen), tls_ports: portsOf(tls_listen), user: 'postrider' }
}

const smtpText = ({ host, ports, tls_ports, user }: NonNullable<ReturnType<typeof smtpSettings>>): string =>
  [
    'SMTP settings for applications (docs/smtp.md):',
    `  host      ${host}`,
    ...(tls_ports.length > 0 ? [`  port      ${tls_ports.join(', ')} with TLS`] : []),
    ...(ports.length > 0 ? [`  port      ${ports.join(', ')} with STARTTLS`] : []),
    `  user      ${user} (any name works)`,
    '  password  the token',
  ].join('\n')

/**
 * The daily limit in an option: a number, or `none`. It is not null, because commander keeps the text when a parser
 * returns null.
 */
type Daily = number | 'none'

const dailyOption = (): Option =>
  new Option('--daily <n>', 'maximum number of recipients per day (UTC), or none').argParser((text): Daily => {
    if (text === 'none') return text
    if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('Use a whole number from 1, or none.')
    return Number(text)
  })

/** The daily limit as it is stored: null means no limit. */
const capOf = (daily: Daily): number | null => (daily === 'none' ? null : daily)

/** The name of a token or a user, with the rules of `name` in the API. */
export function nameOf(text: string): string {
  if (!name().safeParse(text).success)
    throw new InvalidArgumentError('Use one line of 1 to 255 bytes, without control or invisible characters.')
  return text
}

/** The name of an agent, with the rules of `agent_id` in the API. */
const agentOption = (about: string): Option =>
  new Option('--agent <name>', about).argParser((text) => {
    if (!AGENT.safeParse(text).success) throw new InvalidArgumentError('Use one line of 1 to 128 characters.')
    return text
  })

const AGENT = line(128, 'characters').min(1)

export function tokenCommand(program: Command, invocation: () => Invocation): void {
  const token = program.command('token').description('manage API tokens')
  create(token, invocation)
  set(token, invocation)
  list(token, invocation)
  revoke(token, invocation)
}

function create(token: Command, invocation: () => Invocation): void {
  token
    .command('create')
    .description('create a token and print it; it is not shown again')
    .requiredOption('--user <email>', 'user that the token belongs to')
    .requiredOption('--name <name>', 'name of the token', nameOf)
    .requiredOption('--scopes <scopes>', 'all, or a comma-separated list of scopes')
    .addOption(new Option('--duration <duration>', 'validity').choices(Object.keys(DURATIONS)).makeOptionMandatory())
    .addOption(agentOption('agent of all email that is sent with the token'))
    .addOption(dailyOption())
    .action(
      (options: { user: string; name: string; scopes: string; duration: Duration; agent?: string; daily?: Daily }) =>
        withDeps(invocation(), async (deps) => {
          const scopes = parseScopes(options.scopes)
          const { key } = requireUser(deps.store, options.user)
          const { token: made, plaintext } = await createToken(deps, key, {
            name: options.name,
            scopes,
            duration: options.duration,
            operator: true,
            agentId: options.agent,
            daily: (options.daily === undefined ? undefined : capOf(options.daily)) ?? undefined,
          })
          const smtp = scopes.includes('emails:send') ? smtpSettings(deps.config) : null
          answer(
            invocation().terminal,
            {
              id: made.id,
              token: plaintext,
              scopes,
              ...(made.agent_id === null ? {} : { agent: made.agent_id }),
              ...(made.daily === null ? {} : { daily: made.daily }),
              expires_at: iso(made.expires_at),
              ...(smtp ? { smtp } : {}),
            },
            (shown) =>
              `${shown.token}\n\nStore it now, because it is not shown again. It expires at ${shown.expires_at}.${
                smtp ? `\n\n${smtpText(smtp)}` : ''
              }`,
          )
        }),
    )
}

function set(token: Command, invocation: () => Invocation): void {
  token
    .command('set <id>')
    .description('change the agent or the daily limit of a token')
    .addOption(agentOption('agent of all email that is sent with the token, or none'))
    .addOption(dailyOption())
    .action((id: string, { agent, daily }: { agent?: string; daily?: Daily }) =>
      withDeps(invocation(), async (deps) => {
        if (agent === undefined && daily === undefined)
          throw new OperatorError('No change given; add --agent NAME or --daily N.')
        const change = {
          ...(agent === undefined ? {} : { agent_id: agent === 'none' ? null : agent }),
          ...(daily === undefined ? {} : { daily: capOf(daily) }),
        }
        if (!(await changeToken(deps, id, change)))
          throw new OperatorError(`There is no token ${id}; run "postrider token list" to see all tokens.`)
        const changed = must(
          listTokens(deps.store).find((each) => each.id === id),
          'The changed token',
        )
        answer(
          invocation().terminal,
          { id, agent: changed.agent_id, daily: changed.daily },
          (shown) =>
            `The token ${id} has ${shown.agent === null ? 'no agent' : `the agent ${shown.agent}`} and ${shown.daily === null ? 'no daily limit' : `a daily limit of ${counted(shown.daily, 'recipient')}`}.`,
        )
      }),
    )
}

function list(token: Command, invocation: () => Invocation): void {
  token
    .command('list')
    .description('list tokens')
    .option('--user <email>', 'only tokens of this user')
    .action(({ user }: { user?: string }) =>
      withDeps(invocation(), ({ store }) => {
        const tokens = listTokens(store, user === undefined ? undefined : requireUser(store, user).key).map((row) => ({
          id: row.id,
          user: row.email,
          name: row.name,
          scopes: (jsonOf(row.scopes) ?? []) as string[],
          last_four: row.last_four,
          agent: row.agent_id,
          daily: row.daily,
          expires_at: iso(row.expires_at),
          last_used_at: row.last_used_at === null ? null : iso(row.last_used_at),
        }))
        answer(invocation().terminal, tokens, (list) =>
          table(
            ['ID', 'USER', 'NAME', 'TOKEN', 'EXPIRES', 'LAST USED', 'AGENT', 'PER DAY', 'SCOPES'],
            list.map((one) => [
              one.id,
              one.user,
              one.name,
              `…${one.last_four}`,
              one.expires_at,
              one.last_used_at,
              one.agent,
              one.daily,
              one.scopes.length === SCOPES.length ? 'all' : one.scopes.join(','),
            ]),
          ),
        )
      }),
    )
}

function revoke(token: Command, invocation: () => Invocation): void {
  asks(token.command('revoke <id>'))
    .description('revoke a token immediately')
    .action((id: string, sure: Sure) =>
      withDeps(invocation(), async ({ store }) => {
        const known = listTokens(store).find((each) => each.id === id)
        if (known)
          await confirm(
            invocation(),
            sure,
            `Applications that use the token "${known.name}" of ${known.email} are rejected immediately. This cannot be undone.`,
          )
        if (!(await revokeToken(store, id)))
          throw new OperatorError(`There is no token ${id}; run "postrider token list" to see all tokens.`)
        answer(invocation().terminal, { id, revoked: true }, () => `Revoked ${id}.`)
      }),
    )
}
