// DKIM signatures (RFC 6376, RFC 8301): relaxed/relaxed, rsa-sha256, over a fixed list of fields (D32).
//
// The signer is the library dkim-signer. It is right only on CRLF messages with an ASCII body that is neither empty nor holds
// form feeds or vertical tabs; compose.ts makes nothing else, and `sign` refuses whatever is not so, rather than sign wrongly.
import type { KeyObject } from 'node:crypto'
import { DKIMSign } from 'dkim-signer'

/** The fields that a signature covers when they are present. */
export const SIGNED_FIELDS = [
  'From',
  'To',
  'Cc',
  'Subject',
  'Date',
  'Message-ID',
  'Reply-To',
  'In-Reply-To',
  'References',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
  'List-Id',
  'Feedback-ID',
  'CFBL-Address',
] as const

const HEADER_LIST = SIGNED_FIELDS.join(':')

export interface Signature {
  /** The From domain, as A-label. */
  domain: string
  selector: string
  /** Parsed once: reading a PEM costs as much as signing. */
  privateKey: KeyObject
}

/** The message with its DKIM-Signature field in front. Throws when the message is outside the signer's bounds. */
export function sign(message: string, { domain, selector, privateKey }: Signature): string {
  if (!/^[a-z0-9.-]+$/.test(domain) || !/^[a-z0-9.-]+$/i.test(selector))
    throw new Error('DKIM: domain and selector must be A-labels.')
  const split = message.indexOf('\r\n\r\n')
  const body = message.slice(split + 4)
  // oxlint-disable-next-line no-control-regex
  if (split < 0 || !/\S/.test(body) || /[^\t\r\n\x20-\x7e]/.test(body) || /\r(?!\n)|(?<!\r)\n/.test(message))
    throw new Error('DKIM: the message is not in the form that can be signed.')
  return `${DKIMSign(message, { privateKey, domainName: domain, keySelector: selector, headerFieldNames: HEADER_LIST })}\r\n${message}`
}
