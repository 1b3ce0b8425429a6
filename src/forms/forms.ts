// Forms: by a form people subscribe to an audience, or write to an inbox. The owner's changes and the move of one
// request are one transaction, which also writes the version that people see from then on.
import type { Clock } from '../base/clock.ts'
import { must, refuse, refuseAttribute, Refusal, type Problem } from '../base/errors.ts'
import { newId, someRandom } from '../base/ids.ts'
import { textsOf } from '../base/json.ts'
import { listed, strangers } from '../mail/accept/admit.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { move } from '../store/move.ts'
import { db, raw, statement } from '../store/query.ts'
import { formMachine, type FormMove, type FormStatus } from '../store/states/form.ts'
import { textsOfForm, writeVersion, type AskedField, type FormRow, type FormWords } from './versions.ts'

export type { FormRow } from './versions.ts'

export interface FormDeps {
  store: Store
  clock: Clock
}

/** The forms of an account. */
const MOST = 100

/** Where a form leads: exactly one of an audience and an inbox. */
export interface FormTarget {
  user_key: number
  domain_key: number
  audience_key: number | null
  inbox_key: number | null
}

type Encoded = 'consent_checkbox' | 'fields' | 'origins' | 'translations'

export type FormContent = { [Name in Exclude<keyof FormRow, Encoded>]?: FormRow[Name] | undefined } & {
  consent_checkbox?: boolean | undefined
  translations?: Readonly<Record<string, FormWords>> | undefined
  fields?: readonly AskedField[] | undefined
  origins?: readonly string[] | undefined
}

/** The given members as columns of the table. */
function columns({ consent_checkbox, fields, origins, translations, ...rest }: FormContent): Partial<FormRow> {
  const plain = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as Partial<FormRow>
  return {
    ...plain,
    ...(consent_checkbox !== undefined && { consent_checkbox: consent_checkbox ? 1 : 0 }),
    ...(fields && { fields: JSON.stringify(fields) }),
    ...(origins && { origins: JSON.stringify(origins) }),
    ...(translations && { translations: JSON.stringify(translations) }),
  }
}

/** Creates a draft. Throws 422 if the slug is taken, or if the account has too many forms. */
export function addForm(
  { clock, store }: FormDeps,
  target: FormTarget,
  { slug, ...given }: FormContent & { name: string; slug?: string | undefined },
  by: string,
): Promise<FormRow> {
  return store.write((tx) => {
    const now = clock.now()
    refuseMore(tx, target.user_key)
    const form = tx.one(
      db
        .insertInto('forms')
        .values({
          id: newId(now),
          ...target,
          opt_in: 'double',
          consent_checkbox: 0,
          translations: '{}',
          fields: '[]',
          origins: '[]',
          language: languageOf(tx, target),
          ...columns(given),
          name: given.name,
          slug: freeSlug(tx, given.name, slug),
          status: 'draft',
          // Robots fill in every field, and browsers fill in fields whose names they know.
          honeypot: `website_${someRandom(4).toString('hex')}`,
          version: 1,
          requested_count: 0,
          confirmed_count: 0,
          refused_count: 0,
          expired_count: 0,
          stopped_count: 0,
          status_at: now,
          created_at: now,
          updated_at: now,
        })
        .returningAll(),
    )
    check(tx, form)
    writeVersion(tx, form, by, now)
    return form
  })
}

function refuseMore(reader: Reader, userKey: number): void {
  const { count } = reader.one(
    raw<{ count: number }>('select count(*) as count from forms where user_key = ? and deleted_at is null', [userKey]),
  )
  if (count < MOST) return
  throw refuse('limit_reached', `The account has ${count} forms, which is the limit. Delete a form first.`)
}

/** The language of a form that names none: that of the subscribers. */
const languageOf = (reader: Reader, { audience_key }: FormTarget): string =>
  (audience_key === null
    ? undefined
    : reader.first(db.selectFrom('audiences').select('language').where('key', '=', audience_key))?.language) ?? 'en'

/**
 * The given slug, or one made of the name. A slug is never given to another form, even if its form was deleted: other
 * websites may still contain the form.
 */
