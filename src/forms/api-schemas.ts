// Schemas of the texts of a form. All of them are plain text, which pages and emails escape.
import { z } from 'zod'
import { hasControls, hidesInName } from '../base/clean-text.ts'
import { isObject } from '../base/json.ts'
import { languageTag, line, unlessBlank, visibleLine } from '../jsonapi/schemas.ts'
import type { AskedField, FormWords } from './versions.ts'

const MAX_LINE = 500
const MAX_LANGUAGES = 20
const MAX_ORIGINS = 20
/** Fields besides the email address and the name. */
const MAX_TEXTS = 3

/** Plain text of several lines. */
const paragraphs = (max: number) =>
  z
    .string('must be a string')
    .transform((text) => text.replaceAll('\r\n', '\n'))
    .pipe(
      z
        .string()
        .refine((text) => text.isWellFormed(), 'must be Unicode text without lone surrogates')
        .refine((text) => Array.from(text).length <= max, {
          message: `must be at most ${max} characters long`,
          params: { code: 'too_long' },
        })
        .refine((text) => text.split('\n').every((each) => !hasControls(each)), 'must not contain control characters')
        .refine((text) => !hidesInName(text), 'must not contain invisible characters or controls of the text direction')
        .refine(
          (text) => text.split('\n').every((each) => each.length <= MAX_LINE),
          `must not contain a line of more than ${MAX_LINE} characters`,
        )
        .refine((text) => text.trim() !== '', 'must not be empty. Use null instead')
        .meta({ maxLength: max }),
    )
    .nullable()

/** An address of the web or of email would be an advertisement in an email to somebody who may not have asked. */
const ADDRESS = /:\/\/|www\.|[^\s@]@[^\s@]/i
const withoutAddress = <S extends z.ZodType<string | null>>(schema: S) =>
  schema.refine((text) => text === null || !ADDRESS.test(text), 'must not contain a web or email address')

export const title = () => withoutAddress(unlessBlank(visibleLine(100, 'characters')))
export const intro = () => paragraphs(1000)
export const consentText = () => paragraphs(2000)
export const button = () => unlessBlank(visibleLine(40, 'characters'))
export const confirmNote = () => withoutAddress(paragraphs(300))
export const controller = () => unlessBlank(visibleLine(200, 'characters'))
export const singleReason = () =>
  unlessBlank(
    visibleLine(500, 'characters').refine((text) => text.trim().length >= 10, 'must have at least 10 characters'),
  )

const label = () => visibleLine(100, 'characters').refine((text) => text.trim() !== '', 'must not be empty')

const words = z.strictObject({
  title: visibleLine(100, 'characters')
    .refine((text) => text.trim() !== '', 'must not be empty')
    .refine((text) => !ADDRESS.test(text), 'must not contain a web or email address')
    .describe('Title.'),
  intro: intro().default(null).describe('Introduction. Null if absent.'),
  consent_text: consentText().default(null).describe('Text that people agree to.'),
  button: button().default(null).describe('Text of the button. If null, it is that of the server.'),
  labels: z
    .record(z.string(), label())
    .default({})
    .describe('Labels of fields by key. A field without one keeps its label.'),
})

/** The texts in other languages. z.record would leave out a member "__proto__". */
export const translations = () =>
  z
    .custom<Record<string, unknown>>(isObject, 'must be an object of texts by language')
    .meta({
      type: 'object',
      maxProperties: MAX_LANGUAGES,
      additionalProperties: z.toJSONSchema(words, { io: 'input' }),
    })
    .transform((given, context) => {
      const entries = Object.entries(given)
      if (entries.length > MAX_LANGUAGES)
        context.addIssue({ code: 'custom', message: `must contain at most ${MAX_LANGUAGES} languages`, input: given })
      return Object.fromEntries(
        entries.slice(0, MAX_LANGUAGES).map(([tag, value]): [string, FormWords] => {
          const [language, texts] = [languageTag().safeParse(tag), words.safeParse(value)]
          for (const { error } of [language, texts])
            for (const issue of error?.issues ?? []) context.addIssue({ ...issue, path: [tag, ...issue.path] } as never)
          return [language.data ?? tag, texts.data as FormWords]
        }),
      )
    })

/** Members that every object of JavaScript has: a value of such a key could be lost in an application. */
const RESERVED = ['__proto__', 'constructor', 'prototype']

const askedField = z
  .strictObject({
    key: z
      .string('must be a string')
      .regex(/^[a-z0-9_]{1,64}$/, 'must be 1 to 64 letters a to z, digits and underscores')
      .refine((key) => key !== 'email', 'must not be "email", for which every form has a field')
      .refine((key) => !RESERVED.includes(key), `must not be ${RESERVED.join(', ')}`)
      .describe('`name` for the name of the contact, otherwise the name of the custom field.'),
    label: label().nullable().default(null).describe('Label. Can be null only for `name`.'),
    required: z.boolean('must be true or false').default(false).describe('Whether it must be filled in.'),
  })
  .refine(({ key, label }) => label !== null || key === 'name', { message: 'is required', path: ['label'] })

/** The fields besides the email address. */
export const fields = () =>
  z
    .array(askedField, 'must be a list of fields')
    .max(MAX_TEXTS + 1, { error: `must contain at most ${MAX_TEXTS} fields and "name"` })
    .refine(
      (list) => list.filter(({ key }) => key !== 'name').length <= MAX_TEXTS,
      `must contain at most ${MAX_TEXTS} fields and "name"`,
    )
    .refine(
      (list) => new Set(list.map(({ key }) => key)).size === list.length,
      'must not contain the same key twice',
    ) satisfies z.ZodType<AskedField[]>

const LOCAL = /^http:\/\/(?:localhost|127\.0\.0\.1)(?::\d+)?$/
const isOrigin = (text: string): boolean => {
  const url = URL.parse(text)
  return url?.origin === text && (url.protocol === 'https:' || LOCAL.test(text))
}

/** The websites whose pages can contain the form. */
export const origins = () =>
  z
    .array(
      line(300).refine(isOrigin, 'must be an origin such as "https://www.example.org", without a path'),
      'must be a list of origins',
    )
    .max(MAX_ORIGINS, { error: `must contain at most ${MAX_ORIGINS} origins` })
    .transform((list) => [...new Set(list)])

/** A page of a website of the owner. */
export const pageUrl = () =>
  line(500)
    .refine((text) => {
      const url = URL.parse(text)
      return url !== null && isOrigin(url.origin) && url.username === '' && url.password === ''
    }, 'must be an https URL such as "https://www.example.org/thanks"')
    .nullable()

export const privacyUrl = () =>
  line(500)
    .refine(
      (text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''),
      'must be an https URL such as "https://www.example.org/privacy"',
    )
    .nullable()

export const slug = () =>
  z
    .string('must be a string')
    .regex(
      /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/,
      'must be 1 to 64 letters a to z, digits and hyphens, without a hyphen at the start or the end',
    )
