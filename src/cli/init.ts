// `postrider init`: creates a configuration, a data directory, a first user and a domain, all owned by the service's
// user. It can be repeated: existing parts are kept and shown again. A different hostname is written into the
// configuration, and --accept-terms enables settings that the configuration does not have.
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { configFrom } from '../base/config.ts'
import { sets, withSetting, writeConfig } from '../base/config-edit.ts'
import { variable } from '../base/config-environment.ts'
import { iso, systemClock } from '../base/clock.ts'
import { must, OperatorError } from '../base/errors.ts'
import { isInstance, userOf } from '../base/named-instance.ts'
import { isAddress } from '../base/network.ts'
import { asOwner, isRoot, makeInstanceUser } from '../base/ownership.ts'
import { demandMarkedData, keepMark } from '../base/set-up-mark.ts'
import { storedName } from '../message/address.ts'
import { listUsers } from '../users/users.ts'
import { listDomains } from '../domains/find.ts'
import { recordsText, zoneText } from '../domains/command-text.ts'
import { reverseZone } from '../domains/host-records.ts'
import {
  configPlace,
  giveDataDir,
  hasUnit,
  prepareDataDir,
  serviceOwner,
  startLine,
  settingsIn,
  withFrontDoor,
} from './installation.ts'
import { canBind } from '../net/bindable.ts'
import { execLine } from '../base/container.ts'
import { inImage, SYSTEM_CONFIG } from '../base/config-file.ts'
import { checkNames, firstParts, hasty, newConfig, recordsFor, type FirstNames } from './set-up.ts'
import { asConfiguredOwner, settingsOf, withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { Prompt } from '../views/command/prompt.ts'
import { sqliteAddon } from '../store/addon.ts'
import { asideText, exchange } from '../store/exchange.ts'
import { isVacant } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import { DATABASE } from '../store/open.ts'
import { answer, type Terminal } from '../views/command/terminal.ts'

interface Answers extends FirstNames {
  data: string
  /** The IP addresses of this installation, separated by commas, or '' for all of the machine. */
  address: string
}

interface FileStep {
  text: string
  verb: 'Wrote' | 'Kept' | 'Changed'
  /** The replaced hostname, or ''. */
  from?: string
  /** Whether HTTPS, submission and certificates were enabled in an existing file. */
  opened?: boolean
}

export function initCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('init')
    .description('set up a server: configuration, data directory, user, domain')
    .option('--domain <name>', 'first sending domain, such as example.org')
    .option('--hostname <name>', 'DNS name of this server, such as mx.example.org')
    .option('--email <address>', 'email address of the first user')
    .option('--data <dir>', 'data directory (default: /var/lib/postrider as root)')
    .option('--address <ip>', 'own IP addresses, by commas (required with --instance)')
    .option('--new', 'start over and move existing data aside')
    .option('--accept-terms', 'accept Let’s Encrypt’s terms; enables HTTPS and submission')
    .action(async ({ acceptTerms, new: fresh, ...given }: Partial<Answers> & { new?: true; acceptTerms?: true }) => {
      const asked = invocation()
      const configFile = configPlace(asked)
      const now = { ...asked, configFile }
      const settings = settingsIn(configFile)
      const open = acceptTerms === true
      // Loaded by root from a copy that the owner of the data directory cannot replace.
      if (isRoot()) sqliteAddon(tmpdir())
      const known = settings === undefined ? undefined : await knownAnswers(now, settings, fresh === true)
      const answers = await ask(given, known, now)
      heedEnvironment(now, answers)
      if (known) sameData(configFile, answers, known)
      if (!fresh) demandMarkedData(configFile, answers.data, isVacant(answers.data))
      const file = await fileStep(now, settings, answers, known?.hostname, open)
      makeInstanceUser()
      const owner = serviceOwner()
      prepareDataDir(answers.data, owner)
      const write = (): void => (file.verb === 'Kept' ? undefined : writeConfig(configFile, file.text, owner))
      // Root follows no links of the owner.
      const isWithData = resolve(configFile).startsWith(`${answers.data}/`)
      if (!isWithData) write()
      if (owner) giveDataDir(answers.data, owner)
      await asOwner(answers.data, async () => {
        if (isWithData) write()
        const aside = fresh ? beginAgain(answers.data) : undefined
        await withDeps(now, (deps) => install(deps, { answers, aside, configFile, terminal: now.terminal, file }), {
          begins: true,
        })
      })
      keepMark(configFile, answers.data)
    })
}

interface Installation {
  answers: Answers
  aside: string | undefined
  configFile: string
  terminal: Terminal
  file: FileStep
}

