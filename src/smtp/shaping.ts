// Limits of connections to a provider: data from config/shaping.toml, and the count of open connections (D34).
import type { Host } from './route.ts'
import { readShaping, shapingRules, type ShapingRules } from './shaping-file.ts'

export interface Limits {
  /** The provider's name; '' for the default. */
  name: string
  domain_connections: number
  /** 0: no limit. */
  provider_connections: number
  mails_per_connection: number
}

export class Shaping {
  readonly #rules: () => ShapingRules
  readonly #open = new Map<string, number>()

  /** `text`: the content of a file in place of the rules in force; throws when it is malformed. */
  constructor(text?: string) {
    const fixed = text === undefined ? undefined : readShaping('', text)
    this.#rules = fixed ? () => fixed : shapingRules
  }

  /** The limits for an exchanger; a relay of the operator has the default limits. */
  limitsFor(host: Host | undefined): Limits {
    return host && !host.relay ? this.named(host.name) : this.#fallback()
  }

  /** The limits of the provider that an exchanger's name belongs to. */
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

const inForce = new Shaping()

/** The provider that an exchanger belongs to, by the rules in force; undefined when they do not know it. */
export function providerOf(host: string | null): string | undefined {
  if (host === null) return undefined
  return inForce.named(host).name || undefined
}

/** A provider of the rules in force by its name, in upper or lower case. */
export const providerNamed = (name: string): { name: string; hosts: string[] } | undefined => inForce.called(name)
