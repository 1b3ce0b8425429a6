// Limits of connections to a provider (D34): the rules of the shaping file, and the count of open connections.
//
// The shaping file has connection limits and warm-up schedules, by provider. The shipped file is config/shaping.toml.
// `delivery.shaping` names a file of the operator, whose entries replace the shipped ones of the same name. Settings
// that such an entry leaves out keep their shipped value. An error names the file and the line.
import type { Host } from './route.ts'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import { looksFalse } from '../base/clean-text.ts'
import { lineOf, wrongValue } from '../base/config.ts'
import { parseToml } from '../base/toml.ts'
import { OperatorError } from '../base/errors.ts'
import { readNamed } from '../base/plain-file.ts'

const count = z.int().min(0)
const share = z.number().gt(0).max(1)

/** The shares that a day is judged by. */
export const SHARES = ['deferred', 'refused', 'complained', 'bounced'] as const
export type Shares = Record<(typeof SHARES)[number], number>

const limits = { domain_connections: count.min(1), provider_connections: count, mails_per_connection: count.min(1) }
const rising = (steps: readonly number[]): boolean => steps.every((step, index) => step > (steps[index - 1] ?? -1))
const schedule = z.array(z.int().min(1)).min(1).max(100).refine(rising, 'must rise from each number to the next')
const shares = z.strictObject({ deferred: share, refused: share, complained: share, bounced: share })
const warmup = z.strictObject({
  schedule,
  others: schedule,
  total: schedule,
  least: z.int().min(1),
  hold: shares,
  reduce: shares,
})
const name = z
  .string()
  .min(1)
  .refine((text) => text !== '*' && !looksFalse(text), 'must be visible text, and not "*", which is all receivers')
const hosts = z.array(z.string().min(1)).min(1)
const own = { schedule: schedule.optional(), hold: shares.partial().optional(), reduce: shares.partial().optional() }

const shipped = z.strictObject({
  default: z.strictObject(limits),
  warmup,
  provider: z.array(z.strictObject({ name, hosts, ...limits, ...own })).default([]),
})
const partial = z.strictObject({
  default: z.strictObject(limits).partial().default({}),
  warmup: warmup.extend({ hold: shares.partial(), reduce: shares.partial() }).partial().default({}),
  provider: z
    .array(
      z
        .strictObject({ name, hosts, ...limits, ...own })
        .partial()
        .required({ name: true }),
    )
    .default([]),
})

/** The rules of the shaping files, the operator's own file included. */
export type ShapingRules = z.output<typeof shipped>
type ProviderEntry = ShapingRules['provider'][number]
type Where = (path: readonly PropertyKey[]) => string

/** Reads the shipped file, and over it the operator's own file (if not ''). Throws an OperatorError. */
export function readShaping(file: string, text: string = configAsset('shaping.toml')): ShapingRules {
  const rules = parsed(shipped, text, 'shaping.toml')
  if (file === '') return rules
  const source = readOwn(file)
  const given = parsed(partial, source, file)
  const where: Where = (path) => `${file}:${lineOf(source, path)}`
  const merged = merge(rules, given, where)
  judge(merged, given, where)
  return merged
}

function parsed<Schema extends z.ZodType>(schema: Schema, source: string, file: string): z.output<Schema> {
  const result = schema.safeParse(parseToml(source, file))
  if (!result.success) throw wrongValue(result.error, (path) => `${file}:${lineOf(source, path)}`)
  return result.data
}

function readOwn(file: string): string {
  try {
    return readNamed(file).toString()
  } catch {
    throw new OperatorError(`The file ${file} ("delivery.shaping") cannot be read; check its path and permissions.`)
  }
}

/** A setting that a file omits is absent in the object, never undefined. */
const over = <Whole extends object>(
  whole: Whole,
  given: { [Name in keyof Whole]?: Whole[Name] | undefined } = {},
): Whole => Object.assign({}, whole, given)

