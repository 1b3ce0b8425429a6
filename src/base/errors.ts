// The three kinds of failure (src/README.md). A Refusal is the caller's error, and contains the correction. An
// OperatorError is one sentence for the administrator who starts or configures Postrider. Any other error is a bug.
// Answers of other servers (SMTP replies, DNS) are never thrown: they are values (smtp/verdict.ts).
import { forInstance } from './named-instance.ts'

/** Every machine-readable error code (D7) with its HTTP status and title. */
export const CODES = {
  invalid_document: [400, 'Invalid JSON:API document'],
  invalid_query: [400, 'Unknown or malformed query parameter'],
  unsupported_include: [400, 'Relationship cannot be included'],
  unsupported_fields: [400, 'Unknown type or field in fields[…]'],
  unsupported_filter: [400, 'Filter not supported'],
  unsupported_sort: [400, 'Sort field not supported'],
  cursor_sort_mismatch: [400, 'The cursor belongs to another sort order'],
  unknown_page_parameter: [400, 'Unknown page parameter'],
  unauthenticated: [401, 'Authentication required'],
  token_expired: [401, 'The token has expired'],
  insufficient_scope: [403, 'The token lacks the required scope'],
  subscription_inactive: [403, 'No active subscription'],
  client_id_forbidden: [403, 'Client-generated ids are not supported'],
  relationship_update_forbidden: [403, 'Relationship updates are not supported'],
  not_found: [404, 'Not found'],
  method_not_allowed: [405, 'Method not allowed'],
  not_acceptable: [406, 'Not acceptable'],
  type_mismatch: [409, 'Resource type does not match the endpoint'],
  id_mismatch: [409, 'Resource id does not match the URL'],
  idempotency_conflict: [409, 'Idempotency key was used with other content'],
  form_closed: [409, 'The form is not open'],
  agent_paused: [409, 'The agent is paused'],
  segment_in_use: [409, 'A campaign uses the segment'],
  confirmation_required: [422, 'The contact has not confirmed its subscription'],
  changed_meanwhile: [412, 'The resource has been changed by another request'],
  payload_too_large: [413, 'Request body too large'],
  unsupported_media_type: [415, 'Unsupported media type'],
  required: [422, 'Required value is missing'],
  invalid: [422, 'Invalid value'],
  too_long: [422, 'Value is too long'],
  immutable: [422, 'Value cannot be changed'],
  already_exists: [422, 'Already exists'],
  recipient_suppressed: [422, 'Recipient is suppressed'],
  domain_not_active: [422, 'The sending domain is not active'],
  tracking_disabled: [422, 'Tracking is disabled on the domain'],
  address_outside_domain: [422, 'Address is outside the sending domain family'],
  reserved_header: [422, 'Header is reserved'],
  forbidden_attachment: [422, 'Attachment type is not allowed'],
  attachment_unavailable: [422, 'Attachment could not be fetched'],
  message_too_large: [422, 'Email too large'],
  transition_not_allowed: [422, 'Status change is not allowed'],
  not_editable: [422, 'The resource can no longer be edited'],
  in_use: [422, 'The resource is in use'],
  permanent_suppression: [422, 'The suppression is permanent'],
  ambiguous_address: [422, 'The address is ambiguous'],
  plan_required: [422, 'A higher plan is required'],
  volume_exceeded: [422, 'The volume of the plan or the daily limit of the token is used up'],
  quota_exceeded: [422, 'The storage quota of the account is used up'],
  limit_reached: [422, 'The account has the maximum number of these resources'],
  rate_limited: [429, 'Too many requests'],
  internal: [500, 'Internal error'],
  teardown_failed: [502, 'Removing the sending domain failed'],
  overloaded: [503, 'Too many requests in progress'],
  insufficient_storage: [507, 'Insufficient storage'],
} as const satisfies Record<string, readonly [number, string]>

export type Code = keyof typeof CODES

/** The HTTP status of a code (RFC 9110 §15). */
export type Status = (typeof CODES)[Code][0]

/** The position of the error in the request (D6): one of the three members of JSON:API's error source. */
export interface ProblemSource {
  pointer?: string
  parameter?: string
  header?: string
}

export interface Problem {
  code: Code
  detail: string
  source?: ProblemSource
  meta?: Record<string, unknown>
}

/** Thrown for a caller's error. Contains every problem found, each with its position and its correction. */
export class Refusal extends Error {
  readonly problems: readonly Problem[]
  /** Extra response headers, e.g. WWW-Authenticate or Retry-After. */
  readonly headers: Record<string, string>

  constructor(problems: readonly Problem[], headers: Record<string, string> = {}) {
    super(problems.map((problem) => problem.detail).join(' '))
    this.name = 'Refusal'
    this.problems = problems
    this.headers = headers
  }

  /** The code of the first problem. */
  get code(): Code {
    return must(this.problems[0], 'The problem of a refusal').code
  }

  /** The HTTP status of the answer: that of the first problem. */
  get status(): Status {
    return CODES[this.code][0]
  }
}

/** A refusal with one problem. It is returned, not thrown. */
export function refuse(code: Code, text: string, source?: ProblemSource, headers?: Record<string, string>): Refusal {
  const detail = forInstance(text)
  return new Refusal([source ? { code, detail, source } : { code, detail }], headers)
}

/**
 * A refusal about one attribute of the request document. `path` is a JSON pointer below /data/attributes. Not thrown.
 */
export function refuseAttribute(code: Code, path: string, detail: string): Refusal {
  return refuse(code, detail, { pointer: `/data/attributes/${path}` })
}

/** One sentence for the operator: printed on stderr, exit code 1. */
export class OperatorError extends Error {
  constructor(sentence: string, options?: ErrorOptions) {
    super(forInstance(sentence), options)
    this.name = 'OperatorError'
  }
}

/** An OperatorError for a condition that may be temporary: exit code 75. */
export class TryAgain extends OperatorError {}

/** Whether the message is a sentence for the caller, not a bug. */
export const isRefused = (thrown: unknown): thrown is OperatorError | Refusal =>
  thrown instanceof OperatorError || thrown instanceof Refusal

/** Returns a value that must exist. If it is missing, this is a bug: `what` names the value. */
export function must<Value>(value: Value | null | undefined, what: string): Value {
  if (value === undefined || value === null) throw new Error(`${what} is missing.`)
  return value
}

/** The text of a thrown value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/** The `code` of a system, DNS or SQLite error ("ENOENT", "SQLITE_FULL"), else ''. */
export function codeOf(thrown: unknown): string {
  return textIn(thrown, 'code') ?? ''
}

/** The code of a thrown value. Its text when it has no code. */
export const codeOrMessage = (thrown: unknown): string => codeOf(thrown) || messageOf(thrown)

/** The path and the name of the system call of a failed call on a file, where the error names them. */
export const failedCall = (thrown: unknown): { path: string | undefined; syscall: string | undefined } => ({
  path: textIn(thrown, 'path'),
  syscall: textIn(thrown, 'syscall'),
})

function textIn(thrown: unknown, name: 'code' | 'path' | 'syscall'): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !(name in thrown)) return undefined
  const value: unknown = Reflect.get(thrown, name)
  return typeof value === 'string' ? value : undefined
}

/** The code of corrupt or missing data on this disk (base/spooled.ts). */
export const DAMAGED = 'DAMAGED'
/** The code of an error about a message that is too large (message/too-large.ts). */
export const TOO_LARGE_CODE = 'EMSGSIZE'
