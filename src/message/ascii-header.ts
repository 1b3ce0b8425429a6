// The header of a submitted mail for a server without SMTPUTF8 (RFC 6531): raw UTF-8 in free text and in display names
// becomes encoded words (RFC 2047). Addresses and identifiers cannot be encoded like that.
import { isAscii } from 'node:buffer'
import { encodedWords, unstructured } from './headers.ts'
import { decoded, utf8 } from './parse.ts'

const ADDRESSES =
  /^(?:(?:resent-)?(?:from|sender|to|cc|bcc|reply-to)|disposition-notification-to|return-receipt-to|errors-to|mail-followup-to|mail-reply-to)$/
/** Fields with a syntax in which an encoded word may not stand. */
const STRUCTURED =
  /^(?:(?:resent-)?(?:message-id|date)|references|in-reply-to|received|return-path|mime-version|content-(?:type|disposition|id|transfer-encoding|location)|dkim-signature|arc-.*|authentication-results|list-(?:unsubscribe|subscribe|help|owner|archive|post)(?:-post)?|auto-submitted)$/

/** The same message with a header in ASCII; undefined when that is impossible. */
export function withAsciiHeader(message: Buffer): Buffer | undefined {
  const end = message.indexOf('\r\n\r\n') + 2
  if (end < 2 || isAscii(message.subarray(0, end))) return message
  const fields = message.toString('latin1', 0, end).split(/(?<=\r\n)(?![ \t])/)
  const header: string[] = []
  for (const field of fields) {
    const narrow = isAscii(Buffer.from(field, 'latin1')) ? field : asciiField(field)
    if (narrow === undefined) return undefined
    header.push(narrow)
  }
  return Buffer.concat([Buffer.from(header.join(''), 'latin1'), message.subarray(end)])
}

function asciiField(field: string): string | undefined {
  const colon = field.indexOf(':')
  const name = field.slice(0, colon).trim()
  const value = field
    .slice(colon + 1)
    .replace(/\r\n/g, '')
    .trim()
  const key = name.toLowerCase()
  if (!isAscii(Buffer.from(name, 'latin1')) || STRUCTURED.test(key)) return undefined
  if (!ADDRESSES.test(key)) return unstructured(name, decoded(value))
  const addresses = asciiAddresses(utf8(value))
  return addresses === undefined ? undefined : `${name}: ${addresses}\r\n`
}

/**
 * A backslash and its next character are part of a word, so that an escaped quote begins no quoted string. Otherwise
 * the search for a missing closing quote would start again at every escaped quote.
 */
const TOKEN = /"(?:[^"\\]|\\[\s\S])*"|\((?:[^()\\]|\\[\s\S])*\)|<[^<>]*>|(?:[^\s"()<>,;:\\]|\\[\s\S])+|\s+|[\s\S]/g
// oxlint-disable-next-line no-control-regex
const WIDE = /[^\0-\x7f]/

/**
 * A list of addresses with its names and comments in encoded words (RFC 2047 §5); undefined when an address itself is
 * not ASCII.
 */
function asciiAddresses(value: string): string | undefined {
  const tokens = value.match(TOKEN) ?? []
  let list = ''
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    if (!WIDE.test(token)) {
      list += token
      continue
    }
    if (token.startsWith('(')) {
      list += `\r\n (${encodedWords(token.slice(1, -1).replace(/\\([\s\S])/g, '$1'), 2)})`
      continue
    }
    // Readers drop white space between encoded words (RFC 2047 §6.2): adjacent words that need encoding become one.
    let words = wordOf(token)
    while (words !== undefined && /^\s+$/.test(tokens[at + 1] ?? '')) {
      const following = tokens[at + 2] ?? ''
      if (!WIDE.test(following) || /^[<(]/.test(following)) break
      const next = wordOf(following)
      words = next === undefined ? undefined : `${words} ${next}`
      at += 2
    }
    if (words === undefined || tokens[at + 1]?.startsWith('@')) return undefined
    list += `\r\n ${encodedWords(words, 1)} `
  }
  return list.trim()
}

/** A word of a display name; undefined for an address, and for a character that a display name cannot have. */
function wordOf(token: string): string | undefined {
  if (token.startsWith('"') && token.length > 1) return token.slice(1, -1).replace(/\\([\s\S])/g, '$1')
  return /[<@]/.test(token) ? undefined : token
}
