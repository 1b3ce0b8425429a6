// Forms and their fields, with the API's errors about their values.
import { html } from 'hono/html'
import type { Cell, Html } from './widgets.ts'
import type { Form } from './place.ts'
import { faultIn, worded, type Answer, type Labels, type Visit } from './visit.ts'

/** A form with an action. Every form contains the proof that this server wrote it. */
export const form = (
  visit: Visit,
  action: string,
  body: Cell,
  options: { to?: string; confirm?: string; multipart?: true; kind?: string; id?: string } = {},
): Html =>
  html`<form
    method="post"
    ${options.to === undefined ? '' : html`action="${options.to}"`}
    ${options.multipart ? html`enctype="multipart/form-data"` : ''}
    ${options.id === undefined ? '' : html`id="${options.id}"`}
    class="${options.kind ?? ''}"
  >
    <input type="hidden" name="proof" value="${visit.proof}" /><input type="hidden" name="action" value="${action}" />
    ${options.confirm === undefined ? '' : html`<input type="hidden" name="question" value="${options.confirm}" /><input type="hidden" name="sure" />`}
    ${body}
  </form>`

/** A button with an action. If the action cannot be undone, its consequence is shown. */
export const button = (
  visit: Visit,
  action: string,
  label: string,
  options: { to?: string; confirm?: string; fields?: Record<string, string>; danger?: true } = {},
): Html | '' =>
  visit.reading
    ? ''
    : form(
        visit,
        action,
        html`${Object.entries(options.fields ?? {}).map(
            ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
          )}<button class="${options.danger ? 'danger' : 'plain'}">${label}</button>`,
        { kind: 'inline', ...options },
      )

/** The actions that cannot be undone, in a section of their own, each with its consequence. */
export const dangers = (visit: Visit, each: readonly (readonly [consequence: Cell, action: Html | ''])[]): Html | '' =>
  visit.reading || each.length === 0
    ? ''
    : html`<section class="dangers">
        <h2>Danger zone</h2>
        ${each.map(
          ([consequence, action]) =>
            html`<div>
              <p>${consequence}</p>
              ${action}
            </div>`,
        )}
      </section>`

/** A button that opens the actions of a row, each made with `button`, or '' without actions. */
export function menuOf(id: string, label: string, actions: readonly (Html | '')[]): Html | '' {
  const some = actions.filter((each) => each !== '')
  return some.length === 0
    ? ''
    : html`<button class="plain more" type="button" popovertarget="${id}" aria-label="${label}">⋯</button>
        <div class="menu-of" id="${id}" popover>${some}</div>`
}

export interface FormField {
  name: string
  label: string
  value?: string
  type?: 'text' | 'email' | 'url' | 'password' | 'datetime-local' | 'number' | 'file' | 'color'
  hint?: string
  required?: true
  /** The number of lines, for a text area. */
  lines?: number
  options?: readonly (readonly [value: string, label: string])[]
  accept?: string
  /** Several files can be chosen. */
  several?: true
  /** The value that a browser or password manager can fill in (HTML §4.10.18.7). */
  autocomplete?: 'one-time-code' | 'current-password' | 'new-password' | 'off'
  /** Phones show a numeric keypad. */
  digits?: true
  error?: string | undefined
  /** The id, if it differs from the name. */
  id?: string
}

/**
 * Returns a function that makes the fields of a form by name. Each has its label and `value`. After a refused form,
 * each has the typed text and the API's error about it instead.
 */
export const fieldMaker = <L extends Labels>(labels: L, errors: Answer['errors'], typed?: Form) => {
  const fault = faultIn(errors, labels)
  return (name: keyof L & string, more: Omit<FormField, 'name' | 'label'> = {}): Html =>
    field({
      label: labels[name] ?? name,
      error: fault(name),
      ...more,
      name,
      value: typed?.has(name) ? typed.get(name) : (more.value ?? ''),
    })
}

