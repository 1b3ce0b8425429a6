// The pages of a resource: its list with the form of a new one, and the page of one with its actions.
import { html } from 'hono/html'
import type { Resource } from '../jsonapi/resource.ts'
import { page } from './html/frame.ts'
import { done, found, type Form, type Place } from './html/place.ts'
import { text, type Answer, type Thing, type Visit } from './html/visit.ts'
import type { Cell, Html } from './html/widgets.ts'
import { actionButton, actionForm, dangerZone, labelsIn, pathTo, performAction, type Actions } from './actions.ts'
import { performBulk, type Bulk } from './bulk.ts'
import { formPlace, type FormView, type Refused } from './form.ts'
import { listOf, type ListView } from './list.ts'

type Now<Value> = Value | Promise<Value>

interface AddLink {
  label?: string
  domain?: true
}

export interface ResourceList<R extends Resource, New extends Resource> extends Pick<Place, 'operator'> {
  path: string
  title: string
  about: string
  list: (visit: Visit) => Now<ListView<R>>
  /** The label of the link to the form of a new resource. `domain`: it needs a sending domain, so that comes first. */
  add?: AddLink
  /** The form of a new resource, at PATH/new. */
  form?: FormView<New> | ((visit: Visit) => FormView<New>)
  /** The actions on a row. A form names it in the field `id`, and the resource has no attributes then. */
  actions?: Actions<R>
  bulk?: (visit: Visit) => Bulk<R>
  /** Links at the head of the page. */
  head?: (visit: Visit) => Now<Cell>
  above?: (shown: ShownList<R>) => Now<Cell>
  below?: (shown: ShownList<R>) => Now<Cell>
}

/** A page of a list while it is displayed. */
export interface ShownList<R extends Resource> {
  visit: Visit
  answer: Answer<R>
  /** Returns the form of an action, or '' if the user cannot change anything. */
  form: (name: string) => Promise<Html | ''>
}

/** The link to the form of a new resource or, without a domain, to the form that adds one. */
async function addLinks(
  visit: Visit,
  { path }: { path: string },
  { domain, label }: AddLink,
): Promise<{ head: Html | ''; empty: Html | '' }> {
  if (visit.reading) return { head: '', empty: '' }
  if (domain && (await visit.names('/sender-domains')).length === 0)
    return {
      head: '',
      empty: visit.opens('/domains', true)
        ? html`<a class="button" href="/domains/new">Add a domain first</a>`
        : html`<p>Ask an owner of the account to add a domain first.</p>`,
    }
  if (label === undefined) return { head: '', empty: '' }
  const link = html`<a class="button" href="${path}/new">${label}</a>`
  return { head: link, empty: link }
}

export async function showList<R extends Resource, New extends Resource>(
  visit: Visit,
  given: ResourceList<R, New>,
  { above, ...refused }: Refused & { above?: Html } = {},
): Promise<Response> {
  const { actions = {} } = given
  const view = await given.list(visit)
  const add = given.add ? await addLinks(visit, given, given.add) : { head: '', empty: '' }
  const empty = given.add
    ? html`<p>${view.empty}</p>
        ${add.empty}`
    : view.empty
  const { answer, body } = await listOf(visit, { ...view, empty, ...(given.bulk && { bulk: given.bulk(visit) }) })
  const head = (await given.head?.(visit)) ?? ''
  const shown = { visit, answer, form: (name: string) => actionForm(visit, actions, name, refused) }
  return page(visit, {
    title: given.title,
    about: given.about,
    actions: head === '' ? add.head : html`${head} ${add.head}`,
    errors: refused.errors ?? [],
    labels: labelsIn(actions, refused.typed?.action),
    done: done(visit),
    body: html`${above ?? (await given.above?.(shown)) ?? ''} ${body} ${(await given.below?.(shown)) ?? ''}`,
  })
}

/** The list of a resource, and the form of a new one. */
export function listPlaces<R extends Resource, New extends Resource = R>(given: ResourceList<R, New>): Place[] {
  const { actions = {}, form, operator, path } = given
  const rights = operator ? { operator } : {}
  const act = async (visit: Visit, sent: Form): Promise<Response> => {
    if (sent.action === 'bulk' && given.bulk)
      return performBulk(visit, given.bulk(visit), sent, (errors) => showList(visit, given, { errors }))
    const action = actions[sent.action]
    if (!action) return showList(visit, given)
    const one = { type: '', id: sent.get('id'), attributes: {} } as unknown as Thing<R>
    const { of } = await given.list(visit)
    const about = { given: sent, here: path, list: path, one, path: pathTo(of, one.id) }
    return performAction(visit, action, about, (errors) => showList(visit, given, { errors, typed: sent }))
  }
  const place: Place = {
    path,
    ...rights,
    show: (visit) => showList(visit, given),
    ...((given.actions || given.bulk) && { act }),
  }
  if (!form) return [place]
  const viewOf = typeof form === 'function' ? form : () => form
  return [formPlace(`${path}/new`, (visit) => ({ crumbs: [[path, given.title]], ...viewOf(visit) }), rights), place]
}

