// The actions on a resource: a button or a form, its question, the request to the API, and the confirmation.
import { html } from 'hono/html'
import type { Resource } from '../jsonapi/resource.ts'
import { button, dangers, form } from './html/forms.ts'
import type { Form } from './html/place.ts'
import { text, type Answer, type Labels, type Thing, type Visit } from './html/visit.ts'
import type { Cell, Html } from './html/widgets.ts'
import { fieldsShown, labelsOf, valuesOf, type FormFields, type Refused } from './form.ts'

type PerOne<R extends Resource, Value> = Value | ((one: Thing<R>) => Value)

export interface ActionView<R extends Resource> {
  label: PerOne<R, string>
  /** Whether the button is displayed for this resource. */
  when?: (one: Thing<R>, visit: Visit) => boolean
  confirm?: PerOne<R, string>
  /** The consequence of an action in the danger zone, or true to use the question. */
  danger?: true | Cell
  /** It deletes the resource: its button is red, and the list confirms it. */
  deletes?: true
  /** The style of its button, if it is not that of other buttons or forms. */
  look?: 'danger' | 'plain'
  /** The fields of a form. Without them, the action is only a button. */
  fields?: FormFields
  /** Returns errors of the form that the API does not check. */
  check?: (visit: Visit, given: Form) => Promise<Answer['errors']>
  /**
   * The request to the API: the last part of the path of a POST, the attributes of an update, or a method, its path (if
   * it is not that of the resource) and attributes. Absent for an update with the fields, or without fields for a
   * DELETE.
   */
  ask?:
    | string
    | { attributes: Readonly<Record<string, unknown>> }
    | ((
        one: Thing<R>,
        given: Form,
      ) => { method: string; path?: string; type?: string; attributes?: Record<string, unknown> })
  /** Confirms the action. `after`: the resource in the answer. */
  said: string | ((one: Thing<R>, given: Form, after: Thing<R>) => string)
  /** The answer has a secret, which the page displays once. */
  secret?: true
}

export type Actions<R extends Resource> = Readonly<Record<string, ActionView<R>>>

const of = <R extends Resource, Value>(value: PerOne<R, Value>, one: Thing<R>): Value =>
  typeof value === 'function' ? (value as (one: Thing<R>) => Value)(one) : value

/** Returns the button of an action, or '' if it is not for this resource. `fields` go with the form. */
export function actionButton<R extends Resource>(
  visit: Visit,
  actions: Actions<R>,
  name: string,
  one: Thing<R>,
  { to, fields = {} }: { to?: string; fields?: Record<string, string> } = {},
): Html | '' {
  const action = actions[name]
  if (!action || action.when?.(one, visit) === false) return ''
  return button(visit, name, of(action.label, one), {
    ...(to === undefined ? {} : { to }),
    // On a list, the form names the row.
    fields: to === undefined ? { id: one.id, ...fields } : fields,
    ...(action.confirm === undefined ? {} : { confirm: of(action.confirm, one) }),
    ...((action.deletes || action.look === 'danger') && { danger: true }),
  })
}

/** Returns the form of an action, or '' if it is not for this resource or the user cannot change anything. */
export async function actionForm<R extends Resource>(
  visit: Visit,
  actions: Actions<R>,
  name: string,
  { one, to, ...refused }: Refused & { one?: Thing<R>; to?: string },
): Promise<Html | ''> {
  const action = actions[name]
  const thing = one ?? ({} as Thing<R>)
  if (!action?.fields || visit.reading || (one && action.when?.(one, visit) === false)) return ''
  const { confirm, fields, look } = action
  // Several forms of a page can have a field of the same name.
  const own = refused.typed?.action === name ? refused : {}
  return form(
    visit,
    name,
    html`${await fieldsShown(visit, fields, own)}<button ${look ? html`class="${look}"` : ''}>
        ${of(action.label, thing)}
      </button>`,
    { ...(to === undefined ? {} : { to }), ...(confirm === undefined ? {} : { confirm: of(confirm, thing) }) },
  )
}

/** The labels of the fields of an action, for the errors above the page. */
export const labelsIn = <R extends Resource>(actions: Actions<R>, name: string | undefined): Labels =>
  labelsOf(actions[name ?? '']?.fields ?? {})

/** The danger zone with the actions that have a consequence. */
export const dangerZone = <R extends Resource>(
  visit: Visit,
  actions: Actions<R>,
  one: Thing<R>,
  to?: string,
): Html | '' =>
  dangers(
    visit,
    Object.entries(actions)
      .filter(([, { danger, when }]) => danger !== undefined && when?.(one, visit) !== false)
      .map(([name, { confirm = '', danger }]) => [
        danger === true || danger === undefined ? of(confirm, one) : danger,
        actionButton(visit, actions, name, one, to === undefined ? {} : { to }),
      ]),
  )

/** The path of a resource in the API. */
export const pathTo = ({ self, type }: Pick<Resource, 'self' | 'type'>, id: string): string =>
  (self ?? `/${type}/:id`).replace(/:\w+/, () => encodeURIComponent(id))

/** The resource of an action with its path in the API, the form, and the paths of the page and of its list. */
interface ActedOn<R extends Resource> {
  one: Thing<R>
  path: string
  given: Form
  here: string
  list: string
}

/** The request of an action to the API. */
export function requestOf<R extends Resource>(
  { ask, fields }: Pick<ActionView<R>, 'ask' | 'fields'>,
  { given, one, path }: Pick<ActedOn<R>, 'given' | 'one' | 'path'>,
) {
  const { attributes, ...asked } = {
    method: typeof ask === 'string' ? 'POST' : ask === undefined && !fields ? 'DELETE' : 'PATCH',
    path: typeof ask === 'string' ? `${path}/${ask}` : path,
    type: one.type,
    ...(ask === undefined && fields && { attributes: valuesOf(fields, given) }),
    ...(typeof ask === 'function' ? ask(one, given) : typeof ask === 'object' && ask),
  } as { method: string; path: string; type: string; attributes?: Record<string, unknown> }
  const id = asked.method === 'PATCH' ? { id: one.id } : {}
  return { ...asked, document: attributes && { type: asked.type, ...id, attributes } }
}

/** Performs the action of a form. `again` shows the page with the errors of the API. */
export async function performAction<R extends Resource>(
  visit: Visit,
  action: ActionView<R>,
  about: ActedOn<R>,
  again: (errors: Answer['errors']) => Response | Promise<Response>,
): Promise<Response> {
  const { check, deletes, said, secret } = action
  const { given, here, list, one } = about
  const wrong = (await check?.(visit, given)) ?? []
  if (wrong.length > 0) return again(wrong)
  const { document, method, path } = requestOf(action, about)
  const answer = await visit.ask(method, path, document)
  if (answer.errors.length > 0) return again(answer.errors)
  if (secret && answer.one) return visit.leadToSecret(here, text(answer.one as Thing, 'secret' as never))
  const after = answer.one?.type === one.type ? (answer.one as Thing<R>) : one
  return visit.say(deletes ? list : here, typeof said === 'function' ? said(one, given, after) : said)
}
