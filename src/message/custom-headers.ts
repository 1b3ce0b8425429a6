// The sender's own header fields: which names and values are allowed (specification "Custom headers", D29).

export const MAX_HEADERS = 10
const MAX_NAME = 126
const MAX_VALUE = 995
const MAX_BOTH = 996

/** The header field that declares a mail as written by a machine. */
export const AI_DISCLOSURE = ['AI-Disclosure', 'mode=ai-generated'] as const

const RESERVED = new Set(
  (
    'To From Subject Cc Bcc Reply-To Date Message-ID MIME-Version Content-Type Content-Disposition Return-Path Feedback-To ' +
    'X-Complaint-To List-Unsubscribe List-Unsubscribe-Post ' +
    // Beyond the specification: fields that would break the mail or that only servers may write.
    'Sender Received DKIM-Signature Authentication-Results Content-Transfer-Encoding Delivered-To Content-ID ' +
    `Content-Description Feedback-ID CFBL-Address CFBL-Feedback-ID ${AI_DISCLOSURE[0]}`
  )
    .toLowerCase()
    .split(' '),
)
const RESERVED_PREFIXES = ['arc-', 'resent-', 'x-postrider-']

export interface HeaderFault {
  code: 'reserved_header' | 'invalid' | 'too_long'
  message: string
}

/** The fault of a header field of the sender; undefined when it is allowed. Names are compared without case. */
export function headerFault(name: string, value: unknown): HeaderFault | undefined {
  const lower = name.toLowerCase()
  if (RESERVED.has(lower) || RESERVED_PREFIXES.some((prefix) => lower.startsWith(prefix)))
    return { code: 'reserved_header', message: `is a reserved header: "${name}" is set by the server` }
  if (name.length > MAX_NAME) return { code: 'too_long', message: `must have a name of at most ${MAX_NAME} characters` }
  if (!/^[\x21-\x39\x3b-\x7e]+$/.test(name))
    return { code: 'invalid', message: 'must have a name of printable ASCII without colons or spaces' }
  if (typeof value !== 'string') return { code: 'invalid', message: 'must have a string as value' }
  if (value.length > MAX_VALUE)
    return { code: 'too_long', message: `must have a value of at most ${MAX_VALUE} characters` }
  if (name.length + value.length > MAX_BOTH)
    return { code: 'too_long', message: `must have at most ${MAX_BOTH} characters in name and value together` }
  if (!/^[\x20-\x7e]*$/.test(value))
    return { code: 'invalid', message: 'must have a value of printable ASCII without line breaks' }
  if (value.trim() === '') return { code: 'invalid', message: 'must have a value that is not blank' }
  return undefined
}
