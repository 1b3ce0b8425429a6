// `postrider init`: from nothing to a configuration, a data directory, a first user, a domain and a token. Safe to repeat:
// what is there already is kept and shown again.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { configAsset } from '../base/assets.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { organisationalDomain, parseAddress, toAscii } from '../message/address.ts'
import { addUser, findUser } from '../accounts/users.ts'
import { listDomains, registerDomain } from '../domains/register.ts'
import { recordsOf } from '../domains/records.ts'
import { recordsText, zoneFile } from './domain.ts'
import { findConfig, withDesk, type Invocation } from './open.ts'
import { answer } from './terminal.ts'

interface Answers {
  domain: string
  hostname: string
  email: string
  data: string
}

export function initCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('init')
    .description('write the configuration, make the data directory, the first user and domain')
    .option('--domain <name>', 'the first sending domain, such as example.org')
    .option('--hostname <name>', 'the name of this server in DNS, such as mx.example.org')
    .option('--email <address>', 'the address of the first user')
    .option('--data <dir>', 'the data directory')
    .action(async (given: Partial<Answers>) => {
      const now = invocation()
      const known = findConfig(now)
      const configFile = resolve(known ?? './postrider.toml')
      const answers = await ask(given, now)
      const fresh = !existsSync(configFile)
      if (fresh) writeConfig(configFile, answers)
      await withDesk({ ...now, configFile }, async (desk) => {
        const user = findUser(desk.store, answers.email) ?? (await addUser(desk, { email: answers.email }))
        const domain =
          listDomains(desk.store, answers.domain).find(({ user_key }) => user_key === user.key) ??
          (await registerDomain(desk, user.key, { name: answers.domain, purpose: 'both' }))
        const records = recordsOf(desk.store, domain.key)
        answer(
          now.terminal,
          {
            config: configFile,
            data_dir: desk.config.data_dir,
            hostname: desk.config.hostname,
            user: user.email,
            domain: domain.name,
            status: domain.status,
            zone: zoneFile(records),
          },
          (shown) => `${fresh ? 'Wrote' : 'Kept'} ${shown.config} (data in ${shown.data_dir}).

1. Publish these records for ${shown.domain}:

${recordsText(records)}
   and for this server: ${shown.hostname} A <its address>, with the reverse entry (PTR) of that address naming ${shown.hostname}.

2. Start it:            postrider --config ${shown.config} serve
3. See it verified:     postrider --config ${shown.config} domain check ${shown.domain}
4. Make an API token:   postrider --config ${shown.config} token create --user ${shown.user} --name first --scopes all --duration 12_months
5. Send a test mail:    postrider --config ${shown.config} send --from hello@${shown.domain} --to you@elsewhere.example --subject Hello
`,
        )
      })
    })
}

/** What is not given as an option is asked for on a terminal; elsewhere one sentence names the options that are missing. */
async function ask(given: Partial<Answers>, { terminal }: Invocation): Promise<Answers> {
  const questions: [keyof Answers, string, (answers: Partial<Answers>) => string][] = [
    ['domain', 'Your first sending domain', () => ''],
    ['hostname', 'The name of this server in DNS', ({ domain }) => (domain ? `mx.${domain}` : '')],
    ['email', 'Your email address', () => ''],
    [
      'data',
      'Where the data lives',
      () => (process.getuid?.() === 0 ? '/var/lib/postrider' : resolve('./postrider-data')),
    ],
  ]
  const answers: Partial<Answers> = { ...given }
  const prompts =
    terminal.interactive && process.stdin.isTTY && !terminal.json
      ? createInterface(process.stdin, process.stdout)
      : undefined
  try {
    for (const [key, question, suggest] of questions) {
      if (answers[key] !== undefined) continue
      const suggestion = suggest(answers)
      const typed = prompts
        ? (await prompts.question(`${question}${suggestion ? ` [${suggestion}]` : ''}: `)).trim()
        : ''
      if (typed || suggestion) answers[key] = typed || suggestion
    }
  } finally {
    prompts?.close()
  }
  const missing = questions.filter(([key]) => answers[key] === undefined).map(([key]) => `--${key}`)
  if (missing.length > 0) throw new OperatorError(`Say more: "postrider init" needs ${missing.join(' and ')}.`)
  return check(answers as Answers)
}

function check(answers: Answers): Answers {
  const domain = toAscii(answers.domain)
  if (!domain || !organisationalDomain(domain))
    throw new OperatorError(`"${answers.domain}" is not a domain name such as example.org.`)
  const hostname = toAscii(answers.hostname)
  if (!hostname?.includes('.'))
    throw new OperatorError(`"${answers.hostname}" is not a full host name such as mx.example.org.`)
  if (!parseAddress(answers.email)) throw new OperatorError(`"${answers.email}" is not an email address.`)
  return { ...answers, domain, hostname, data: resolve(answers.data) }
}

function writeConfig(file: string, { hostname, data }: Answers): void {
  const text = configAsset('postrider.toml')
    .replace(/^hostname = .*$/m, `hostname = ${JSON.stringify(hostname)}`)
    .replace(/^data_dir = .*$/m, `data_dir = ${JSON.stringify(data)}`)
  try {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text, { flag: 'wx' })
  } catch (thrown) {
    throw new OperatorError(`${file} cannot be written (${codeOf(thrown)}); choose another place with --config.`)
  }
}
