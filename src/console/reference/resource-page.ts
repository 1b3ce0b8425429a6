// The pages of resources and the page of events, rendered only from the OpenAPI document.
import { STATUS_CODES } from 'node:http'
import { html } from 'hono/html'
import { capital } from '../../base/text.ts'
import { exampleOf } from '../../jsonapi/openapi-examples.ts'
import type { Html } from '../../views/html/widgets.ts'
import { answerRows, requestRows, resourcesIn, rowOf, sentRows, type AttributeRow } from './attributes.ts'
import { refersTo, type JsonSchema, type Operation, type Reference, type ReferencePage } from './document.ts'
import { addressOf, answerType, attributeTable, call, codeBlock, codeTabs, programsOf, prose } from './pieces.ts'

const isGood = (status: string): boolean => /^[23]/.test(status)

/** The content of a successful response. */
const mediaOf = ({ answers }: Operation): { schema: JsonSchema; example?: unknown } | undefined =>
  Object.values(answers.find(([status]) => isGood(status))?.[1].content ?? {})[0]

/** The responses of an operation: success as a table, errors with their codes folded. */
function answersOf({ answers }: Operation): Html {
  const quoted = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ')
  const errors = answers.filter(([status]) => !isGood(status))
  const success = answers.filter(([status]) => isGood(status))
  return html`<h3>Responses</h3>
    ${attributeTable(
      'Responses',
      success.map(([status, { description, headers = {} }]) => ({
        name: status,
        type: STATUS_CODES[status] ?? '',
        about: description,
        when: Object.keys(headers).length > 0 ? `Headers: ${quoted(Object.keys(headers))}` : '',
      })),
    )}
    ${
      errors.length === 0
        ? ''
        : html`<details>
            <summary>Errors: ${errors.map(([status]) => status).join(', ')}</summary>
            <ul>
              ${errors.map(
                ([status, { description, 'x-error-codes': codes }]) =>
                  html`<li><code>${status}</code> ${codes ? html`<code>${codes.join(', ')}</code>` : description}</li>`,
              )}
            </ul>
            <a href="/docs#errors">Meaning of the codes</a>
          </details>`
    }`
}

/** Returns an example of a response. A list has one entry. */
function exampleShown(reference: Reference, operation: Operation): unknown {
  const media = mediaOf(operation)
  if (media === undefined) return undefined
  const { schemas } = reference
  const example =
    media.example ??
    (media.schema.$ref || media.schema.properties ? exampleOf({ ...media.schema }, schemas) : undefined)
  const [one] = resourcesIn(reference, media.schema)
  const isEmpty = typeof example === 'object' && example !== null && 'data' in example && String(example.data) === ''
  return isEmpty && one ? { ...example, data: [exampleOf({ ...one }, schemas)] } : example
}

/** The example of a response. If an earlier operation has the same one, it is a link to that. */
function answerShown(reference: Reference, operation: Operation, before: readonly Operation[]): Html | '' {
  const example = exampleShown(reference, operation)
  if (example === undefined) return ''
  const text = JSON.stringify(example, null, 2)
  const same = before.find((each) => JSON.stringify(exampleShown(reference, each), null, 2) === text)
  return html`<h3>Response</h3>
    ${
      same
        ? html`<p>The same as for <a href="#${same.id}">${same.summary}</a>.</p>`
        : codeBlock(`${operation.id}-answer`, `Response: ${operation.summary}`, text)
    }`
}

/** A section of a page: text at the left, code at the right. */
const sectionOf = (id: string, title: string, text: Html, code: Html): Html =>
  html`<section class="operation" id="${id}">
    <div>
      <h2><a href="#${id}">${title}</a></h2>
      ${text}
    </div>
    <div class="aside">${code}</div>
  </section>`

/** The rows of the parameters of an operation, in the path, the query and headers. */
const parameterRows = (reference: Reference, { parameters }: Operation): AttributeRow[] =>
  parameters.map(({ description = '', in: where, name, required = false, schema }) => {
    const row = rowOf(reference, name, { ...schema, description }, required)
    return where === 'query' ? row : { ...row, type: where }
  })

