// The shaping file: limits of connections and ladders of warm-up, by provider. The shipped file is config/shaping.toml;
// `delivery.shaping` names a file of the operator's own, whose entries replace shipped ones of the same name (DV2).
// What an own entry leaves out stays as it was shipped. A wrong line is one sentence with file and line.
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
const ladder = z.array(z.int().min(1)).min(1).max(100).refine(rising, 'must rise from each number to the next')
const shares = z.strictObject({ deferred: share, refused: share, complained: share, bounced: share })
const warmup = z.strictObject({
  ladder,
  others: ladder,
  total: ladder,
  least: z.int().min(1),
  hold: shares,
  back: shares,
})
const name = z
  .string()
  .min(1)
  .refine((text) => text !== '*' && !looksFalse(text), 'must be visible text, and not "*", which is all receivers')
const hosts = z.array(z.string().min(1)).min(1)
const own = { ladder: ladder.optional(), hold: shares.partial().optional(), back: shares.partial().optional() }

const shipped = z.strictObject({
  default: z.strictObject(limits),
  warmup,
  provider: z.array(z.strictObject({ name, hosts, ...limits, ...own })).default([]),
})
const partial = z.strictObject({
  default: z.strictObject(limits).partial().default({}),
  warmup: warmup.extend({ hold: shares.partial(), back: shares.partial() }).partial().default({}),
  provider: z
    .array(
      z
        .strictObject({ name, hosts, ...limits, ...own })
        .partial()
        .required({ name: true }),
    )
    .default([]),
})

/** What a shaping file says, the operator's own file included. */
export type ShapingRules = z.output<typeof shipped>
type ProviderEntry = ShapingRules['provider'][number]
type Where = (path: readonly PropertyKey[]) => string

/** Reads the shipped file, and over it the operator's own ('': none). Throws an OperatorError. */
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
    throw new OperatorError(
      `The file ${file} of "delivery.shaping" cannot be read; check that it exists and who may read it.`,
    )
  }
}

/** What a file leaves out is absent in it, never undefined. */
const over = <Whole extends object>(
  whole: Whole,
  given: { [Name in keyof Whole]?: Whole[Name] | undefined } = {},
): Whole => Object.assign({}, whole, given)

/** An own entry comes before the shipped ones, so that its hosts are found first. */
function merge(rules: ShapingRules, given: z.output<typeof partial>, where: Where): ShapingRules {
  const { back, hold, ...steps } = given.warmup
  const names = new Set(given.provider.map((each) => each.name))
  const entries = given.provider.map((each, index): ProviderEntry => {
    const known = rules.provider.find((other) => other.name === each.name)
    if (given.provider.findIndex((other) => other.name === each.name) < index)
      throw new OperatorError(`${where(['provider', index, 'name'])}: "${each.name}" stands twice; make one of both.`)
    const hostsOf = each.hosts ?? known?.hosts
    if (!hostsOf)
      throw new OperatorError(
        `${where(['provider', index, 'name'])}: "hosts" is missing: no shipped provider is called "${each.name}".`,
      )
    const base: ProviderEntry = { ...over(rules.default, given.default), name: each.name, hosts: hostsOf, ...known }
    return { ...over(base, each), hold: { ...known?.hold, ...each.hold }, back: { ...known?.back, ...each.back } }
  })
  return {
    default: over(rules.default, given.default),
    warmup: {
      ...over(rules.warmup, steps),
      hold: over(rules.warmup.hold, hold),
      back: over(rules.warmup.back, back),
    },
    provider: [...entries, ...rules.provider.filter((each) => !names.has(each.name))],
  }
}

/** Each `hold` must lie below its `back`. Throws an OperatorError that names the line of the operator's own file. */
function judge({ provider, warmup: all }: ShapingRules, given: z.output<typeof partial>, where: Where): void {
  const wrong = SHARES.find((each) => all.hold[each] >= all.back[each])
  if (wrong) throw lies(where(['warmup', given.warmup.hold ? 'hold' : 'back', wrong]), wrong)
  for (const each of provider) {
    const at = given.provider.findIndex((entry) => entry.name === each.name)
    const shown = SHARES.find((one) => (each.hold?.[one] ?? all.hold[one]) >= (each.back?.[one] ?? all.back[one]))
    if (shown)
      throw lies(where(at < 0 ? ['warmup'] : ['provider', at, given.provider[at]?.hold ? 'hold' : 'back']), shown)
  }
}

const lies = (place: string, name: string): OperatorError =>
  new OperatorError(`${place}: "hold.${name}" must lie below "back.${name}".`)

let inForce: ShapingRules | undefined

/** The rules of this process: the shipped file until `useShaping` was called. */
export const shapingRules = (): ShapingRules => (inForce ??= readShaping(''))

/** Puts the shipped file with the operator's own ('': none) in force; when one is wrong, what was in force stays. */
export function useShaping(file: string): void {
  inForce = readShaping(file)
}