/** An own entry comes before the shipped ones, so that its hosts are found first. */
function merge(rules: ShapingRules, given: z.output<typeof partial>, where: Where): ShapingRules {
  const { hold, reduce, ...steps } = given.warmup
  const names = new Set(given.provider.map((each) => each.name))
  const entries = given.provider.map((each, index): ProviderEntry => {
    const known = rules.provider.find((other) => other.name === each.name)
    if (given.provider.findIndex((other) => other.name === each.name) < index)
      throw new OperatorError(
        `${where(['provider', index, 'name'])}: "${each.name}" is listed twice; merge the two entries.`,
      )
    const hostsOf = each.hosts ?? known?.hosts
    if (!hostsOf)
      throw new OperatorError(
        `${where(['provider', index, 'name'])}: "hosts" is missing; add it, or use the name of a built-in provider instead of "${each.name}".`,
      )
    const base: ProviderEntry = { ...over(rules.default, given.default), name: each.name, hosts: hostsOf, ...known }
    return { ...over(base, each), hold: { ...known?.hold, ...each.hold }, reduce: { ...known?.reduce, ...each.reduce } }
  })
  return {
    default: over(rules.default, given.default),
    warmup: {
      ...over(rules.warmup, steps),
      hold: over(rules.warmup.hold, hold),
      reduce: over(rules.warmup.reduce, reduce),
    },
    provider: [...entries, ...rules.provider.filter((each) => !names.has(each.name))],
  }
}

/** Each `hold` must be below its `reduce`. Throws an OperatorError with the line of the operator's own file. */
function judge({ provider, warmup: all }: ShapingRules, given: z.output<typeof partial>, where: Where): void {
  const wrong = SHARES.find((each) => all.hold[each] >= all.reduce[each])
  if (wrong) throw notBelow(where(['warmup', given.warmup.hold ? 'hold' : 'reduce', wrong]), wrong)
  for (const each of provider) {
    const at = given.provider.findIndex((entry) => entry.name === each.name)
    const shown = SHARES.find((one) => (each.hold?.[one] ?? all.hold[one]) >= (each.reduce?.[one] ?? all.reduce[one]))
    if (shown)
      throw notBelow(where(at < 0 ? ['warmup'] : ['provider', at, given.provider[at]?.hold ? 'hold' : 'reduce']), shown)
  }
}

const notBelow = (place: string, name: string): OperatorError =>
  new OperatorError(`${place}: "hold.${name}" must be less than "reduce.${name}".`)

let inForce: ShapingRules | undefined

/** The rules of this process: the shipped file until `useShaping` was called. */
export const shapingRules = (): ShapingRules => (inForce ??= readShaping(''))

/**
 * Applies the shipped file with the operator's own file (if not ''). If a file has an error, the rules stay unchanged.
 */
export function useShaping(file: string): void {
  inForce = readShaping(file)
}

export interface Limits {
  /** The provider's name, or '' for the default. */
  name: string
  domain_connections: number
  /** 0: no limit. */
  provider_connections: number
  mails_per_connection: number
}

export class Shaping {
  readonly #rules: () => ShapingRules
  readonly #open = new Map<string, number>()

  /** `text`: the content of a file in place of the rules in force. Throws when it is malformed. */
  constructor(text?: string) {
    const fixed = text === undefined ? undefined : readShaping('', text)
    this.#rules = fixed ? () => fixed : shapingRules
  }

  /** The limits for an MX host. A relay of the operator has the default limits. */
  limitsFor(host: Host | undefined): Limits {
    return host && !host.relay ? this.named(host.name) : this.#fallback()
  }

  /** The limits of the provider that an MX host's name belongs to. */
  named(name: string): Limits {
    const provider = this.#rules().provider.find(({ hosts }) =>
      hosts.some((suffix) => name === suffix || name.endsWith(`.${suffix}`)),
    )
    return provider ?? this.#fallback()
  }

  /** A provider by its own name, in upper or lower case. */
  called(name: string): { name: string; hosts: string[] } | undefined {
    return this.#rules().provider.find((provider) => provider.name.toLowerCase() === name.toLowerCase())
  }

  #fallback(): Limits {
    return { name: '', ...this.#rules().default }
  }

  /** Whether a provider has a connection left. */
  hasRoom({ name, provider_connections }: Limits): boolean {
    return provider_connections === 0 || (this.#open.get(name) ?? 0) < provider_connections
  }

  opened({ name }: Limits): void {
    this.#open.set(name, (this.#open.get(name) ?? 0) + 1)
  }

  closed({ name }: Limits): void {
    this.#open.set(name, (this.#open.get(name) ?? 1) - 1)
  }
}

const current = new Shaping()

/** The provider that an MX host belongs to, by the rules in force, or undefined if they do not know it. */
export function providerOf(host: string | null): string | undefined {
  if (host === null) return undefined
  return current.named(host).name || undefined
}

/** A provider of the rules in force by its name, in upper or lower case. */
export const providerNamed = (name: string): { name: string; hosts: string[] } | undefined => current.called(name)
