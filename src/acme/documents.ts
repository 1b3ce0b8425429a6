// The documents of a certificate authority (RFC 8555 §7.1). The members that Postrider uses are checked first, because
// the authority, or an attacker on the path, may send anything.
import type { CaAnswer } from './http.ts'

/** The error of an order, a challenge or an answer (RFC 7807). */
export interface AcmeProblem {
  type?: string | undefined
  detail?: string | undefined
}

export interface Directory {
  newNonce: string
  newAccount: string
  newOrder: string
  renewalInfo?: string | undefined
}

interface AcmeOrder {
  status: string
  authorizations: string[]
  finalize: string
  certificate?: string | undefined
  error?: AcmeProblem | undefined
}

interface Challenge {
  type: string
  url: string
  token: string
  error?: AcmeProblem | undefined
}

interface Authorization {
  status: string
  challenges: Challenge[]
}

interface Renewal {
  suggestedWindow?: { start?: string | undefined; end?: string | undefined } | undefined
}

type Is<T> = (value: unknown) => value is T
type Shape<T> = { [K in keyof T]-?: Is<T[K]> }

/** Whether a value is an object whose members pass the checks of the shape. Other members are ignored. */
const object =
  <T>(shape: Shape<T>): Is<T> =>
  (value): value is T =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries<Is<unknown>>(shape).every(([name, is]) => is((value as Record<string, unknown>)[name]))
const listOf =
  <T>(is: Is<T>): Is<T[]> =>
  (value): value is T[] =>
    Array.isArray(value) && value.every((each) => is(each))
const maybe =
  <T>(is: Is<T>): Is<T | undefined> =>
  (value): value is T | undefined =>
    value === undefined || is(value)
const isText = (value: unknown): value is string => typeof value === 'string'

/** Whether a value is the URL of an authority's document. */
export const isAddress = (value: unknown): value is string =>
  isText(value) && value.startsWith('https://') && URL.canParse(value)

const isProblem = object<AcmeProblem>({ type: maybe(isText), detail: maybe(isText) })
export const isDirectory = object<Directory>({
  newNonce: isAddress,
  newAccount: isAddress,
  newOrder: isAddress,
  renewalInfo: maybe(isAddress),
})
export const isOrder = object<AcmeOrder>({
  status: isText,
  authorizations: listOf(isAddress),
  finalize: isAddress,
  certificate: maybe(isAddress),
  error: maybe(isProblem),
})
/** A token has only characters of base64url (RFC 8555 §8.1), because it becomes a part of a path. */
const isToken = (value: unknown): value is string => isText(value) && /^[\w-]{1,1000}$/.test(value)
const isChallenge = object<Challenge>({ type: isText, url: isAddress, token: isToken, error: maybe(isProblem) })
const isKind = object<{ type: string }>({ type: isText })
/** Challenges of other types may have other members (RFC 8555 §8). */
const isKnown = (value: unknown): boolean =>
  ['http-01', 'tls-alpn-01'].includes((value as { type?: string } | null)?.type ?? '')
const isChallenges: Is<Challenge[]> = (value): value is Challenge[] =>
  Array.isArray(value) && value.every((each) => isChallenge(each) || (isKind(each) && !isKnown(each)))
export const isAuthorization = object<Authorization>({ status: isText, challenges: isChallenges })
export const isRenewal = object<Renewal>({
  suggestedWindow: maybe(object({ start: maybe(isText), end: maybe(isText) })),
})

/** The JSON of an answer, without members that are null, or undefined if it is not JSON. */
export function jsonOf({ text }: CaAnswer): unknown {
  try {
    return JSON.parse(text, (_, value: unknown) => value ?? undefined)
  } catch {
    return undefined
  }
}

/** Returns the error in a response, or undefined. */
export function problemOf(answer: CaAnswer): AcmeProblem | undefined {
  const document = jsonOf(answer)
  return isProblem(document) ? document : undefined
}
