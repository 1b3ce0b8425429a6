// DNS queries to `dns.servers` (to the system's servers when that list is empty). An answer is a value of one of four
// kinds, because mail must distinguish "there is no record" from "the query failed" (RFC 5321 §5.1, RFC 7505).
import { getServers, Resolver as NodeResolver } from 'node:dns/promises'
import { closeSync, openSync } from 'node:fs'
import { Cut } from '../base/cut.ts'
import { codeOf } from '../base/errors.ts'
import { isLocal } from '../base/local-trouble.ts'
import { semaphore } from '../base/semaphore.ts'
import { formatEndpoint } from '../base/network.ts'

export type ResolverAnswer<T> =
  | { kind: 'found'; records: T[] }
  /** The name exists without such a record (NODATA). */
  | { kind: 'none' }
  /** The name does not exist (NXDOMAIN). */
  | { kind: 'nxdomain' }
  /** SERVFAIL, a timeout or a refused query. `local`: this machine had no descriptor or no memory for the query. */
  | { kind: 'failed'; reason: string; local?: true }

export interface Mx {
  /** Lower case without final dot. '' is the null MX. */
  exchange: string
  priority: number
}

/** A TLSA record (RFC 6698 §2.1). */
export interface Tlsa {
  usage: number
  selector: number
  matching: number
  /** Hexadecimal, lower case. */
  data: string
}

/**
 * `secure`: the resolver has validated it. `end`: the last name of the alias chain, or the name itself without aliases.
 */
type AnsweredName = { secure: boolean; end: string }

export type ValidatedAnswer<T> =
  | ({ kind: 'found'; records: T[] } & AnsweredName)
  | ({ kind: 'none' | 'nxdomain' } & AnsweredName)
  | { kind: 'failed'; reason: string; local?: true }

/** Returns answers with their DNSSEC state (validated.ts). */
export interface ValidatingResolver {
  mx(name: string): Promise<ValidatedAnswer<Mx>>
  a(name: string): Promise<ValidatedAnswer<string>>
  aaaa(name: string): Promise<ValidatedAnswer<string>>
  cname(name: string): Promise<ValidatedAnswer<string>>
  tlsa(name: string): Promise<ValidatedAnswer<Tlsa>>
  /** Clears the cache of failed lookups. */
  forgetFailures(): void
}

export interface Resolver {
  mx(name: string): Promise<ResolverAnswer<Mx>>
  /** TXT records, each with its strings joined. */
  txt(name: string): Promise<ResolverAnswer<string>>
  a(name: string): Promise<ResolverAnswer<string>>
  aaaa(name: string): Promise<ResolverAnswer<string>>
  cname(name: string): Promise<ResolverAnswer<string>>
  ptr(name: string): Promise<ResolverAnswer<string>>
  /** The published records, only for advice. Delivery with DANE uses `validated`. */
  tlsa(name: string): Promise<ResolverAnswer<Tlsa>>
  /** The same with DNSSEC. Undefined if the servers' answers cannot be trusted, or if DNSSEC is not used. */
  readonly validated?: ValidatingResolver | undefined
}

/** Looks up records by the name of their type. Returns 'none' for a type that mail does not use. Never rejects. */
export function askType(resolver: Resolver, name: string, type: string): Promise<ResolverAnswer<string | Mx>> {
  switch (type) {
    case 'TXT':
      return resolver.txt(name)
    case 'A':
      return resolver.a(name)
    case 'AAAA':
      return resolver.aaaa(name)
    case 'MX':
      return resolver.mx(name)
    case 'CNAME':
      return resolver.cname(name)
    case 'PTR':
      return resolver.ptr(name)
    default:
      return Promise.resolve({ kind: 'none' })
  }
}

/** An answer in the form of node:dns, for libraries that expect it: records, or a thrown error with a code. */
export function asNodeDns(answer: ResolverAnswer<string | Mx>, type: string): string[] | string[][] {
  if (answer.kind === 'found')
    return type === 'TXT' ? answer.records.map((text) => [text as string]) : (answer.records as string[])
  const code = { none: 'ENODATA', nxdomain: 'ENOTFOUND', failed: 'ETIMEOUT' }[answer.kind]
  throw Object.assign(new Error(code), { code })
}

export interface ResolverOptions {
  servers: readonly { host: string; port: number }[]
  /** Milliseconds for the first try. c-ares doubles them for each further one. */
  timeout?: number
  tries?: number
  /** Gives `validated`. */
  validating?: (() => ValidatingResolver | undefined) | undefined
}

/** The most records of an answer: no mail set-up needs more, and more would only fill memory. */
const MAX_RECORDS = 100

