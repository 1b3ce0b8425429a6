// Schemas of values that several resources have. A message continues the attribute's name: "subject" must be …
import { z } from 'zod'
import { hasControls, hidesInName } from '../base/clean-text.ts'
import { DAY, HOUR, MINUTE, SECOND } from '../base/clock.ts'
import { parseAddress } from '../message/address.ts'
import { isUnsubscribeUri, MAX_URI } from '../message/list-unsubscribe.ts'
import { textOfValue } from '../message/template.ts'
import { headerFault, MAX_HEADERS } from '../message/headers.ts'
import { field } from './resource.ts'

const bytes = (text: string): number => Buffer.byteLength(text)
const code = (name: string) => ({ params: { code: name } })

type SizeUnit = 'bytes' | 'characters'

/** The check that a text has at most `max` bytes or characters. */
const fits = (max: number, unit: SizeUnit) =>
  [
    (value: string) => (unit === 'bytes' ? bytes(value) : Array.from(value).length) <= max,
    { message: `must be at most ${max} ${unit} long`, ...code('too_long') },
  ] as const

/** Text of one line: no control characters, at most `max` bytes or characters. */
export const line = (max: number, unit: SizeUnit = 'bytes') =>
  z
    .string('must be a string')
    .refine((text) => text.isWellFormed(), 'must be Unicode text without lone surrogates')
    .refine((text) => !hasControls(text), 'must not contain line breaks or control characters')
    .refine(...fits(max, unit))
    .meta({ maxLength: max })

const LANGUAGE = 'must be a language tag such as "de" or "pt-BR"'

/** A language (BCP 47), in its canonical form. */
export const languageTag = () =>
  z
    .string(LANGUAGE)
    .max(35, LANGUAGE)
    .refine((tag) => canonical(tag) !== undefined, LANGUAGE)
    .overwrite((tag) => canonical(tag) ?? tag)

function canonical(tag: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(tag)[0]
  } catch {
    return undefined
  }
}

/** Text of one line that is shown as a name: it contains no invisible characters and does not reverse other text. */
export const visibleLine = (...size: Parameters<typeof line>) =>
  line(...size).refine(
    (text) => !hidesInName(text),
    'must not contain invisible characters or controls of the text direction',
  )

/** Free text of any number of lines, at most `max` bytes or characters. */
export const text = (max: number, unit: SizeUnit = 'bytes') =>
  z
    .string('must be a string')
    .refine((value) => value.isWellFormed(), 'must be Unicode text without lone surrogates')
    .refine((value) => !value.includes('\0'), 'must not contain NUL characters')
    .refine(...fits(max, unit))
    .meta({ maxLength: max })

const MOMENT = 'must be a timestamp such as "2026-01-31T09:00:00Z"'
const ISO_MOMENT = z.iso.datetime({ offset: true })
const isMoment = (value: string): boolean =>
  ISO_MOMENT.safeParse(value).success && isZone(/[+-]\d\d:?\d\d$/.exec(value)?.[0] ?? 'Z')

/** Whether a time zone exists: a name, or an offset of at most 14 hours. */
export function isZone(zone: string): boolean {
  const [, hours, minutes] = /^[+-](\d\d):?(\d\d)$/.exec(zone) ?? []
  return Number(minutes ?? 0) < 60 && Number(hours ?? 0) * 60 + Number(minutes ?? 0) <= 14 * 60
}

/** A timestamp, as ms. Responses contain milliseconds. */
export const someMoment = z
  .string(MOMENT)
  .refine(isMoment, MOMENT)
  .meta({ format: 'date-time' })
  .transform((value) => Date.parse(value))

const MOMENT_OR_DURATION = 'must be a timestamp such as "2026-01-31T09:00:00Z", or a duration such as "PT5M"'

/** A timestamp (ms), or an ISO 8601 duration in days, hours, minutes and seconds (ms) from now. */
export const momentOrDuration = z
  .string(MOMENT_OR_DURATION)
  .refine((value) => isMoment(value) || durationOf(value) !== undefined, MOMENT_OR_DURATION)
  .transform((value) => {
    const after = durationOf(value)
    return after === undefined ? Date.parse(value) : { after }
  })

function durationOf(value: string): number | undefined {
  const found = /^P(?=.)(?:(\d{1,6})D)?(?:T(?=.)(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6})S)?)?$/.exec(value)
  if (!found) return undefined
  const [days, hours, minutes, seconds] = found.slice(1).map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
  ]
  return days * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND
}

