// Email addresses in their common forms: "Ann" <ann@b.example> (RFC 5322 §3.4, narrowed). Domains are kept as
// lower-case A-labels (UTS 46), local parts as given, without quotes that they do not need. Rejected on purpose:
// groups, comments, two addresses in one text, address literals, a final dot. Real users have no such addresses.
import { forLine, hasControls } from '../base/clean-text.ts'
import { must } from '../base/errors.ts'
import { localPart } from '../base/local-part.ts'
import { comparable } from '../base/recipient-hash.ts'
import { domainToASCII } from 'node:url'
import { parse as parseName } from 'tldts'

export interface Address {
  name: string
  /** local@domain, the domain as A-label. */
  address: string
  local: string
  domain: string
}

const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/

const MAX_TEXT = 1000

/** Bytes of UTF-8. */
const utf8Length = (text: string): number => Buffer.byteLength(text)

/** The characters that a host name may have. The URL parser would give a meaning to others. */
const NAME = /^(?:[\p{L}\p{N}\p{M}.\u3002\uff0e\uff61\u00b7\u30fb-]|\u200c|\u200d)+$/u

/** The address of a text that was accepted as one before, such as a stored one. */
export const knownAddress = (text: string): Address => must(parseAddress(text), 'The address of an accepted text')

/** A host name as lower-case A-labels, or undefined if it is not one (RFC 1123 §2.1, UTS 46 non-transitional). */
export function toAscii(name: string): string | undefined {
  const ascii = /^[\x21-\x7e]+$/.test(name) ? name.toLowerCase() : NAME.test(name) ? domainToASCII(name) : ''
  // The URL parser would turn a number into an IP address: the last label of a name has at least one letter.
  if (ascii.length === 0 || ascii.length > 253) return undefined
  const labels = ascii.split('.')
  return labels.every((label) => LABEL.test(label)) && /[a-z]/.test(ascii.slice(ascii.lastIndexOf('.')))
    ? ascii
    : undefined
}

/** A name from a user in its stored form. If it is copied from a zone file, it ends with a dot. */
export const givenName = (name: string): string | undefined => toAscii(name.replace(/\.$/, ''))

/**
 * The form of a name for lookups among stored ones. A text that is not a name is returned unchanged, and matches no
 * row.
 */
export const storedName = (name: string): string => givenName(name) ?? name

/**
 * Parses a bare address without display name (RFC 5321 §4.1.2, §4.5.3.1: local 64, path 256 bytes), or returns
 * undefined.
 */
export function parseAddrSpec(text: string): Omit<Address, 'name'> | undefined {
  const at = text.lastIndexOf('@')
  const local = at < 1 ? undefined : localPart(text.slice(0, at))
  if (local === undefined || utf8Length(local) > 64) return undefined
  const domain = toAscii(text.slice(at + 1))
  if (domain === undefined || !domain.includes('.') || utf8Length(local) + domain.length + 3 > 256) return undefined
  return { address: `${local}@${domain}`, local, domain }
}

/** A bare address in the form in which addresses are compared, or undefined if the text is not one. */
export function comparableOf(text: string): string | undefined {
  const parsed = parseAddrSpec(text)
  return parsed && comparable(parsed.address)
}

/** One address with an optional display name, or undefined if the text is anything else. */
export function parseAddress(text: string): Address | undefined {
  if (hasControls(text) || !text.isWellFormed() || text.length > MAX_TEXT) return undefined
  const trimmed = text.trim()
  const [, quoted, plain, inner] =
    /^(?:"((?:[^"\\]|\\.)*)"|([^"<>]*?))\s*<((?:"(?:[^"\\]|\\.)*")?[^"<>]*)>$/.exec(trimmed) ?? []
  const bare = parseAddrSpec(inner ?? trimmed)
  if (!bare) return undefined
  if (plain !== undefined && /[,;:@()[\]\\]/.test(plain)) return undefined
  const name = quoted !== undefined ? quoted.replace(/\\(.)/g, '$1') : (plain ?? '')
  return { name: name.trim(), ...bare }
}

/**
 * The domain one label below the public suffix: "example.co.uk" for "a.example.co.uk", or undefined for a public suffix
 * itself.
 */
export function organisationalDomain(domain: string): string | undefined {
  return parseName(domain, { allowPrivateDomains: true }).domain ?? undefined
}

/** As `organisationalDomain`, but hosts of customers have the hosting provider's domain, such as amazonaws.com. */
export const registrableDomain = (host: string): string | undefined => parseName(host).domain ?? undefined

/** True when `other` is the domain itself, below it, or a parent of it below the public suffix (D22). */
export function inFamily(domain: string, other: string): boolean {
  if (other === domain || other.endsWith(`.${domain}`)) return true
  return domain.endsWith(`.${other}`) && organisationalDomain(other) !== undefined
}

/** An address with its display name in quotes, which `parseAddress` can read back. Too long names are omitted. */
export function formatAddress({ address, name }: Pick<Address, 'address' | 'name'>): string {
  const shown = forLine(name)
  const text = shown === '' ? address : `"${shown.replace(/["\\]/g, '\\$&')}" <${address}>`
  return text.length > MAX_TEXT ? address : text
}
