// The scopes of tokens: the sixteen of the specification, and `mcp:use`, which only OAuth clients have (D15).
import { isOneOf } from '../base/one-of.ts'

export const SCOPES = [
  'tokens:write',
  'emails:send',
  'emails:read',
  'emails:write',
  'campaigns:read',
  'campaigns:write',
  'contacts:read',
  'contacts:write',
  'domains:read',
  'domains:write',
  'inbound:read',
  'suppressions:read',
  'suppressions:write',
  'compliance:write',
  'webhooks:read',
  'webhooks:write',
] as const

export type Scope = (typeof SCOPES)[number]

export const isScope = (text: string): text is Scope => isOneOf(SCOPES, text)