/** Creates the first user and domain, and prints the next steps. */
async function install(deps: Deps, { answers, aside, configFile, terminal, file }: Installation): Promise<void> {
  const user = await firstParts(deps, answers)
  const all = must(await recordsFor(deps, user, answers.domain), 'The domain that was set up')
  const { domain } = all
  answer(
    terminal,
    {
      config: configFile,
      data_dir: deps.config.data_dir,
      hostname: deps.config.hostname,
      user: user.email,
      domain: domain.name,
      status: domain.status,
      zone: zoneText(all),
      reverse: reverseZone(all.advised),
      warnings: await warnings(deps),
      set_aside: aside ?? null,
    },
    (shown) => person(shown, file, recordsText(all)),
  )
}

interface InitSettings {
  config: string
  data_dir: string
  hostname: string
  user: string
  domain: string
  zone: string
  reverse: string[]
  warnings: string[]
  set_aside: string | null
}

/** The text output: the results, and the next steps with commands to copy. */
function person(shown: InitSettings, done: FileStep, records: string): string {
  const isSystem = shown.config === SYSTEM_CONFIG || isInstance()
  const service = isSystem && hasUnit()
  const image = inImage()
  const run = image || isSystem ? 'postrider' : `postrider --config ${shown.config}`
  const changes = [
    ...(done.from === undefined
      ? []
      : [`Changed hostname ${done.from ? `from ${done.from} ` : ''}to ${shown.hostname}`]),
    ...(done.opened ? ['Enabled HTTPS, SMTP submission and automatic certificates'] : []),
  ]
  const first =
    done.verb === 'Changed'
      ? changes.map((change) => `${change} in ${shown.config}.`).join('\n')
      : `${done.verb} ${shown.config} (data in ${shown.data_dir}).`
  const moved =
    shown.set_aside === null
      ? ''
      : `${asideText(shown.set_aside)}
`
  return `${first}
${moved}${shown.warnings.map((warning) => `Warning: ${warning}\n`).join('')}
1. Publish these DNS records for ${shown.domain}:

${records}

2. Start the server:    ${image ? 'restart the container, then run the following commands in it' : service ? startLine() : `${run} serve`}
3. Verify the domain:   ${run} domain check ${shown.domain}
4. Create an API token: ${run} token create --user ${shown.user} --name first --scopes all --duration 12_months
5. Send a test email:   ${run} send --from hello@${shown.domain} --to you@elsewhere.example --subject Hello
`
}

/** Answers from an existing installation: from its configuration, and its first user and domain. */
function knownAnswers(now: Invocation, settings: string, fresh: boolean): Promise<Partial<Answers>> {
  return asConfiguredOwner(now, () => answersOf(now, settings, fresh))
}

async function answersOf(now: Invocation, settings: string, fresh: boolean): Promise<Partial<Answers>> {
  const { acme, hostname, data_dir: data } = settingsOf(now)
  // The addresses that are already public for HTTP.
  const address = acme.listen.map(({ host }) => host).join()
  const named = sets(settings, 'hostname') || variable(now.environment, 'POSTRIDER_HOSTNAME') ? { hostname } : {}
  // Reading must not create a database, and must not fail because of a database that will be moved aside.
  if (fresh || !existsSync(join(data, DATABASE))) return { ...named, data, address }
  return withDeps(now, ({ store }) => {
    const [user] = listUsers(store)
    const [domain] = listDomains(store)
    return { ...named, data, address, ...(user && { email: user.email }), ...(domain && { domain: domain.name }) }
  })
}

/**
 * Moves the contents of the data directory into a folder in it. Returns the folder.
 * Throws an OperatorError while a server runs.
 */
function beginAgain(dir: string): string | undefined {
  const release = takeLock(dir)
  if (!release) throw new OperatorError(`A running Postrider uses ${dir}; run "systemctl stop postrider" first.`)
  try {
    return exchange(dir, iso(systemClock.now()).replaceAll(':', '-'))
  } finally {
    release()
  }
}

/**
 * An environment variable overrides the file, so a different value in the file would have no effect. Throws an
 * OperatorError.
 */
export function heedEnvironment(
  { environment }: Pick<Invocation, 'environment'>,
  { hostname, data }: Pick<Answers, 'hostname' | 'data'>,
  image = inImage(),
): void {
  const set = (name: string): string => variable(environment, name) ?? ''
  const clash = (
    [
      ['POSTRIDER_HOSTNAME', storedName(set('POSTRIDER_HOSTNAME')) === hostname],
      ['POSTRIDER_DATA_DIR', resolve(set('POSTRIDER_DATA_DIR')) === data],
    ] as const
  ).find(([name, same]) => set(name) !== '' && !same)?.[0]
  if (clash === undefined) return
  const wins = `${clash} is "${set(clash)}" and overrides the configuration file`
  throw new OperatorError(
    image
      ? `${wins}; recreate the container with the value that you want, on the same volume, instead of running this command.`
      : `${wins}; unset it first.`,
  )
}

function sameData(file: string, answers: Answers, known: Partial<Answers>): void {
  if (known.data === undefined || resolve(known.data) === answers.data) return
  throw new OperatorError(
    `${file} sets data_dir to ${known.data}; to move the data, stop the service, run "mv ${known.data} ${answers.data}" and change data_dir in the file.`,
  )
}

