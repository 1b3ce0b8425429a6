// Schemas of values that several resources have. A message continues the attribute's name: "subject" must be …
import { z } from 'zod'
import { hasControls } from '../base/clean-text.ts'
import { parseAddress } from '../message/address.ts'
import { headerFault, MAX_HEADERS } from '../message/custom-headers.ts'
import { field } from './resource.ts'

const octets = (text: string): number => Buffer.byteLength(text)
const code = (name: string) => ({ params: { code: name } })

/** Text of one line: no control characters, at most `max` octets or characters. */
export const line = (max: number, unit: 'octets' | 'characters' = 'octets') =>
  z
    .string('must be a string')
    .refine((text) => text.isWellFormed(), 'must be Unicode text without lone surrogates')
    .refine((text) => !hasControls(text), 'must not contain line breaks or control characters')
    .refine((text) => (unit === 'octets' ? octets(text) : Array.from(text).length) <= max, {
      message: `must be at most ${max} ${unit} long`,
      ...code('too_long'),
    })
    .meta({ maxLength: max })

/** Free text of any number of lines, at most `max` octets. */
export const text = (max: number) =>
  z
    .string('must be a string')
    .refine((value) => value.isWellFormed(), 'must be Unicode text without lone surrogates')
    .refine((value) => !value.includes('\0'), 'must be text without NUL')
    .refine((value) => octets(value) <= max, { message: `must be at most ${max} octets long`, ...code('too_long') })
    .meta({ maxLength: max })

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
  z.union([address(), z.array(address()).max(max, { error: `must hold at most ${max} addresses` })], {
    error: 'must be an email address or a list of email addresses',
  })

/** Custom header fields as name and value pairs; each problem names its field. */
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
        context.addIssue({ code: 'custom', message: `must hold at most ${MAX_HEADERS} headers`, input: fields })
      const seen = new Set<string>()
      for (const [name, value] of entries) {
        const repeated = seen.has(name.toLowerCase()) && {
          code: 'invalid',
          message: 'is given more than once; names compare without case',
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

/** Strict base64 (RFC 4648 §4). Checked without decoding: an attachment may have 40 MB. */
export const base64 = z
  .string('must be a string')
  .refine((text) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text), 'must be base64')

/** A media type with its parameters (RFC 2045 §5.1), but no file name: only the attribute `filename` sets it. */
const MEDIA_TYPE = /^[\w.+-]+\/[\w.+-]+(?: *; *(?!(?:file)?name=)[\w-]+=(?:[\w.+-]+|"[\x20!#-[\]-~]*"))*$/i

/** One attachment: inline or by URL, exactly one of the two. */
export const attachment = () =>
  z
    .strictObject({
      content: base64.optional().describe('The file as base64; this or `path`.'),
      path: line(2000).optional().describe('An https URL that the file is fetched from before the answer.'),
      filename: line(255)
        .refine((name) => name.trim() !== '' && !/[/\\]/.test(name), 'must be a file name without a path')
        .describe('Its name, without a path.'),
      content_type: line(127)
        .regex(MEDIA_TYPE, 'must be a media type such as "application/pdf" or "text/calendar; method=REQUEST"')
        .optional()
        .describe('Its media type; found out from the file when absent.'),
      content_id: line(78)
        .regex(/^[\w.!#$%&'*+/=?^`{|}~@-]+$/, 'must be letters, digits and . _ - @ without spaces or angle brackets')
        .optional()
        .describe('What the HTML names it by, as cid:ID.'),
      disposition: z
        .enum(['attachment', 'inline'], { error: 'must be attachment or inline' })
        .optional()
        .describe('A file, or a part of the HTML.'),
    })
    .superRefine(({ content, path }, context) => {
      if ((content === undefined) === (path === undefined))
        context.addIssue({
          code: 'custom',
          message: 'must have exactly one of "content" (base64) and "path" (https URL)',
          input: content,
        })
    })

/** A name for a resource. */
export const name = () => line(255).refine((value) => value.trim() !== '', 'must not be empty')

/** The attribute `name` of a resource that its owner names. */
export const nameField = (example: string) =>
  field(name(), { create: 'required', update: true, sort: true, about: 'What you call it.', example })
