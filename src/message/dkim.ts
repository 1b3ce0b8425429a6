// DKIM signatures (RFC 6376, RFC 8301): relaxed/relaxed, rsa-sha256, over a fixed list of fields (D32).
//
// The signer is the library dkim-signer. It is right only on CRLF messages with an ASCII body that is neither empty nor holds
// form feeds or vertical tabs; compose.ts makes nothing else, and `sign` refuses whatever is not so, rather than sign wrongly.
// It holds a message several times over, so that one above LARGE is signed by mailauth's signer, which reads it as a stream.
import type { KeyObject } from 'node:crypto'
import { Readable } from 'node:stream'
import { DKIMCanonicalizer, DKIMSign } from 'dkim-signer'

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

// The signer's canonical forms are taken line by line with several expressions each, and those of the header twice. What needs no work
// is passed on as it is, and a header is worked once; the results are the same octets.
const { relaxedBody, relaxedHeaders } = DKIMCanonicalizer
const NEEDS_WORK = /\t|  | \r| $/
DKIMCanonicalizer.relaxedBody = (body) => {
  if (NEEDS_WORK.test(body)) return relaxedBody(body)
  let end = body.length
  while (body.endsWith('\r\n', end)) end -= 2
  return `${body.slice(0, end)}\r\n`
}
let last: { headers: string; fieldNames: string; result: ReturnType<typeof relaxedHeaders> } | undefined
DKIMCanonicalizer.relaxedHeaders = (headers, fieldNames) => {
  if (last?.headers !== headers || last.fieldNames !== fieldNames)
    last = { headers, fieldNames, result: relaxedHeaders(headers, fieldNames) }
  // The signer adds to what it gets.
  return { ...last.result }
}

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

/** Octets from which on a message is signed as a stream. */
export const LARGE = 1024 * 1024
const STEP = 64 * 1024

/** The DKIM-Signature field of a large message, with its line end. Throws when it cannot be signed. */
export async function signLarge(
  message: Buffer,
  { domain, selector, privateKey }: Omit<Signature, 'privateKey'> & { privateKey: string },
): Promise<string> {
  const { dkimSign } = await import('mailauth/lib/dkim/sign.js')
  function* steps(): Iterable<Buffer> {
    for (let at = 0; at < message.length; at += STEP) yield message.subarray(at, at + STEP)
  }
  const { signatures, errors } = await dkimSign(Readable.from(steps()), {
    canonicalization: 'relaxed/relaxed',
    headerList: [...SIGNED_FIELDS],
    strict: true,
    signingDomain: domain,
    selector,
    privateKey,
    signatureData: [{ signingDomain: domain, selector, privateKey, algorithm: 'rsa-sha256' }],
  })
  if (!signatures || errors.length > 0)
    throw new Error(`DKIM: ${errors.map(({ err }) => err.message).join(', ') || 'no signature was made'}`)
  return signatures.endsWith('\r\n') ? signatures : `${signatures}\r\n`
}