/** A labelled field, with the API's error if it refused the value. */
export function field({
  accept,
  autocomplete,
  digits,
  error,
  hint,
  label,
  lines,
  name,
  id = name,
  options,
  required,
  several,
  type = 'text',
  value = '',
}: FormField): Html {
  const described = [hint === undefined ? '' : `${id}-hint`, error === undefined ? '' : `${id}-error`].filter(Boolean)
  const shared = html`id="${id}" name="${name}" ${required ? html`required` : ''}
  ${described.length > 0 ? html`aria-describedby="${described.join(' ')}"` : ''}
  ${error === undefined ? '' : html`aria-invalid="true" autofocus`}`
  // Without a default the user makes a choice with consequences, rather than the order of the list.
  const open = options && required && value === '' && options.length > 1 && options[0]?.[0] !== ''
  const choice = open ? [['', 'Choose …'] as const, ...options] : options
  const control = choice
    ? html`<select ${shared}>
        ${choice.map(
          ([each, words]) => html`<option value="${each}" ${each === value ? html`selected` : ''}>${words}</option>`,
        )}
      </select>`
    : lines
      ? html`<textarea ${shared} rows="${lines}">${value}</textarea>`
      : html`<input
          ${shared}
          type="${type}"
          value="${type === 'file' || type === 'password' ? '' : value}"
          ${accept === undefined ? '' : html`accept="${accept}"`}
          ${several ? html`multiple` : ''}
          ${autocomplete === undefined ? '' : html`autocomplete="${autocomplete}"`}
          ${digits ? html`inputmode="numeric"` : ''}
        />`
  return html`<div class="field">
    <label for="${id}">${label}</label>
    ${control} ${hint === undefined ? '' : html`<p class="soft" id="${id}-hint">${hint}</p>`}
    ${error === undefined ? '' : html`<p class="bad" id="${id}-error">${error}</p>`}
  </div>`
}

/** A group of radio buttons. `options` are values with their names and meanings. */
export const radios = ({
  chosen,
  label,
  name,
  options,
}: Pick<FormField, 'label' | 'name'> & {
  chosen: string
  options: readonly (readonly [value: string, title: string, meaning: string])[]
}): Html =>
  html`<fieldset>
    <legend>${label}</legend>
    ${options.map(
      ([value, title, meaning]) =>
        html`<label class="choice"
          ><input type="radio" name="${name}" value="${value}" ${chosen === value ? html`checked` : ''} />
          <span><b>${title}</b><br /><span class="soft">${meaning}</span></span></label
        >`,
    )}
  </fieldset>`

/** A group of checkboxes. `options` are values with their meanings. */
export const choices = ({
  chosen,
  error,
  hint,
  label,
  name,
  id = name,
  options,
}: Pick<FormField, 'error' | 'hint' | 'id' | 'label' | 'name'> & {
  chosen: readonly string[]
  options: readonly (readonly [value: string, meaning: string])[]
}): Html =>
  html`<fieldset id="${id}" ${error === undefined ? '' : html`aria-describedby="${id}-error" tabindex="-1" autofocus`}>
    <legend>${label}</legend>
    ${hint === undefined ? '' : html`<p class="soft">${hint}</p>`}
    ${options.map(
      ([value, meaning]) =>
        html`<label class="check"
          ><input type="checkbox" name="${name}" value="${value}" ${chosen.includes(value) ? html`checked` : ''} />
          <code>${value}</code> <span class="soft">${meaning}</span></label
        >`,
    )}
    ${error === undefined ? '' : html`<p class="bad" id="${id}-error">${error}</p>`}
  </fieldset>`

/** A secret that is shown once, with a button that copies it. */
export const secretShown = (what: string, secret: string): Html =>
  html`<div class="done" role="status">
    <p>This is ${what}. Copy it now: it is not shown again.</p>
    <p>
      <code class="secret" id="secret">${secret}</code>
      <button class="plain" type="button" data-copy="secret">Copy</button>
    </p>
  </div>`

/** The API's errors above a page. Those of a form's fields are links to the field. */
export const refusals = (errors: Answer['errors'], labels: Labels = {}): Html | '' =>
  errors.length === 0
    ? ''
    : html`<div class="alert" role="alert">
        ${errors.map((error) => {
          const { field: name } = error
          const words = worded(error, labels)
          const known = name !== undefined && Object.hasOwn(labels, name)
          return html`<p>${known ? html`<a href="#${name}">${words}</a>` : words}</p>`
        })}
      </div>`