function freeSlug(reader: Reader, name: string, given: string | undefined): string {
  const isTaken = (slug: string): boolean =>
    reader.first(db.selectFrom('forms').select('key').where('slug', '=', slug)) !== undefined
  if (given !== undefined) {
    if (isTaken(given))
      throw refuseAttribute('already_exists', 'slug', `"slug" ${given} is taken. Choose another one, or leave it out.`)
    return given
  }
  const plain = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}+/gu, '')
  const words = plain.split(/[^a-z0-9]+/).filter(Boolean)
  const slug = words.join('-').slice(0, 40).replace(/-$/, '')
  const other = (): string => `${slug || 'form'}-${someRandom(4).toString('hex')}`
  return slug !== '' && !isTaken(slug) ? slug : other()
}

export type FormChange = FormContent & { status?: FormStatus | undefined }

/** Changes and moves a form. Throws 422 for moves that are not in the table, and for a form that cannot be open. */
export function changeForm(
  { clock, store }: FormDeps,
  key: number,
  { status, ...edits }: FormChange,
  by: string,
): Promise<FormRow> {
  return store.write((tx) => {
    const now = clock.now()
    const before = must(formByKey(tx, key), 'The form')
    const after = { ...before, ...columns(edits) }
    check(tx, after)
    const version = writeVersion(tx, after, by, now)
    tx.run(
      db
        .updateTable('forms')
        .set({ ...columns(edits), version, updated_at: now })
        .where('key', '=', key),
    )
    if (status !== undefined) moveByOwner(tx, { ...after, version }, status, now)
    return must(formByKey(tx, key), 'The form')
  })
}

/** The move that the owner requests with a status, or undefined if the table has none. */
export const ownersFormMove = (from: FormStatus, to: FormStatus): FormMove | undefined =>
  formMachine.rows.find((row) => row.from === from && row.to === to && row.by === 'owner')?.on

function moveByOwner(tx: Tx, form: FormRow, to: FormStatus, now: number): void {
  const on = ownersFormMove(form.status, to)
  if (!on) {
    const possible = formMachine.rows.filter(({ by, from }) => from === form.status && by === 'owner')
    throw refuseAttribute(
      'transition_not_allowed',
      'status',
      `A form with the status ${form.status} cannot be set to ${to}. Possible: ${possible.map((row) => row.to).join(', ')}.`,
    )
  }
  if (on === 'open') requireReady(tx, form)
  moveForm(tx, form, on, now)
}

/**
 * Moves a form by its table, and writes the event. `reason`: why it is paused automatically. Returns false if the table
 * has no such move.
 */
export function moveForm(
  tx: Tx,
  { domain_key, id, key, name, user_key }: FormRow,
  on: FormMove,
  now: number,
  reason: string | null = null,
): boolean {
  const row = move(tx, formMachine, key, on, { paused_reason: reason, status_at: now, updated_at: now })
  if (row?.emits)
    appendEvent(tx, {
      type: row.emits,
      user_key,
      domain_key,
      data: { form_id: id, form_name: name, reason },
      at: now,
    })
  return row !== undefined
}

/** A problem of an attribute. `path`: the part of it, by JSON Pointer. */
const problem = (code: 'required' | 'invalid', path: string, detail: string): Problem => ({
  code,
  detail,
  source: { pointer: `/data/attributes/${path}` },
})
const missing = (name: keyof FormRow, why: string): Problem => problem('required', name, `"${name}" is missing. ${why}`)

/** What people must see on a form that is open. */
function absent(form: FormRow): Problem[] {
  const agreed = 'Set the text that people agree to.'
  const needed = {
    title: 'Set the title that people see.',
    ...(form.audience_key !== null && { consent_text: agreed }),
    controller: 'Set who is responsible for the data.',
    privacy_url: 'Set the URL of your privacy notice.',
  }
  const untranslated = Object.entries(textsOfForm(form).languages)
    .filter(([tag, words]) => tag !== form.language && form.audience_key !== null && words.consent_text === null)
    .map(([tag]) => {
      const detail = `"consent_text" is missing in the translation "${tag}". ${agreed}`
      return problem('required', `translations/${tag}/consent_text`, detail)
    })
  const own = Object.entries(needed).map(([name, why]) => [name as keyof typeof needed, why] as const)
  return [...own.filter(([name]) => form[name] === null).map(([name, why]) => missing(name, why)), ...untranslated]
}

