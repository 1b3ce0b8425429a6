// Schemas for the values of the configuration. Each has a short message with the required form.
import { z } from 'zod'
import { targetOf } from './backup-target.ts'
import { hasControls } from './clean-text.ts'
import { messageOf } from './errors.ts'
import { canonical, isAddress, isNetwork, parseEndpoint } from './network.ts'
import { DAY, HOUR, MINUTE, SECOND } from './clock.ts'
import { parseCron } from './cron.ts'
import { isNameIn } from './one-of.ts'

// Durations ("5m") and sizes ("40MB") as people write them in the configuration.
const DURATIONS = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY }
const SIZES = { '': 1, B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 }

/** Milliseconds of "250ms", "5s", "5m", "2h", "5d" or "0", or undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text.trim()) ?? []
  if (unit !== undefined && isNameIn(DURATIONS, unit)) return Number(amount) * DURATIONS[unit]
  return text.trim() === '0' ? 0 : undefined
}

/** Bytes of "512", "64KB", "40MB", "1GB" (powers of 1024), or undefined for anything else. */
export function parseSize(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,9})\s*(B|KB|MB|GB|)$/.exec(text.trim().toUpperCase()) ?? []
  return unit !== undefined && isNameIn(SIZES, unit) ? Number(amount) * SIZES[unit] : undefined
}

/** A duration such as "5m". The output is in ms. */
export const duration = () =>
  z.union([z.string(), z.number()], 'must be a duration such as "5m"').transform((text, context) => {
    const value = parseDuration(String(text))
    if (value === undefined)
      context.addIssue({ code: 'custom', message: 'must be a duration such as "5m" (ms, s, m, h, d)' })
    return value ?? z.NEVER
  })

/** A size such as "40MB" or a number. The output is in bytes. */
export const size = () =>
  z.union([z.string(), z.int().min(0)]).transform((text, context) => {
    const value = typeof text === 'number' ? text : parseSize(text)
    if (value === undefined)
      context.addIssue({ code: 'custom', message: 'must be a size such as "40MB" (B, KB, MB, GB)' })
    return value ?? z.NEVER
  })

/** A duration or a size that is more than 0. */
export const more = (unit: ReturnType<typeof duration> | ReturnType<typeof size>) =>
  unit.refine((value) => value > 0, 'must be greater than 0')

/** A schedule of five fields. The text stays, and `parseCron` reads it. */
export const cron = () =>
  z
    .string()
    .refine(
      (text) => parseCron(text) !== undefined,
      'must be a schedule of five fields in UTC, such as "0 2 * * *" (minute, hour, day of month, month, day of week)',
    )

/** A host and port such as "127.0.0.1:8025". The output is {host, port}. */
export const endpoint = () =>
  z.string().transform((text, context) => {
    const value = parseEndpoint(text)
    if (!value) context.addIssue({ code: 'custom', message: 'must be host:port, such as "127.0.0.1:8025"' })
    return value ?? z.NEVER
  })

/** The host of a route, or "mx:NAME" for the MX hosts of a domain. */
export const mxOrHost = () =>
  z
    .string()
    .min(1)
    .transform((value) => value.replace(/^mx:/i, 'mx:'))
    .refine(
      (value) => !value.startsWith('mx:') || (isNameOfHost(value.slice(3)) && !isAddress(value.slice(3))),
      'must be a host, or "mx:" and a domain, such as "mx:relay.example.org"',
    )

/** One of several hosts of a route. Without a port, that of the route applies. The output is {host, port}. */
export const relayHost = () =>
  z.string().transform((text, context) => {
    const bare = text.replace(/^\[(.*:.*)\]$/, '$1').toLowerCase()
    const { host, port } = isAddress(bare) || isNameOfHost(bare) ? { host: bare } : (parseEndpoint(bare) ?? {})
    if (host !== undefined && port !== 0) {
      // In one form, so that a host that is listed twice is found.
      if (isAddress(host)) return { host: canonical(host), port }
      if (isNameOfHost(host)) return { host, port }
    }
    context.addIssue({
      code: 'custom',
      message: 'must be a host with or without a port, such as "mx1.example.org" or "[2001:db8::1]:587"',
    })
    return z.NEVER
  })

/** An endpoint with an IP address, for use before names can be looked up. */
export const addressEndpoint = () =>
  endpoint().refine(({ host }) => isAddress(host), 'must be address:port, such as "127.0.0.1:53"')

/** An IP network in CIDR form or a single address. */
export const network = () => z.string().refine(isNetwork, 'must be an IP network such as "127.0.0.0/8"')
/** A TCP port, 0 to 65535. */
export const port = () => z.int('must be a port number').min(0).max(65535)
export const text = () => z.string('must be a string')

/** Where backups go. The text stays, and `targetOf` reads it. */
export const backupTarget = () =>
  text().superRefine((target, context) => {
    try {
      targetOf(target)
    } catch (thrown) {
      context.addIssue({ code: 'custom', message: messageOf(thrown) })
    }
  })

/** An email address, or '' if unset. */
export const mailAddress = () =>
  text()
    .refine(
      (value) => value === '' || z.email().safeParse(value).success,
      'must be an email address such as "postrider@example.org"',
    )
    .default('')

/** An email address with or without a display name, or "". */
export const mailbox = () =>
  text()
    .refine((value) => {
      const [, name, inner] = /^("(?:[^"\\]|\\.)*"|[^"<>,;:@()[\]\\]*?)\s*<([^<>]*)>$/.exec(value) ?? []
      return value === '' || (!hasControls(name ?? '') && z.email().safeParse(inner ?? value).success)
    }, 'must be an email address such as "postrider@example.org" or "Postrider <postrider@example.org>"')
    .default('')

/** The base URL under which clients reach this server, without a final slash, or '' if unset. */
export const publicUrl = () =>
  z.string().transform((value, context) => {
    if (value === '') return ''
    const url = URL.canParse(value) ? new URL(value) : undefined
    const fits =
      url && /^https?:$/.test(url.protocol) && url.pathname === '/' && !url.search && !url.hash && !url.username
    if (!fits)
      context.addIssue({ code: 'custom', message: 'must be a URL without a path, such as "https://mail.example.org"' })
    return fits ? url.origin : z.NEVER
  })

/** An origin that an application is on: https, or http on loopback (RFC 8252 §7.3). */
export const redirectOrigin = () =>
  publicUrl().refine(
    (origin) => /^https:|^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::|$)/.test(origin),
    'must be an https URL without a path, such as "https://app.example.org", or an http URL of a loopback address',
  )

const isNameOfHost = (value: string): boolean =>
  /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i.test(value)

/** A DNS host name, or '' if unset. If it is copied from a zone file, it ends with a dot. */
export const hostName = () =>
  z
    .string()
    .transform((value) => value.replace(/\.$/, ''))
    .refine((value) => value === '' || isNameOfHost(value), 'must be a host name such as "mx.example.org"')

export const secureUrl = () =>
  z
    .string()
    .refine(
      (value) => URL.canParse(value) && new URL(value).protocol === 'https:',
      'must be an https URL such as "https://acme-v02.api.letsencrypt.org/directory"',
    )

/** The section of sign-ups at forms. */
export const signupSettings = {
  confirm_within: duration().prefault('7d'),
  keep_requests: duration().prefault('30d'),
  keep_proof: duration().prefault('1095d'),
  min_time: duration().prefault('2s'),
  per_address: z.int().min(0).default(3),
  per_client: z.int().min(1).default(10),
  per_client_day: z.int().min(1).default(100),
  per_form: z.int().min(1).default(200),
  check_mx: z.boolean().default(true),
}
