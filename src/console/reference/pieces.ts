// Parts of the pages of the reference: code with a copy button, code samples in tabs, tables of attributes.
import { html, raw } from 'hono/html'
import { capital } from '../../base/text.ts'
import type { Html } from '../../views/html/widgets.ts'
import type { AttributeRow } from './attributes.ts'
import type { Operation } from './document.ts'
import { samplesOf, type SampleLanguage } from './samples.ts'

/** Text with `code` and [links](/docs). */
export const prose = (text: string): Html =>
  html`${text.split(/(`[^`]*`|\[[^\]]+\]\([^)\s]+\))/).map((part, at) => {
    if (at % 2 === 0) return part
    if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`
    const [words = '', to = ''] = part.slice(1, -1).split('](')
    return html`<a href="${to}">${words}</a>`
  })}`

/** Paragraphs of such text. */
export const paragraphs = (...texts: readonly string[]): Html =>
  html`${texts.map((text) => html`<p>${prose(text)}</p>`)}`

/** Text as the content of an element. Quotes are not escaped, because code contains many of them. */
const escaped = (text: string): Html => raw(text.replaceAll('&', '&amp;').replaceAll('<', '&lt;'))

/** Code with a copy button and a label. */
export const codeBlock = (id: string, label: string, code: string): Html =>
  html`<div class="code">
    <button class="plain small" type="button" data-copy="${id}" aria-label="Copy: ${label}">Copy</button>
    <pre tabindex="0" id="${id}" role="region" aria-label="${label}">${escaped(code)}</pre>
  </div>`

/** The same code in several languages. One is shown at a time, even without JavaScript. */
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

/** The id in all examples. */
const ID = '019bc186-de00-738a-a9ec-e0b19577265d'
const IN_PATH: Record<string, string> = { recipient: 'ann%40example.net' }

/** Returns the URL of an operation with example values for its parameters. */
export function addressOf({ parameters, path, server }: Operation): string {
  const needed = parameters.filter((each) => each.in === 'query' && each.required === true)
  const query = needed.map(
    ({ name, schema: { enum: [first] = [] } }) => `${name}=${typeof first === 'string' ? first : name.toUpperCase()}`,
  )
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => IN_PATH[name] ?? ID)
  return `${server}${filled}${query.length === 0 ? '' : `?${query.join('&')}`}`
}

/** The media type of a successful response, or undefined if it has no body. */
export const answerType = ({ answers }: Operation): string | undefined => Object.keys(answers[0]?.[1].content ?? {})[0]

/** Returns the code samples of an operation, with this body instead of its example. */
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

/** A path that can be broken after its slashes. */
const breakable = (path: string): Html =>
  html`${path.split('/').map((part, at) => html`${at === 0 ? '' : raw('/<wbr>')}${part}`)}`

interface AttributeShown extends Partial<AttributeRow> {
  name: string
  about: string
}

/** Longer lists of values are folded. */
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

/** A table of attributes with their types, limits and meanings. */
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
