// Limits of connections to a provider: data from config/shaping.toml, and the count of open connections (D34).
import { parse } from 'smol-toml'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import type { Host } from './route.ts'

const count = z.int().min(0)
const limits = { domain_connections: count.min(1), provider_connections: count, mails_per_connection: count.min(1) }
const schema = z.strictObject({
  default: z.strictObject(limits),
  provider: z
    .array(z.strictObject({ name: z.string().min(1), hosts: z.array(z.string().min(1)).min(1), ...limits }))
    .default([]),
})

export interface Limits {
  /** The provider's name; '' for the default. */
  name: string
  domain_connections: number
  /** 0: no limit. */
  provider_connections: number
  mails_per_connection: number
}

export class Shaping {
  readonly #fallback: Limits
  readonly #providers: (Limits & { hosts: string[] })[]
  readonly #open = new Map<string, number>()

  /** `text` is the content of a shaping file; throws when it is malformed. */
  constructor(text: string = configAsset('shaping.toml')) {
    const rules = schema.parse(parse(text))
    this.#fallback = { name: '', ...rules.default }
    this.#providers = rules.provider
  }

  /** The limits for an exchanger; a relay of the operator has the default limits. */
  limitsFor(host: Host | undefined): Limits {
    return host && !host.relay ? this.named(host.name) : this.#fallback
  }

  /** The limits of the provider that an exchanger's name belongs to. */
  named(name: string): Limits {
    const provider = this.#providers.find(({ hosts }) =>
      hosts.some((suffix) => name === suffix || name.endsWith(`.${suffix}`)),
    )
    return provider ?? this.#fallback
  }

  /** A provider by its own name, in upper or lower case. */
  called(name: string): { name: string; hosts: string[] } | undefined {
    return this.#providers.find((provider) => provider.name.toLowerCase() === name.toLowerCase())
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

let shipped: Shaping | undefined
const shippedFile = (): Shaping => (shipped ??= new Shaping())

/** The provider that an exchanger belongs to, by the shipped file; undefined when the file does not know it. */
export function providerOf(host: string | null): string | undefined {
  if (host === null) return undefined
  return shippedFile().named(host).name || undefined
}

/** A provider of the shipped file by its name, in upper or lower case. */
export const providerNamed = (name: string): { name: string; hosts: string[] } | undefined => shippedFile().called(name)
