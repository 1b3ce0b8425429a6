// `postrider init`: creates a configuration, a data directory, a first user and a domain, all owned by the service's
// user. It can be repeated: existing parts are kept and shown again; a different host name is written into the
// configuration.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { configAsset } from '../base/assets.ts'
import { variable } from '../base/config-environment.ts'
import { iso, systemClock } from '../base/clock.ts'
import { must, OperatorError } from '../base/errors.ts'
import { asCaller, becomeOwner, type Owner } from '../base/ownership.ts'
import { storedName } from '../message/address.ts'
import { listUsers } from '../identity/users.ts'
import { listDomains } from '../domains/find.ts'
import { recordsText, zoneText } from '../domains/command-text.ts'
import { hostRecords, hostText, hostZone, reverseZone } from './host-records.ts'
import {
  configPlace,
  giveDataDir,
  hasUnit,
  keepConfig,
  prepareDataDir,
  serviceOwner,
  sets,
  startLine,
  settingsIn,
  withFrontDoor,
  withSetting,
  writeConfig,
} from './installation.ts'
import { execLine } from '../base/container.ts'
import { inImage, SYSTEM_CONFIG } from '../base/config-file.ts'
import { checkNames, firstParts, hasty, recordsFor, type FirstNames } from './set-up.ts'
import { configOf, withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { Prompt } from '../commands/prompt.ts'
import { asideText, exchange } from '../store/exchange.ts'
import { takeLock } from '../store/lock.ts'
import { DATABASE } from '../store/open.ts'
import { answer, type Terminal } from '../commands/terminal.ts'

interface Answers extends FirstNames {
  data: string
}

/** The change of the configuration file. */
type FileStep = { verb: 'Wrote' | 'Kept' } | { verb: 'Changed'; from: string }

export function initCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('init')
    .description('write the configuration, make the data directory, the first user and domain')
    .option('--domain <name>', 'the first sending domain, such as example.org')
    .option('--hostname <name>', 'the name of this server in DNS, such as mx.example.org')
    .option('--email <address>', 'the address of the first user')
    .option('--data <dir>', 'the data directory')
    .option('--new', 'begin again: move aside what the data directory holds')
    .option(
      '--accept-terms',
      'accept the terms of Let’s Encrypt: certificates by themselves, HTTPS on 443, submission on 465 and 587',
    )
    .action(async ({ acceptTerms, new: fresh, ...given }: Partial<Answers> & { new?: true; acceptTerms?: true }) => {
      const asked = invocation()
      const configFile = configPlace(asked)
      const now = { ...asked, configFile }
      const settings = settingsIn(configFile)
      if (acceptTerms && settings !== undefined)
        throw new OperatorError(
          `${configFile} is there already: set "enabled" and "accept_terms" to true in its [acme], and "tls_listen" in [http] and [submission].`,
        )
      const known = settings === undefined ? undefined : await knownAnswers(now, settings, fresh)
      const answers = await ask(given, known, now)
      heedEnvironment(now, answers)
      if (known) sameData(configFile, answers, known)
      const owner = serviceOwner()
      const putBack = keepConfig(configFile, owner)
      const clear = prepareDataDir(answers.data, owner)
      let done = false
      try {
        if (owner) asCaller(() => giveDataDir(answers.data, owner))
        becomeOwner(answers.data)
        const aside = fresh ? beginAgain(answers.data) : undefined
        const written = settings
          ? change(configFile, settings, { answers, from: known?.hostname, owner })
          : write(configFile, answers, owner, acceptTerms === true)
        const { terminal } = now
        await withDeps(now, (deps) => install(deps, { answers, aside, configFile, terminal, written }), {
          begins: true,
        })
        done = true
      } finally {
        // A failed installation must leave nothing that would bind the next try.
        if (!done) {
          putBack()
          clear()
        }
      }
    })
}

interface Installation {
  answers: Answers
  aside: string | undefined
  configFile: string
  terminal: Terminal
  written: FileStep
}

/** Creates the first user and domain, and prints the next steps. */
async function install(deps: Deps, { answers, aside, configFile, terminal, written }: Installation): Promise<void> {
  const user = await firstParts(deps, answers)
  const all = must(await recordsFor(deps, user, answers.domain), 'The domain that was set up')
  const host = await hostRecords({ config: deps.config, resolver: hasty(deps) })
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
      zone: [...hostZone(host), zoneText(all)].join('\n'),
      reverse: reverseZone(host),
      warnings: await warnings(deps),
      set_aside: aside ?? null,
    },
    (shown) => person(shown, written, `${recordsText(all)}\n${hostText(host)}`),
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

