// Replaces joi in the executable, of which mailauth uses two rules: a domain (for SPF) and base64 (for
// keys). The rule for domains is joi's own, from the package that joi takes it from. A test compares both with joi.
import { isDomainValid, type DomainOptions } from '@hapi/address'

/** The result of `validate`. `error` is set if the value breaks the rule. */
interface Validation {
  value: unknown
  error?: Error
}

const BASE64 = /^(?:[A-Za-z0-9+/]{2}[A-Za-z0-9+/]{2})*(?:[A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?$/

/** A missing value breaks no rule, an empty text breaks each. */
const rule = (holds: (text: string) => boolean, name: string) => ({
  validate: (value: unknown): Validation =>
    value === undefined || (typeof value === 'string' && value !== '' && holds(value))
      ? { value }
      : { value, error: new Error(`"value" must be a valid ${name}`) },
})

/** joi's `string()` with only the rules and options that mailauth uses. */
export const string = () => ({
  domain: (options: { allowUnicode: false; tlds: false }) => {
    if (options.tlds) throw new Error('Only for tlds: false.')
    const { tlds: _, ...others } = options
    return rule((text) => isDomainValid(text, others satisfies DomainOptions), 'domain name')
  },
  base64: (options: { paddingRequired: false }) => {
    if (options.paddingRequired) throw new Error('Only for paddingRequired: false.')
    return rule((text) => BASE64.test(text), 'base64 string')
  },
  // Of mailauth's part for logos, which is not in the executable.
  uri: () => rule(() => false, 'uri'),
})
