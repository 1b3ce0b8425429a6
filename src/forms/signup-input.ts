// What a form sends: its bytes become fields, and its fields a sign-up or errors for the page (AU12, AU16). Every text
// is bounded, and without control characters.
import type { Context } from 'hono'
import { SECOND, type Clock } from '../base/clock.ts'
import { forLine, forLines } from '../base/clean-text.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import { withBytes } from '../jsonapi/body.ts'
import type { Resolver } from '../net/resolver.ts'
import { hasManyFields } from '../views/html/fields.ts'
import { strangers, withinMost, type PlainPageDeps } from '../views/html/plain-page.ts'
import { controlOf, MAX_FIELD, MAX_MESSAGE, shownLabel, wordsOf, type FormError } from './hosted.ts'
import type { Typed } from './signup.ts'
import type { FormRow, FormTexts } from './versions.ts'

/** The most bytes of a body, and fields in it. */
const MAX_BODY = 16 * 1024
const MAX_FIELDS = 40
const BODY_TIME = 5 * SECOND
const MX_TIME = 3 * SECOND
const MAX_ADDRESS = 254

/** The first value of each field. Files are ignored. */
export type FormPost = ReadonlyMap<string, string>

export type PostRefusal = 408 | 413 | 415

/** Reads the fields of a public form, or returns the status of the refusal. */
export async function readPost(
  context: Context,
  deps: PlainPageDeps & { clock: Clock },
): Promise<FormPost | PostRefusal> {
  const { raw } = context.req
  const type = raw.headers.get('content-type') ?? ''
  if (!/^(?:application\/x-www-form-urlencoded|multipart\/form-data)\s*(?:;|$)/i.test(type)) return 415
  const reading = withinMost(withBytes(raw, strangers(context, deps, MAX_BODY), (bytes) => fieldsOf(bytes, type)))
  const read = await within(deps.clock, BODY_TIME, reading)
  return read === LATE ? 408 : (read ?? 413)
}

/** The fields of a body, or undefined if there are too many. A body in another format has no fields. */
export async function fieldsOf(bytes: Buffer<ArrayBuffer>, type: string): Promise<FormPost | undefined> {
  if (hasManyFields(bytes, type, MAX_FIELDS)) return undefined
  const fields = new Map<string, string>()
  const form = await new Response(bytes, { headers: { 'Content-Type': type } }).formData().catch(() => new FormData())
  for (const [name, value] of form as unknown as Iterable<[string, string | File]>)
    if (typeof value === 'string' && !fields.has(name)) fields.set(name, value)
  return fields
}

const LATE = Symbol('late')

/** The result of `work`, or `LATE` if it takes longer. */
async function within<T>(clock: Clock, time: number, work: Promise<T>): Promise<T | typeof LATE> {
  const late = Promise.withResolvers<typeof LATE>()
  const cancel = clock.wake(clock.now() + time, () => late.resolve(LATE))
  // A body that is cut after its time has passed rejects when its result is not awaited any more.
  work.catch(() => {})
  try {
    return await Promise.race([work, late.promise])
  } finally {
    cancel()
  }
}

/**
 * The address of a sign-up in the form of a contact's, or undefined if it is not one (AU16): only ASCII in its local
 * part, without quotes, at most 254 bytes, and a domain with a name.
 */
export function signupAddress(text: string): string | undefined {
  const trimmed = text.trim()
  const address = trimmed.length > MAX_ADDRESS ? undefined : contactAddress(trimmed)
  const isUsual = address !== undefined && /^[!#-~]{1,254}$/.test(address) && !/@.*[[\]:]|\.\d+$/.test(address)
  return isUsual ? address : undefined
}

/** Whether the domain of an address does not exist or accepts no email. Without an answer in time it is assumed to. */
export async function isUnreachable(
  { clock, resolver }: { clock: Clock; resolver: Pick<Resolver, 'mx'> },
  address: string,
): Promise<boolean> {
  const domain = address.slice(address.lastIndexOf('@') + 1)
  const answer = await within(clock, MX_TIME, resolver.mx(domain))
  if (answer === LATE) return false
  return (
    answer.kind === 'nxdomain' ||
    (answer.kind === 'found' && answer.records.every(({ exchange }) => exchange === '' || exchange === '.'))
  )
}

export interface FormInput {
  email: string
  typed: Typed
  /** The text of a contact form. */
  message: string
}

/** Checks what was typed. The errors name the controls of the form. */
export function inputOf(
  posted: FormPost,
  form: Pick<FormRow, 'audience_key'>,
  { language, texts }: { texts: FormTexts; language: string },
): { errors: FormError[]; input: FormInput } {
  const { t } = wordsOf(language)
  const errors: FormError[] = []
  const given = posted.get('email')?.trim() ?? ''
  const email = signupAddress(given)
  if (email === undefined)
    errors.push({ field: 'email', detail: t(given === '' ? 'error_email_missing' : 'error_email_wrong') })
  const { errors: wrong, typed } = typedOf(posted, texts, language)
  errors.push(...wrong)
  const message = forLines((posted.get('message') ?? '').replace(/\r\n?/g, '\n')).trim()
  const isContact = form.audience_key === null
  if (isContact)
    errors.push(...textErrors(message, { name: 'message', label: t('message_label') }, language, MAX_MESSAGE))
  else if (texts.consent_checkbox && !posted.get('consent'))
    errors.push({ field: 'consent', detail: t('error_consent') })
  return { errors, input: { email: email ?? '', typed, message: isContact ? message : '' } }
}

/** The value of a field as it is stored. */
export const typedLine = (text: string): string => forLines(forLine(text))

/** The name and the fields that a form or a confirmation page shows, cleaned. */
export function typedOf(posted: FormPost, texts: FormTexts, language: string): { errors: FormError[]; typed: Typed } {
  const errors: FormError[] = []
  const fields: Record<string, string> = {}
  let name: string | null = null
  for (const field of texts.fields) {
    const value = typedLine(posted.get(controlOf(field)) ?? '')
    const shown = { name: controlOf(field), label: shownLabel(texts, field, language) }
    errors.push(...textErrors(value, shown, language, MAX_FIELD, field.required))
    if (value === '') continue
    if (field.key === 'name') name = value
    else fields[field.key] = value
  }
  return { errors, typed: { name, fields } }
}

function textErrors(
  value: string,
  { label, name }: { name: string; label: string },
  language: string,
  most: number,
  required = true,
): FormError[] {
  const { t } = wordsOf(language)
  if (value === '') return required ? [{ field: name, detail: t('error_missing', { field: label }) }] : []
  return value.length > most ? [{ field: name, detail: t('error_long', { field: label, count: most }) }] : []
}