const LABEL = 'must be 1 to 128 characters without line breaks or control characters'
const label = () =>
  z
    .string('must be a string')
    .refine(
      (value) => value !== '' && Array.from(value).length <= 128 && !hasControls(value) && value.isWellFormed(),
      LABEL,
    )

/** A Message-ID in angle brackets (RFC 5322 §3.6.4), without comments and quoted strings. */
export const messageIdText = () =>
  z
    .string('must be a string')
    .max(250, { error: 'must be at most 250 characters long', ...code('too_long') })
    .regex(
      /^<[\w!#$%&'*+/=?^`{|}~.-]{1,200}@[a-z0-9.-]{1,200}>$/i,
      'must be a Message-ID in angle brackets, such as <order-1017@example.org>',
    )

/** Up to 10 labels. */
export const tagList = () =>
  z
    .array(label())
    .max(10, { error: 'must contain at most 10 tags' })
    .transform((tags) => [...new Set(tags)])

const MAX_MEMBERS = 50
// Making a schema costs much more than a check with it.
const MEMBER_NAME = label()
const MEMBER_VALUE = text(4096)

/** Up to 50 texts of the sender by name, together at most 4 KB. z.record would leave out a member "__proto__". */
export const metadataObject = () =>
  z
    .custom<Record<string, string>>(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
      'must be an object of strings',
    )
    .meta({ type: 'object', additionalProperties: { type: 'string' }, maxProperties: MAX_MEMBERS })
    .superRefine((members, context) => {
      for (const [name, value] of Object.entries(members))
        for (const { error } of [MEMBER_NAME.safeParse(name), MEMBER_VALUE.safeParse(value)])
          for (const issue of error?.issues ?? [])
            context.addIssue({
              code: 'custom',
              message: issue.message,
              path: [name],
              params: issue.code === 'custom' ? issue.params : undefined,
              input: value,
            })
    })
    .refine((value) => Object.keys(value).length <= MAX_MEMBERS, `must contain at most ${MAX_MEMBERS} members`)
    .refine((value) => bytes(JSON.stringify(value)) <= 4096, {
      message: 'must be at most 4096 bytes long as JSON',
      ...code('too_long'),
    })

const URI = `must be an https, http or mailto URI of at most ${MAX_URI} characters without spaces and angle brackets`

/**
 * Unsubscribe links: URIs of the sender, this server's own address, or both. `filled`: the URIs are checked when they
 * have their values.
 */
export const unsubscribeLinks = ({ filled = false } = {}) =>
  z
    .strictObject({
      uris: z
        .array(z.string(URI).refine((text) => (filled ? text.length <= MAX_URI : isUnsubscribeUri(text)), URI))
        .max(2, { error: 'must contain at most 2 URIs' })
        .default([])
        .describe('Your own unsubscribe links: up to two https, http or mailto URIs.'),
      one_click: z
        .boolean('must be true or false')
        .default(false)
        .describe('Whether a POST to the https URI unsubscribes (RFC 8058).'),
      mail: z
        .boolean('must be true or false')
        .default(false)
        .describe(
          'Whether an unsubscribe address of this server is added. An email to it unsubscribes the recipient from the sending domain.',
        ),
    })
    .superRefine(({ mail, one_click, uris }, context) => {
      const issue = (name: string, message: string): void =>
        context.addIssue({ code: 'custom', message, path: [name], input: uris })
      if (uris.length === 0 && !mail) issue('uris', 'must contain one or two URIs, unless "mail" is true')
      if (one_click && !filled && !uris.some((each) => /^https:/i.test(each)))
        issue('one_click', 'can be true only if "uris" contains an https URI')
    })

/** Up to 64 KB of values by the names of placeholders. Numbers and booleans become text, and null is empty. */
export const variablesObject = () =>
  z
    .custom<Record<string, unknown>>(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
      'must be an object of strings',
    )
    .meta({ type: 'object', additionalProperties: { type: ['string', 'number', 'boolean', 'null'] } })
    .refine((value) => bytes(JSON.stringify(value)) <= MAX_VARIABLES, {
      message: `must be at most ${MAX_VARIABLES} bytes long as JSON`,
      ...code('too_long'),
    })
    .transform((given, context) => {
      const entries = Object.entries(given).map(([key, value]): [string, string] => {
        if (typeof value === 'object' && value !== null)
          context.addIssue({ code: 'custom', message: 'must be a string', path: [key], input: value })
        return [key, textOfValue(value)]
      })
      // A field can have any name, even "__proto__".
      return Object.fromEntries(entries)
    })
const MAX_VARIABLES = 64 * 1024

/** One address, with or without display name. */
export const address = () =>
  z
    .string('must be a string')
    .refine(
      (value) => parseAddress(value) !== undefined,
      'must be one email address such as ann@example.org or "Ann" <ann@example.org>',
    )

/** One address or a list of up to `max`. */
export const addresses = (max: number) =>
  z.union([address(), z.array(address()).max(max, { error: `must contain at most ${max} addresses` })], {
    error: 'must be an email address or a list of email addresses',
  })

/** Custom header fields as name and value pairs. Each problem names its field. */
export const headerFields = () =>
  z
    .custom<Record<string, string>>(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
      'must be an object of names and values',
    )
    .meta({ type: 'object', additionalProperties: { type: 'string' }, maxProperties: MAX_HEADERS })
    .transform((fields, context) => {
      const entries = Object.entries(fields)
      if (entries.length > MAX_HEADERS)
        context.addIssue({ code: 'custom', message: `must contain at most ${MAX_HEADERS} headers`, input: fields })
      const seen = new Set<string>()
      for (const [name, value] of entries) {
        const repeated = seen.has(name.toLowerCase()) && {
          code: 'invalid',
          message: 'must occur only once (header names are not case-sensitive)',
        }
        const fault = headerFault(name, value) || repeated
        seen.add(name.toLowerCase())
        if (fault)
          context.addIssue({
            code: 'custom',
            message: fault.message,
            path: [name],
            params: { code: fault.code },
            input: value,
          })
      }
      return entries
    })

const isBase64 = (text: string): boolean => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)

