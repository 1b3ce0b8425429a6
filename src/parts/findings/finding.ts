// A finding: the result of one check of this server. Each subject provides finders, and every surface displays them.
import type { Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import { forInstance } from '../../base/named-instance.ts'
import type { Keyring } from '../../base/keyring.ts'
import type { Troubles } from '../../base/trouble.ts'
import type { Resolver } from '../../net/resolver.ts'
import type { Reader, Store } from '../../store/database.ts'

export interface Alert {
  /** The subject of the email: "disk". Findings with the same subject share an email. */
  subject: string
  /** How long the problem must last (ms). */
  lasts: number
}

export interface Finding {
  /** Name of the check, the same text each time: "disk", "certificate of mail.example.org". */
  id: string
  /** The object of the finding if a check has several, such as a backup destination, or '' for the server. */
  subject: string
  severity: 'ok' | 'warn' | 'fail'
  /** The observed facts, without a full stop. */
  summary: string
  /** The consequence for email, a sentence, or null if the facts are enough. */
  effect: string | null
  /** Null without a problem. */
  fix: string | null
  /** The page of the console that shows more, or that can fix the problem. */
  href: string
  /** The email that the operator gets if the problem lasts. */
  alert?: Alert | undefined
}

/** A problem with the time when it was first found (ms since the epoch). */
export type LastingFinding = Finding & { alert: Alert; since: number }

const SERVER = '/server'

const make = (severity: Finding['severity'], id: string, summary: string, fix: string | null): Finding => ({
  id,
  subject: '',
  severity,
  summary: forInstance(summary),
  effect: null,
  fix: fix && forInstance(fix),
  href: SERVER,
})

export const ok = (id: string, summary: string): Finding => make('ok', id, summary, null)
export const warn = (id: string, summary: string, fix: string): Finding => make('warn', id, summary, fix)
export const fail = (id: string, summary: string, fix: string): Finding => make('fail', id, summary, fix)

/** The same finding with its consequence, and with the form of the console that fixes it. */
export const fixedBy = (setting: 'hostname' | 'acme' | 'backup', effect: string, finding: Finding): Finding => ({
  ...finding,
  effect,
  href: `${SERVER}/settings#${setting}`,
})

/** The finding of a check without an answer from DNS. */
export const unanswered = (id: string, about: string): Finding =>
  warn(id, `DNS did not answer for ${about}`, 'Check that DNS works ("dns.servers", /etc/resolv.conf), and try again.')

export interface FinderDeps {
  config: Config
  clock: Clock
  resolver: Resolver
  /** Undefined before there is a database. */
  store: Store | undefined
  /** Only inside the running server. */
  running?: { keyring: Keyring; troubles: Pick<Troubles, 'list'>; restart: ReadonlySet<string> }
  /** Only for `postrider doctor`. */
  doctor?: { configFile: string; probe: string; timeServer: { host: string; port: number } }
}

interface FinderOptions {
  /** The default consequence of a failure. */
  effect?: string
  /** The email about each failure that lasts. */
  alert?: Alert
}

/** Reads files and the database. */
export interface LocalFinder extends FinderOptions {
  runs?: undefined
  /** How old its findings can be in alerts and metrics (ms). The default is a minute. */
  every?: number
  find: (deps: FinderDeps) => readonly Finding[]
}

/** A finder that takes long or queries other hosts. The server runs it in the background, or only doctor runs it. */
export interface SlowFinder extends FinderOptions {
  runs: 'background' | 'doctor'
  find: (deps: FinderDeps) => Promise<readonly Finding[]> | readonly Finding[]
}

export type Finder = LocalFinder | SlowFinder

/** Returns the problems of an account. */
export type AccountFinder = (deps: { store: Reader; userKey: number; now: number }) => readonly Finding[]

/** Adds the finder's effect and alert to its failures. */
export const completed = ({ alert, effect }: FinderOptions, found: readonly Finding[]): Finding[] =>
  found.map((each) => (each.severity === 'fail' ? { ...each, effect: each.effect ?? effect ?? null, alert } : each))

/** Runs every finder and returns the findings in the order of the list. */
export async function findAll(finders: readonly Finder[], deps: FinderDeps): Promise<Finding[]> {
  const found = await Promise.all(finders.map(async (finder) => completed(finder, await finder.find(deps))))
  return found.flat()
}

/** A finding as `postrider doctor --json` and the API show it. */
export const shownFinding = ({ effect, fix, href, id, severity, summary }: Finding) => ({
  check: id,
  status: severity,
  detail: summary,
  effect,
  fix,
  href,
})