/** The output for a person: the results, and the next steps with commands to copy. */
function person(shown: InitSettings, done: FileStep, records: string): string {
  const service = shown.config === SYSTEM_CONFIG && hasUnit()
  const image = inImage()
  const run = image || shown.config === SYSTEM_CONFIG ? 'postrider' : `postrider --config ${shown.config}`
  const first =
    done.verb === 'Changed'
      ? `Changed hostname from ${done.from || 'nothing'} to ${shown.hostname} in ${shown.config}.`
      : `${done.verb} ${shown.config} (data in ${shown.data_dir}).`
  const moved =
    shown.set_aside === null
      ? ''
      : `${asideText(shown.set_aside)}
`
  return `${first}
${moved}${shown.warnings.map((warning) => `Warning: ${warning}\n`).join('')}
1. Publish these records for ${shown.domain}:

${records}

2. Start it:            ${image ? 'restart the container; what follows are commands in it' : service ? startLine() : `${run} serve`}
3. See it verified:     ${run} domain check ${shown.domain}
4. Make an API token:   ${run} token create --user ${shown.user} --name first --scopes all --duration 12_months
5. Send a test mail:    ${run} send --from hello@${shown.domain} --to you@elsewhere.example --subject Hello
`
}

/** Answers from an existing installation: from its configuration, and its first user and domain. */
async function knownAnswers(now: Invocation, settings: string, fresh = false): Promise<Partial<Answers>> {
  const { hostname, data_dir: data } = configOf(now)
  const named = sets(settings, 'hostname') || variable(now.environment, 'POSTRIDER_HOSTNAME') ? { hostname } : {}
  // Reading must not create a database, and must not fail because of a database that will be moved aside.
  if (fresh || !existsSync(join(data, DATABASE))) return { ...named, data }
  return withDeps(now, ({ store }) => {
    const [user] = listUsers(store)
    const [domain] = listDomains(store)
    return { ...named, data, ...(user && { email: user.email }), ...(domain && { domain: domain.name }) }
  })
}

/**
 * Moves the contents of the data directory into a folder in it; returns the folder.
 * Throws an OperatorError while a server runs.
 */
function beginAgain(dir: string): string | undefined {
  const release = takeLock(dir)
  if (!release) throw new OperatorError(`A Postrider serves ${dir}; "systemctl stop postrider" first.`)
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
  const wins = `${clash} is "${set(clash)}" and counts before the configuration`
  throw new OperatorError(
    image
      ? `${wins}: make the container again with the value that you want, on the same volume, in place of this command.`
      : `${wins}: unset it first.`,
  )
}

function sameData(file: string, answers: Answers, known: Partial<Answers>): void {
  if (known.data === undefined || resolve(known.data) === answers.data) return
  throw new OperatorError(
    `${file} has its data in ${known.data}: to move it, stop the service, "mv ${known.data} ${answers.data}" and change data_dir in the file.`,
  )
}

function write(file: string, answers: Answers, owner: Owner | undefined, open: boolean): FileStep {
  const { data, hostname } = answers
  const text = withSetting(withSetting(configAsset('postrider.toml'), 'hostname', hostname), 'data_dir', data)
  writeConfig(file, open ? withFrontDoor(text, answers) : text, owner)
  return { verb: 'Wrote' }
}

/** Changes only the host name in the operator's file. */
function change(
  file: string,
  settings: string,
  { answers, from, owner }: { answers: Answers; from: string | undefined; owner: Owner | undefined },
): FileStep {
  if (answers.hostname === from) return { verb: 'Kept' }
  writeConfig(file, withSetting(settings, 'hostname', answers.hostname), owner)
  return { verb: 'Changed', from: from ?? '' }
}

/** Missing DNS records stop nothing, but receivers will refuse the mail. */
async function warnings(deps: Deps): Promise<string[]> {
  const { config } = deps
  const resolver = hasty(deps)
  const answers = await Promise.all([resolver.a(config.hostname), resolver.aaaa(config.hostname)])
  if (answers.some(({ kind }) => kind === 'found')) return []
  const unknown = answers.every(({ kind }) => kind === 'failed')
  return [
    unknown
      ? `DNS could not be asked for ${config.hostname}; "postrider doctor" looks at this server's DNS.`
      : `${config.hostname} has no address in DNS yet; others refuse mail from a server whose name does not resolve.`,
  ]
}

/**
 * Asks on a terminal for answers that are not given as options; without a terminal, one sentence names the missing
 * options.
 */
async function ask(
  given: Partial<Answers>,
  known: Partial<Answers> | undefined,
  { terminal }: Invocation,
): Promise<Answers> {
  const questions: [keyof Answers, string, (answers: Partial<Answers>) => string][] = [
    ['domain', 'Your first sending domain', () => ''],
    ['hostname', 'The name of this server in DNS', ({ domain }) => (domain ? `mx.${domain}` : '')],
    ['email', 'Your email address', () => ''],
    [
      'data',
      'Where the data lives',
      () => (process.getuid?.() === 0 || inImage() ? '/var/lib/postrider' : resolve('./postrider-data')),
    ],
  ]
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
      `Say more: "postrider init" needs ${missing.join(' and ')}, or a terminal to ask on ("${execLine('init', 'asks')}").`,
    )
  const checked = checkNames(answers as Answers, { domain: '--domain', hostname: '--hostname', email: '--email' })
  return { ...checked, data: resolve(checked.data) }
}