/** Strict base64 (RFC 4648 §4). Checked without decoding: an attachment may have 40 MB. */
export const base64 = z.string('must be a string').refine(isBase64, 'must be base64')

/** A file in base64. Inside the process, it can be bytes, which JSON cannot contain. */
const fileContent = z
  .custom<string | Buffer>((value) => typeof value === 'string' || Buffer.isBuffer(value), 'must be a string')
  .refine((value) => typeof value !== 'string' || isBase64(value), 'must be base64')
  .meta({ type: 'string' })

/**
 * A media type with its parameters (RFC 2045 §5.1), but without a file name, which only the attribute `filename` sets.
 */
const MEDIA_TYPE = /^[\w.+-]+\/[\w.+-]+(?: *; *(?!(?:file)?name=)[\w-]+=(?:[\w.+-]+|"[\x20!#-[\]-~]*"))*$/i

/** One attachment: inline or by URL, exactly one of the two. */
export const attachment = () =>
  z
    .strictObject({
      content: fileContent.optional().describe('File in base64. Required without `path`.'),
      path: line(2000)
        .optional()
        .describe(
          'An HTTPS URL. The file is downloaded from it before the response is sent. Required without `content`.',
        ),
      filename: line(255)
        .refine((name) => name.trim() !== '' && !/[/\\]/.test(name), 'must be a file name without a path')
        .describe('File name, without a path.'),
      content_type: line(127)
        .regex(MEDIA_TYPE, 'must be a media type such as "application/pdf" or "text/calendar; method=REQUEST"')
        .optional()
        .describe('Media type. Detected from the file if absent.'),
      content_id: line(78)
        .regex(/^[\w.!#$%&'*+/=?^`{|}~@-]+$/, 'must be letters, digits and . _ - @ without spaces or angle brackets')
        .optional()
        .describe('Id for references from the HTML body, as `cid:ID`.'),
      disposition: z
        .enum(['attachment', 'inline'], { error: 'must be attachment or inline' })
        .optional()
        .describe('Whether it is a separate file or displayed within the HTML body.'),
    })
    .superRefine(({ content, path }, context) => {
      if ((content === undefined) === (path === undefined))
        context.addIssue({
          code: 'custom',
          message: 'must have exactly one of "content" (base64) and "path" (HTTPS URL)',
          input: content,
        })
    })

/** A text that is null instead of blank. */
export const unlessBlank = (schema: z.ZodType<string, string>) =>
  schema.refine((value) => value.trim() !== '', 'must not be empty. Use null instead').nullable()

/** A name for a resource. */
export const name = () => visibleLine(255).refine((value) => value.trim() !== '', 'must not be empty')

/** The attribute `name` of a resource that its owner names. */
export const nameField = (example: string) =>
  field(name(), { create: 'required', update: true, sort: true, about: 'A name to recognise it by.', example })
