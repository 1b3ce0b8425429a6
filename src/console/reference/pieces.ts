// The pieces of the reference: code with a copy button, programs in tabs, tables of attributes.
import { html, raw } from 'hono/html'
import { capital } from '../../base/text.ts'
import type { Html } from '../../webui/widgets.ts'
import type { AttributeRow } from './attributes.ts'
import type { Operation } from './document.ts'
import { samplesOf, type SampleLanguage } from './samples.ts'

/** A text of the document; what stands between backticks is code. */
export const prose = (text: string): Html =>
  html`${text.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part))}`

/** A text as the content of an element. Quotes stay as they are: in programs every third character may be one. */
const escaped = (text: string): Html => raw(text.replaceAll('&', '&amp;').replaceAll('<', '&lt;'))

/** Code to copy, with what it is. */
export const codeBlock = (id: string, label: string, code: string): Html =>
  html`<div class="code">
    <button class="plain small" type="button" data-copy="${id}" aria-label="Copy: ${label}">Copy</button>
    <pre tabindex="0" id="${id}" role="region" aria-label="${label}">${escaped(code)}</pre>
  </div>`

/** The same program in several languages: one is shown at a time, without a script too. */
export const codeTabs = (id: string, label: string, programs: readonly (readonly [SampleLanguage, string])[]): Html =>
  html`<fieldset class="languages">
    <legend class="hidden">${label}</legend>
    ${programs.map(
      ([language], at) =>
        html`<input
            type="radio"
            id="${id}-${language}"
            name="${id}"
            value="${language}"
            ${at === 0 ? raw('checked') : ''}
          /><label for="${id}-${language}">${language}</label>`,
    )}
    ${programs.map(
      ([language, code]) =>
        html`<div class="program" data-language="${language}">
          ${codeBlock(`${id}-${language}-code`, `${label}, ${language}`, code)}
        </div>`,
    )}
  </fieldset>`

/** The id of the examples of the document. */
const ID = '019bc186-de00-738a-a9ec-e0b19577265d'
const IN_PATH: Record<string, string> = { recipient: 'ann%40example.net' }

/** The URL of an operation, with examples in the place of its parameters. */
export function addressOf({ parameters, path, server }: Operation): string {
  const needed = parameters.filter((each) => each.in === 'query' && each.required === true)
  const query = needed.map(
    ({ name, schema: { enum: [first] = [] } }) => `${name}=${typeof first === 'string' ? first : name.toUpperCase()}`,
  )
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => IN_PATH[name] ?? ID)
  return `${server}${filled}${query.length === 0 ? '' : `?${query.join('&')}`}`
}

/** The media type of what an operation answers with when it succeeds; undefined when that has no body. */
export const answerType = ({ answers }: Operation): string | undefined => Object.keys(answers[0]?.[1].content ?? {})[0]

/** The programs for an operation, with what it is called with in place of its example. */
export function programsOf(operation: Operation, value: unknown = operation.body?.example): [SampleLanguage, string][] {
  const { body, method, signed } = operation
  const type = answerType(operation)
  return samplesOf({
    method,
    url: addressOf(operation),
    signed,
    body: body && { type: body.type, value },
    answer: type === undefined ? 'nothing' : /\bjson$/.test(type) ? 'json' : 'file',
  })
}

/** The method and the path of an operation. */
export const call = ({ method, path }: Pick<Operation, 'method' | 'path'>): Html =>
  html`<p class="call"><b class="method ${method.toLowerCase()}">${method}</b> <code>${breakable(path)}</code></p>`

/** A path that may be broken over lines behind its slashes. */
const breakable = (path: string): Html =>
  html`${path.split('/').map((part, at) => html`${at === 0 ? '' : raw('/<wbr>')}${part}`)}`

interface AttributeShown extends Partial<AttributeRow> {
  name: string
  about: string
}

/** Values that are listed up to this number are in sight; more of them are folded. */
const VALUES = 8

const valuesShown = (values: readonly string[]): Html | '' => {
  if (values.length === 0) return ''
  const list = html`${values.map((value, at) => html`${at === 0 ? '' : ' '}<code>${value}</code>`)}`
  if (values.length <= VALUES) return html`<p class="soft">${values.length === 1 ? 'Always' : 'One of'} ${list}</p>`
  return html`<details>
    <summary>One of ${values.length} values</summary>
    <p class="soft">${list}</p>
  </details>`
}

/** Attributes with their types, limits and meanings. */
export const attributeTable = (caption: string, rows: readonly AttributeShown[]): Html | '' =>
  rows.length === 0
    ? ''
    : html`<table class="attributes">
        <caption class="hidden">
          ${caption}
        </caption>
        <thead class="hidden">
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Meaning and limits</th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            ({ about, limits = [], name, required = false, type = '', values = [], when = '' }) =>
              html`<tr>
                <th scope="row"><code>${name}</code><span>${type}</span>${required ? html`<b>required</b>` : ''}</th>
                <td>
                  ${about === '' ? '' : html`<p>${prose(about)}</p>`}${valuesShown(values)}
                  ${limits.length === 0 ? '' : html`<p class="soft">${prose(`${capital(limits.join(', '))}.`)}</p>`}
                  ${when === '' ? '' : html`<p class="soft">${prose(when)}</p>`}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>`