/** An operation: its description, next to sample programs that call it. */
function operationShown(reference: Reference, operation: Operation, before: readonly Operation[]): Html {
  const { body, id, more, scope, summary } = operation
  const headed = (title: string, rows: readonly AttributeRow[]): Html =>
    html`${rows.length === 0 ? '' : html`<h3>${title}</h3>`}${attributeTable(`${title}: ${summary}`, rows)}`
  return sectionOf(
    id,
    summary,
    html`${call(operation)} ${more === '' ? '' : html`<p>${prose(more)}</p>`}
    ${scope === undefined ? '' : html`<p class="soft">Requires the scope <code>${scope}</code>.</p>`}
    ${headed('Parameters', parameterRows(reference, operation))}
    ${body ? headed('Request attributes', requestRows(reference, body.schema)) : ''} ${answersOf(operation)}`,
    html`${
      answerType(operation) === 'text/html'
        ? codeBlock(`${id}-address`, 'URL for a browser', addressOf(operation))
        : codeTabs(id, summary, programsOf(operation))
    }
    ${answerShown(reference, operation, before)}`,
  )
}

/** An event: its meaning and its data, next to the body of a request. */
function eventShown(reference: Reference, { body, id, more, path, summary }: Operation): Html {
  const data = body && reference.resolve(body.schema).properties?.['data']
  return sectionOf(
    path,
    path,
    html`<p>${prose(capital(more === '' ? summary : `${summary}. ${more}`))}</p>
      ${data ? attributeTable(`Data of ${path}`, sentRows(reference, data)) : ''}`,
    codeBlock(`${id}-body`, `Body of ${path}`, JSON.stringify(body?.example, null, 2)),
  )
}

/** The attributes of the resources in the responses of a page, and the members of other responses. */
function answerTables(
  reference: Reference,
  { name, operations, title }: ReferencePage,
): { id: string; caption: string; rows: readonly AttributeRow[] }[] {
  const found = operations.flatMap((operation) => resourcesIn(reference, mediaOf(operation)?.schema))
  const distinct = [...new Map(found.map((schema) => [refersTo(schema), schema])).values()]
  const rows = answerRows(reference, distinct).map((row) => ({ ...row, required: false }))
  const other = operations.map((operation) => {
    const schema = mediaOf(operation)?.schema
    return {
      id: `${operation.id}-attributes`,
      caption: `Response: ${operation.summary}`,
      rows: schema && resourcesIn(reference, schema).length === 0 ? sentRows(reference, schema) : [],
    }
  })
  return [{ id: `${name}-attributes`, caption: `Response attributes: ${title.toLowerCase()}`, rows }, ...other].filter(
    (table) => table.rows.length > 0,
  )
}

/** The table of contents of a page. */
const contents = (entries: readonly (readonly [anchor: string, entry: Html | string])[]): Html =>
  html`<nav class="contents" aria-label="On this page">
    <ul>
      ${entries.map(([anchor, entry]) => html`<li><a href="#${anchor}">${entry}</a></li>`)}
    </ul>
  </nav>`

/** The page of a resource. */
export function resourcePage(reference: Reference, page: ReferencePage): Html {
  const tables = answerTables(reference, page)
  return html`${contents([
    ...page.operations.map(
      ({ id, method, summary }) =>
        [id, html`<b class="method ${method.toLowerCase()}">${method}</b> ${summary}`] as const,
    ),
    ...tables.filter(({ id }) => id === `${page.name}-attributes`).map(({ caption, id }) => [id, caption] as const),
  ])}
  ${page.operations.map((each, at) => operationShown(reference, each, page.operations.slice(0, at)))}
  ${tables.map(
    ({ caption, id, rows }) =>
      html`<section id="${id}">
        <h2><a href="#${id}">${caption}</a></h2>
        ${attributeTable(caption, rows)}
      </section>`,
  )}`
}

/** The page of the events: the content of a request, and each event. */
export function eventsPage(reference: Reference, { operations }: ReferencePage): Html {
  const [first] = operations
  const answers = (first?.answers ?? []).toSorted(([one], [other]) => (one < other ? -1 : 1))
  return html`${contents(operations.map(({ path }) => [path, path]))}
    <section id="request">
      <h2><a href="#request">Request</a></h2>
      <p>
        An event is a <code>POST</code> request to the URL of a webhook. Its JSON body contains <code>type</code>,
        <code>timestamp</code> and <code>data</code>. To verify its signature, see
        <a href="/docs#webhooks">Webhooks</a>.
      </p>
      ${first ? attributeTable('Request headers', parameterRows(reference, first)) : ''}
      <h3>Response of your endpoint</h3>
      ${attributeTable(
        'Responses of your endpoint',
        answers.map(([status, { description }]) => ({
          name: status === 'default' ? 'other' : status,
          about: description,
        })),
      )}
    </section>
    ${operations.map((operation) => eventShown(reference, operation))}`
}