const addressesOf = ({ address }: Pick<Answers, 'address'>): string[] =>
  address.split(',').flatMap((each) => each.trim() || [])

/**
 * Returns the text of the configuration. Files are written only when it is valid and its listeners do not collide with
 * those of another installation. Throws an OperatorError.
 */
async function fileStep(
  { configFile, environment }: Invocation & { configFile: string },
  settings: string | undefined,
  answers: Answers,
  from: string | undefined,
  open: boolean,
): Promise<FileStep> {
  // Loaded here, because it loads all listeners of the server.
  const { collisions, httpPort, neighbours } = await import('./neighbours.ts')
  const others = neighbours(configFile)
  const file: FileStep =
    settings === undefined
      ? { verb: 'Wrote', text: newConfig(answers, answers.data, open, addressesOf(answers), httpPort(others)) }
      : changed(settings, answers, from, open)
  const [collision] = collisions(configFrom(file.text, configFile, environment), others)
  if (collision !== undefined && (settings === undefined || file.opened)) throw new OperatorError(collision)
  return file
}

/** Throws an OperatorError for a text that is not a list of IP addresses of this machine. */
async function checkAddresses(answers: Answers): Promise<void> {
  for (const address of addressesOf(answers)) {
    if (!isAddress(address))
      throw new OperatorError(`--address "${address}" is not an IP address; use one such as 192.0.2.25.`)
    if (!(await canBind(address)))
      throw new OperatorError(
        `--address ${address} is not an address of this machine; add it to a network interface first.`,
      )
  }
}

/** Changes the hostname in the operator's file, and with `open` adds missing settings of HTTPS and certificates. */
function changed(settings: string, answers: Answers, from: string | undefined, open: boolean): FileStep {
  const isNamed = answers.hostname === from
  const named = isNamed ? settings : withSetting(settings, 'hostname', answers.hostname)
  const text = open ? withFrontDoor(named, answers, addressesOf(answers)) : named
  if (text === settings) return { verb: 'Kept', text }
  return { verb: 'Changed', text, opened: text !== named, ...(!isNamed && { from: from ?? '' }) }
}

/** Warns about missing DNS records: the setup continues, but receiving servers will reject email. */
async function warnings(deps: Deps): Promise<string[]> {
  const { config } = deps
  const resolver = hasty(deps)
  const answers = await Promise.all([resolver.a(config.hostname), resolver.aaaa(config.hostname)])
  if (answers.some(({ kind }) => kind === 'found')) return []
  const unknown = answers.every(({ kind }) => kind === 'failed')
  return [
    unknown
      ? `DNS did not answer for ${config.hostname}; run "postrider doctor" to check this server's DNS.`
      : `${config.hostname} has no address in DNS yet; publish it, because many servers reject email from a host name that does not resolve.`,
  ]
}

/**
 * Prompts on a terminal for answers that are not given as options. Without a terminal, the error names the missing
 * options.
 */
async function ask(
  given: Partial<Answers>,
  known: Partial<Answers> | undefined,
  { terminal }: Invocation,
): Promise<Answers> {
  const questions: [keyof Answers, string, (answers: Partial<Answers>) => string][] = [
    ['domain', 'Your first sending domain', () => ''],
    ['hostname', 'DNS name of this server', ({ domain }) => (domain ? `mx.${domain}` : '')],
    ['email', 'Your email address', () => ''],
    ['data', 'Data directory', () => (isRoot() || inImage() ? `/var/lib/${userOf()}` : resolve('./postrider-data'))],
    // An installation without a name has all addresses by default.
    ...(isInstance()
      ? [['address', 'IP address of this instance', () => ''] as [keyof Answers, string, () => string]]
      : []),
  ]
  if (known && given.address !== undefined)
    throw new OperatorError(
      '--address is only for a new configuration; change "listen" and "source" in the existing one.',
    )
  const answers: Partial<Answers> = { ...known, ...given }
  const prompts = terminal.interactive && process.stdin.isTTY && !terminal.json ? new Prompt() : undefined
  try {
    for (const [key, question, suggest] of questions) {
      if (answers[key] !== undefined) continue
      const suggestion = suggest(answers)
      const typed = prompts ? await prompts.question(`${question}${suggestion ? ` [${suggestion}]` : ''}: `) : ''
      if (typed || suggestion) answers[key] = typed || suggestion
    }
  } finally {
    prompts?.close()
  }
  const missing = questions.filter(([key]) => answers[key] === undefined).map(([key]) => `--${key}`)
  if (missing.length > 0)
    throw new OperatorError(
      `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} missing; add ${missing.length === 1 ? 'it' : 'them'}, or run "${execLine('init', 'asks')}" on a terminal to be prompted.`,
    )
  const checked = checkNames({ address: '', ...answers } as Answers, {
    domain: '--domain',
    hostname: '--hostname',
    email: '--email',
  })
  if (!known) await checkAddresses(checked)
  return { ...checked, data: resolve(checked.data) }
}