/** The most questions at once: hundreds overflow the socket's buffers, and a lost packet looks like no answer. */
const MAX_ASKED = 50

/** The servers to query: those of the configuration, otherwise those of the system. */
export const serversOf = (servers: ResolverOptions['servers']): string[] =>
  servers.length > 0 ? servers.map(({ host }) => host) : getServers()

/** A resolver for these servers. Its methods never reject. `timeout` in ms. */
export function createResolver({ servers, timeout = 3000, tries = 3, validating }: ResolverOptions): Resolver {
  const resolver = new NodeResolver({ timeout, tries })
  if (servers.length > 0) resolver.setServers(servers.map(({ host, port }) => formatEndpoint(host, port)))
  const turn = semaphore(MAX_ASKED)
  const inTurn = <T>(question: () => Promise<T[]>): Promise<ResolverAnswer<T>> => turn(() => ask(question))
  const clean = (host: string): string => host.toLowerCase().replace(/\.$/, '')
  return {
    mx: (name) =>
      inTurn(async () =>
        (await resolver.resolveMx(name)).map(({ exchange, priority }) => ({ exchange: clean(exchange), priority })),
      ),
    txt: (name) => inTurn(async () => (await resolver.resolveTxt(name)).map((strings) => strings.join(''))),
    a: (name) => inTurn(() => resolver.resolve4(name)),
    aaaa: (name) => inTurn(() => resolver.resolve6(name)),
    cname: (name) => inTurn(async () => (await resolver.resolveCname(name)).map(clean)),
    ptr: (name) => inTurn(async () => (await resolver.resolvePtr(name)).map(clean)),
    tlsa: (name) =>
      inTurn(async () =>
        (await resolver.resolveTlsa(name)).map(({ certUsage, data, match, selector }) => ({
          usage: certUsage,
          selector,
          matching: match,
          data: Buffer.from(data).toString('hex'),
        })),
      ),
    get validated() {
      return validating?.()
    },
  }
}

const ENDED = { kind: 'failed', reason: 'ECANCELLED' } as const

/** The same resolver, whose open questions fail at the cut, and so does each further one. */
export function cuttable(resolver: Resolver): { resolver: Resolver; cut: Cut } {
  const cut = new Cut()
  const orFail = <T>(answer: Promise<T>): Promise<T | typeof ENDED> => cut.or<T | typeof ENDED>(answer, ENDED)
  const until: Resolver = {
    mx: (name) => orFail(resolver.mx(name)),
    txt: (name) => orFail(resolver.txt(name)),
    a: (name) => orFail(resolver.a(name)),
    aaaa: (name) => orFail(resolver.aaaa(name)),
    cname: (name) => orFail(resolver.cname(name)),
    ptr: (name) => orFail(resolver.ptr(name)),
    tlsa: (name) => orFail(resolver.tlsa(name)),
    get validated(): ValidatingResolver | undefined {
      const { validated } = resolver
      if (!validated) return undefined
      return {
        mx: (name) => orFail(validated.mx(name)),
        a: (name) => orFail(validated.a(name)),
        aaaa: (name) => orFail(validated.aaaa(name)),
        cname: (name) => orFail(validated.cname(name)),
        tlsa: (name) => orFail(validated.tlsa(name)),
        forgetFailures: () => validated.forgetFailures(),
      }
    },
  }
  return { resolver: until, cut }
}

async function ask<T>(question: () => Promise<T[]>, again = true): Promise<ResolverAnswer<T>> {
  try {
    const records = await question()
    return records.length > 0 ? { kind: 'found', records: records.slice(0, MAX_RECORDS) } : { kind: 'none' }
  } catch (thrown) {
    const code = codeOf(thrown)
    if (code === 'ENODATA') return { kind: 'none' }
    if (code === 'ENOTFOUND' || code === 'EBADNAME') return { kind: 'nxdomain' }
    const want = isLocal(thrown) ? code : wantOfDescriptors()
    if (want) return { kind: 'failed', reason: want, local: true }
    // A lack of descriptors may have caused the error and be over by now, so the query is sent once more. If it is
    // rejected again, the server refused it.
    if (code === 'ECONNREFUSED' && again) return ask(question, false)
    return { kind: 'failed', reason: code || 'unknown' }
  }
}

/**
 * The error code when this process can open no descriptor, else undefined. c-ares reports ECONNREFUSED even when it
 * could not open a socket.
 */
function wantOfDescriptors(): string | undefined {
  try {
    closeSync(openSync('/dev/null', 'r'))
    return undefined
  } catch (thrown) {
    return isLocal(thrown) ? codeOf(thrown) : undefined
  }
}
