// Forms that create a resource. A field is declared once, by the name of its attribute or relationship: the description
// of the resource defines whether it is required, and the API's error about it is displayed next to it.
import { html } from 'hono/html'
import type { Resource } from '../jsonapi/resource.ts'
import { page, type Page } from './html/frame.ts'
import { fieldMaker, form, type FormField } from './html/forms.ts'
import type { Form, Place } from './html/place.ts'
import { faultIn, thingOf, type Answer, type Labels, type Thing, type Visit } from './html/visit.ts'
import type { Html } from './html/widgets.ts'

/** A field of a form: an input, or other controls. `read` returns its value from the form. */
type FieldView = Omit<FormField, 'name' | 'error'> & {
  /** The heading above the first field of a section. */
  section?: string
  show?: (typed: Form | undefined, error: string | undefined) => Html
  read?: (given: Form) => unknown
}

/** The fields of a form by the names of their attributes or relationships. */
export type FormFields = Readonly<Record<string, FieldView>>

export interface FormView<R extends Resource> extends Pick<Page, 'about' | 'crumbs' | 'title' | 'status'> {
  of: R
  fields: FormFields
  button: string
  /** The path of the API, if it is not the type of the resource. */
  path?: string
  /** The answer of the console to a form that was accepted. */
  done: (visit: Visit, one: Thing<R>, given: Form) => Response | Promise<Response>
}

/** A form as it was refused: the errors of the API, and the typed values. */
export interface Refused {
  errors?: Answer['errors']
  typed?: Form | undefined
}

const isRequired = ({ attributes, relationships }: Resource, name: string): boolean =>
  attributes[name]?.create === 'required' ||
  (relationships?.[name]?.create === true && relationships[name].optional !== true)

/** The choice of no resource. */
const NONE = [['', 'None']] as const

export const labelsOf = (fields: FormFields): Labels =>
  Object.fromEntries(Object.entries(fields).map(([name, { label }]) => [name, label]))

/** The fields of a form, empty or as they were refused. `of`: the resource that the form creates. */
export async function fieldsShown(
  visit: Visit,
  fields: FormFields,
  { errors = [], typed }: Refused,
  of?: Resource,
): Promise<Html[]> {
  const labels = labelsOf(fields)
  const entry = fieldMaker(labels, errors, typed)
  const fault = faultIn(errors, labels)
  return Promise.all(
    Object.entries(fields).map(async ([name, field]) => {
      const { label: _label, read: _read, section, show, ...more } = field
      const heading = section === undefined ? '' : html`<h3>${section}</h3>`
      if (show) return html`${heading}${show(typed, fault(name))}`
      const related = of?.relationships?.[name]
      const options = related
        ? {
            options: [
              ...(related.optional ? NONE : []),
              ...(await visit.names(`/${related.type === 'domains' ? 'sender-domains' : related.type}`)),
            ],
          }
        : {}
      const required = of && isRequired(of, name) ? { required: true as const } : {}
      return html`${heading}${entry(name, { ...more, ...options, ...required })}`
    }),
  )
}

/** Fields that change a resource: with their stored values. An empty one is null if the attribute can be null. */
export const storedFields = (of: Resource, { attributes }: Thing, fields: FormFields): FormFields =>
  Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const stored = attributes[name]
      const value = typeof stored === 'string' ? stored : ''
      const read = (given: Form) => given.get(name).trim() || null
      return [name, { value, ...(of.attributes[name]?.schema.safeParse(null).success && { read }), ...field }]
    }),
  )

/** The page of a form, empty or as it was refused. */
async function showForm<R extends Resource>(visit: Visit, view: FormView<R>, refused: Refused = {}): Promise<Response> {
  const { button, done: _, fields, of, status, ...head } = view
  const { errors = [] } = refused
  return page(visit, {
    ...head,
    errors,
    labels: labelsOf(fields),
    ...(errors.length > 0 && status && { status }),
    body: form(visit, 'add', html`${await fieldsShown(visit, fields, refused, of)} <button>${button}</button>`),
  })
}

/** The typed values of a form by the names of their fields. */
export const valuesOf = (fields: FormFields, given: Form): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(fields).map(([name, { read }]) => [name, read ? read(given) : given.get(name).trim()]),
  )

/** Creates the resource that a form describes, or shows the form again with the errors of the API. */
async function sendForm<R extends Resource>(visit: Visit, view: FormView<R>, given: Form): Promise<Response> {
  const { type } = view.of
  const attributes: Record<string, unknown> = {}
  const relationships: Record<string, object> = {}
  for (const [name, value] of Object.entries(valuesOf(view.fields, given))) {
    const related = view.of.relationships?.[name]
    if (related) {
      if (value !== '' || isRequired(view.of, name)) relationships[name] = { data: { type: related.type, id: value } }
    } else if (value !== '' || isRequired(view.of, name)) attributes[name] = value
  }
  const answer = await visit.ask('POST', view.path ?? `/${type}`, { type, attributes, relationships })
  return answer.one
    ? view.done(visit, thingOf(view.of, answer.one), given)
    : showForm(visit, view, { errors: answer.errors, typed: given })
}

/** The console page of a form. */
export const formPlace = <R extends Resource>(
  path: string,
  viewOf: (visit: Visit) => FormView<R> | Promise<FormView<R>>,
  rights: Pick<Place, 'operator'> = {},
): Place => ({
  path,
  ...rights,
  changes: true,
  show: async (visit) => showForm(visit, await viewOf(visit)),
  act: async (visit, given) => sendForm(visit, await viewOf(visit), given),
})