/** A page of one resource while it is displayed. */
export interface ShownOne<R extends Resource> {
  visit: Visit
  one: Thing<R>
  /** The path of the page. */
  here: string
  /** Returns the button of an action, or '' if it is not for this resource. */
  button: (name: string, fields?: Record<string, string>) => Html | ''
  /** Returns the form of an action, or '' if it is not for this resource. */
  form: (name: string) => Promise<Html | ''>
}

export interface OnePage<R extends Resource> extends Pick<Place, 'operator'> {
  /** The path of the page, with the id of the resource as its last parameter. */
  path: string
  of: R
  /** The list that the resource is in. */
  list: readonly [path: string, name: string]
  /** Finds the resource, if the path does not have its id. Throws 404. */
  find?: (visit: Visit) => Promise<Thing<R>>
  /** The attribute that is the title, or a function. */
  title: (string & keyof R['attributes']) | ((one: Thing<R>) => string)
  about?: string | ((one: Thing<R>, visit: Visit) => Now<string>)
  actions?: Actions<R> | ((visit: Visit, one: Thing<R>) => Now<Actions<R>>)
  /** The actions on selected rows of the list that the page shows. */
  bulk?: (one: Thing<R>) => Bulk<Resource>
  /** The path of the API that the actions change, if it is not that of the resource. */
  api?: string
  /** The HTTP status after a refused action, if it is not 200. */
  status?: 422
  /** Buttons and links at the head of the page. */
  head?: (shown: ShownOne<R>) => Cell
  body: (shown: ShownOne<R>) => Now<Html>
}

/** The page of one resource. The danger zone at its end has the actions with a consequence. */
export function onePlace<R extends Resource>(given: OnePage<R>): Place {
  const { about, actions: some = {}, api, list, of, operator, path, title } = given
  const actionsOf = (visit: Visit, one: Thing<R>) => (typeof some === 'function' ? some(visit, one) : some)
  const find = async (visit: Visit): Promise<Thing<R>> => {
    if (given.find) return given.find(visit)
    return found(await visit.get(of, pathTo(of, visit.context.req.param('id') ?? ''))).one
  }
  const show = async (visit: Visit, refused: Refused = {}): Promise<Response> => {
    const one = await find(visit)
    const actions = await actionsOf(visit, one)
    const here = visit.context.req.path
    const { errors = [] } = refused
    const shown: ShownOne<R> = {
      visit,
      one,
      here,
      button: (name, fields = {}) => actionButton(visit, actions, name, one, { to: here, fields }),
      form: (name) => actionForm(visit, actions, name, { one, ...refused }),
    }
    const words = typeof about === 'function' ? await about(one, visit) : about
    return page(visit, {
      title: typeof title === 'function' ? title(one) : text(one as Thing, title as never),
      ...(words === undefined ? {} : { about: words }),
      crumbs: [list],
      ...(given.head && { actions: given.head(shown) }),
      errors,
      labels: labelsIn(actions, refused.typed?.action),
      ...(errors.length > 0 && given.status && { status: given.status }),
      done: done(visit),
      body: html`${await given.body(shown)} ${dangerZone(visit, actions, one, here)}`,
    })
  }
  const act = async (visit: Visit, typed: Form): Promise<Response> => {
    const one = await find(visit)
    if (typed.action === 'bulk' && given.bulk)
      return performBulk(visit, given.bulk(one), typed, (errors) => show(visit, { errors }))
    const action = (await actionsOf(visit, one))[typed.action]
    if (!action) return show(visit)
    const target = pathTo({ self: api ?? of.self, type: of.type }, one.id)
    const acted = { given: typed, here: visit.context.req.path, list: list[0], one, path: target }
    return performAction(visit, action, acted, (errors) => show(visit, { errors, typed }))
  }
  return { path, ...(operator && { operator }), show: (visit) => show(visit), ...(given.actions && { act }) }
}
