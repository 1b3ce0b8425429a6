// Mail addresses as people and programs write them: "Ann" <ann@b.example> (RFC 5322 §3.4, narrowed). Domains are kept
// as lower-case A-labels (UTS 46), local parts as given. Refused on purpose: groups, comments, two addresses in one
// text, address literals, quoted local parts, a final dot. The addresses of real people use none of these forms.
import { forLine, hasControls } from '../base/clean-text.ts'
import { must } from '../base/errors.ts'
import { comparable } from '../base/recipient-hash.ts'
import { domainToASCII } from 'node:url'
import { parse as parseName } from 'tldts'

export interface Address {
  /** Display name, '' when none. */
  name: string
  /** local@domain, the domain as A-label. */
  address: string
  local: string
  domain: string
}

const ATEXT = /^[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+)*$/u
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/

const MAX_TEXT = 1000

/** Octets of UTF-8. */
const octets = (text: string): number => Buffer.byteLength(text)

/** The characters that a host name may have; the URL parser would give a meaning to others. */
const NAME = /^(?:[\p{L}\p{N}\p{M}.\u3002\uff0e\uff61\u00b7\u30fb-]|\u200c|\u200d)+$/u

/** The address of a text that was accepted as one before, such as a stored one. */
export const knownAddress = (text: string): Address => must(parseAddress(text), 'The address of an accepted text')

/** A host name as lower-case A-labels; undefined when it is not one (RFC 1123 §2.1, UTS 46 non-transitional). */
export function toAscii(name: string): string | undefined {
  const ascii = /^[\x21-\x7e]+$/.test(name) ? name.toLowerCase() : NAME.test(name) ? domainToASCII(name) : ''
  // The URL parser would turn a number into an IP address: the last label of a name has at least one letter.
  if (ascii.length === 0 || ascii.length > 253) return undefined
  const labels = ascii.split('.')
  return labels.every((label) => LABEL.test(label)) && /[a-z]/.test(ascii.slice(ascii.lastIndexOf('.')))
    ? ascii
    : undefined
}

/** A name that a person gives, as it is stored: in a zone, from which people copy, it ends with a dot. */
export const givenName = (name: string): string | undefined => toAscii(name.replace(/\.$/, ''))

/** The name to look for among stored ones; a text that is not a name stays as it is, and is found nowhere. */
export const storedName = (name: string): string => givenName(name) ?? name

/**
 * A bare address without display name (RFC 5321 §4.1.2, §4.5.3.1: local 64, path 256 octets);
 * undefined when the text is not one.
 */
export function parseAddrSpec(text: string): Omit<Address, 'name'> | undefined {
  const at = text.lastIndexOf('@')
  const local = text.slice(0, at)
  if (at < 1 || octets(local) > 64 || !ATEXT.test(local)) return undefined
  const domain = toAscii(text.slice(at + 1))
  if (domain === undefined || !domain.includes('.') || octets(local) + domain.length + 3 > 256) return undefined
  return { address: `${local}@${domain}`, local, domain }
}

/** A bare address in the form in which addresses are compared; undefined when the text is not one. */
export function comparableOf(text: string): string | undefined {
  const parsed = parseAddrSpec(text)
  return parsed && comparable(parsed.address)
}

/** One address with an optional display name; undefined when the text is anything else. */
export function parseAddress(text: string): Address | undefined {
  if (hasControls(text) || !text.isWellFormed() || text.length > MAX_TEXT) return undefined
  const trimmed = text.trim()
  const [, quoted, plain, inner] = /^(?:"((?:[^"\\]|\\.)*)"|([^"<>]*?))\s*<([^<>]*)>$/.exec(trimmed) ?? []
  const bare = parseAddrSpec(inner ?? trimmed)
  if (!bare) return undefined
  if (plain !== undefined && /[,;:@()[\]\\]/.test(plain)) return undefined
  const name = quoted !== undefined ? quoted.replace(/\\(.)/g, '$1') : (plain ?? '')
  return { name: name.trim(), ...bare }
}

/**
 * The domain one label below the public suffix: "example.co.uk" for "a.example.co.uk";
 * undefined for a public suffix itself.
 */
export function organisationalDomain(domain: string): string | undefined {
  return parseName(domain, { allowPrivateDomains: true }).domain ?? undefined
}

/** True when `other` is the domain itself, below it, or a parent of it below the public suffix (D22). */
export function inFamily(domain: string, other: string): boolean {
  if (other === domain || other.endsWith(`.${domain}`)) return true
  return domain.endsWith(`.${other}`) && organisationalDomain(other) !== undefined
}

/**
 * An address with its display name in quotes; `parseAddress` reads it back. Without the name when it would be too long.
 */
export function formatAddress({ address, name }: Pick<Address, 'address' | 'name'>): string {
  const shown = forLine(name)
  const text = shown === '' ? address : `"${shown.replace(/["\\]/g, '\\$&')}" <${address}>`
  return text.length > MAX_TEXT ? address : text
}