/** Throws 422 if a form cannot be opened. */
function requireReady(reader: Reader, form: FormRow): void {
  const problems = absent(form)
  if (problems.length > 0) throw new Refusal(problems)
  const deleted = deletedTarget(reader, form)
  if (deleted !== undefined) throw refuseAttribute('invalid', 'status', deleted)
  const { name, status } = reader.one(
    db.selectFrom('domains').select(['name', 'status']).where('key', '=', form.domain_key),
  )
  if (status !== 'active')
    throw refuseAttribute(
      'domain_not_active',
      'status',
      `The domain ${name} is ${status}, not active. Publish its DNS records and wait until they are verified.`,
    )
}

/** Checks that need the whole form. Throws 422. */
function check(reader: Reader, form: FormRow): void {
  const { name: domain } = reader.one(db.selectFrom('domains').select('name').where('key', '=', form.domain_key))
  const { fields, languages } = textsOfForm(form)
  const origins = textsOf(form.origins)
  const problems: Problem[] = [
    ...strangers(domain, [...listed('from_address', form.from_address), ...listed('reply_to', form.reply_to)]),
    ...(form.status === 'draft' ? [] : absent(form)),
  ]
  if (form.opt_in === 'single' && form.single_reason === null)
    problems.push(missing('single_reason', 'Say why people are subscribed without a confirmation.'))
  for (const name of ['requested_url', 'confirmed_url'] as const)
    if (form[name] !== null && !origins.includes(new URL(form[name]).origin))
      problems.push(
        problem(
          'invalid',
          name,
          `"${name}" must be on one of the "origins". Add ${new URL(form[name]).origin} to them.`,
        ),
      )
  if ((form.welcome_subject === null) !== (form.welcome_html === null))
    problems.push(
      missing(
        form.welcome_html === null ? 'welcome_html' : 'welcome_subject',
        'A welcome email has a subject and a body.',
      ),
    )
  if (Object.hasOwn(JSON.parse(form.translations) as object, form.language))
    problems.push(
      problem(
        'invalid',
        'translations',
        `"translations" must not contain "${form.language}", the language of the form.`,
      ),
    )
  const keys = new Set(fields.map(({ key }) => key))
  for (const [tag, { labels }] of Object.entries(languages))
    for (const key of Object.keys(labels).filter((each) => !keys.has(each))) {
      const detail = `"${key}" is not a key of "fields". Remove its label.`
      problems.push(problem('invalid', `translations/${tag}/labels/${key}`, detail))
    }
  if (problems.length > 0) throw new Refusal(problems)
}

/** The signal of a commit that removes a form. */
export const FORM_REMOVED = 'form removed'

/** Deletes a form. Its versions stay, because consents name them, and its slug is not given to another form. */
export function removeForm({ clock, store }: FormDeps, key: number): Promise<void> {
  const now = clock.now()
  return store.write((tx) => {
    const form = formByKey(tx, key)
    if (form) moveForm(tx, form, 'close', now)
    tx.run(db.updateTable('forms').set({ deleted_at: now, updated_at: now }).where('key', '=', key))
    tx.signal(FORM_REMOVED)
  })
}

const bySlug = statement<{ slug: string }>()((arg) =>
  db.selectFrom('forms').selectAll().where('slug', '=', arg.slug).where('deleted_at', 'is', null),
)

/** A form that is not deleted, by the last part of its URL. */
export const formBySlug = (reader: Reader, slug: string): FormRow | undefined => reader.first(bySlug({ slug }))

const byKey = statement<{ key: number }>()((arg) => db.selectFrom('forms').selectAll().where('key', '=', arg.key))

/** A form by its key, even if it is deleted. */
export const formByKey = (reader: Reader, key: number): FormRow | undefined => reader.first(byKey({ key }))

/**
 * Whether people can use a form. That of a paused form looks as if it were open, so that its visitors learn nothing.
 */
export const isAvailable = ({ status }: FormRow): boolean => status === 'open' || status === 'paused'

/** Says that the domain, the audience or the inbox of a form was deleted, or returns undefined. */
export function deletedTarget(reader: Reader, form: FormRow): string | undefined {
  const { audience_key, domain_key, inbox_key } = form
  const deleted = reader.first(
    raw<{ target: string }>(
      `select 'domain ' || name as target from domains where key = ? and deleted_at is not null
       union all select 'audience ' || name from audiences where key = ? and deleted_at is not null
       union all select 'inbox ' || address from inboxes where key = ? and deleted_at is not null`,
      [domain_key, audience_key, inbox_key],
    ),
  )
  return deleted && `The ${deleted.target} of the form was deleted. Create another form.`
}
