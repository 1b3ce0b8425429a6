// The pages of the resources, one for each, and the page of the events: made from the OpenAPI document alone.
import { STATUS_CODES } from 'node:http'
import { html } from 'hono/html'
import { capital } from '../../base/text.ts'
import { exampleOf } from '../../jsonapi/openapi-examples.ts'
import type { Html } from '../../webui/widgets.ts'
import { answerRows, requestRows, resourcesIn, rowOf, sentRows, type AttributeRow } from './attributes.ts'
import { refersTo, type JsonSchema, type Operation, type Reference, type ReferencePage } from './document.ts'
import { addressOf, answerType, attributeTable, call, codeBlock, codeTabs, programsOf, prose } from './pieces.ts'

const isGood = (status: string): boolean => /^[23]/.test(status)

/** What an operation answers with when it succeeds. */
const mediaOf = ({ answers }: Operation): { schema: JsonSchema; example?: unknown } | undefined =>
  Object.values(answers.find(([status]) => isGood(status))?.[1].content ?? {})[0]

/** The table of the answers of an operation: what succeeds in sight, refusals with their codes folded. */
function answersOf({ answers }: Operation): Html {
  const row = ([status, { description, headers = {}, 'x-error-codes': codes }]: Operation['answers'][number]): Html =>
    html`<tr>
      <th scope="row"><code>${status}</code><span>${STATUS_CODES[status] ?? ''}</span></th>
      <td>
        <p>${prose(codes ? codes.map((code) => `\`${code}\``).join(', ') : description)}</p>
        ${
          isGood(status) && Object.keys(headers).length > 0
            ? html`<p class="soft">
                Headers:
                ${prose(
                  Object.keys(headers)
                    .map((name) => `\`${name}\``)
                    .join(', '),
                )}
              </p>`
            : ''
        }
      </td>
    </tr>`
  const list = (caption: string, some: Operation['answers']): Html =>
    html`<table class="attributes">
      <caption class="hidden">
        ${caption}
      </caption>
      <thead class="hidden">
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Meaning</th>
        </tr>
      </thead>
      <tbody>
        ${some.map(row)}
      </tbody>
    </table>`
  const refusals = answers.filter(([status]) => !isGood(status))
  return html`<h3>Answers</h3>
    ${list(
      'Answers',
      answers.filter(([status]) => isGood(status)),
    )}
    ${
      refusals.length === 0
        ? ''
        : html`<details>
            <summary>Refusals: ${refusals.map(([status]) => status).join(', ')}</summary>
            ${list('Refusals', refusals)}
            <p class="soft">What the codes mean: <a href="/docs#errors">Errors</a>.</p>
          </details>`
    }`
}

/** The example of an answer; a list shows one entry. */
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

/** The answer of an operation; what an operation before it answers with as well stands there alone. */
function answerShown(reference: Reference, operation: Operation, before: readonly Operation[]): Html | '' {
  const example = exampleShown(reference, operation)
  if (example === undefined) return ''
  const text = JSON.stringify(example, null, 2)
  const same = before.find((each) => JSON.stringify(exampleShown(reference, each), null, 2) === text)
  return html`<h3>Answer</h3>
    ${
      same
        ? html`<p>Like that of <a href="#${same.id}">${same.summary}</a>.</p>`
        : codeBlock(`${operation.id}-answer`, `Answer: ${operation.summary}`, text)
    }`
}

/** An operation: what it does beside the programs that call it. */
function operationShown(reference: Reference, operation: Operation, before: readonly Operation[]): Html {
  const { body, id, more, parameters, scope, summary } = operation
  const rows = parameters.map(({ description = '', in: where, name, required = false, schema }) => {
    const row = rowOf(reference, name, { ...schema, description }, required)
    return where === 'query' ? row : { ...row, type: where === 'path' ? 'in the path' : 'header' }
  })
  return html`<section class="operation" id="${id}">
    <div>
      <h2><a href="#${id}">${summary}</a></h2>
      ${call(operation)} ${more === '' ? '' : html`<p>${prose(more)}</p>`}
      ${scope === undefined ? '' : html`<p class="soft">Needs a token with the scope <code>${scope}</code>.</p>`}
      ${rows.length === 0 ? '' : html`<h3>Parameters</h3>`}${attributeTable(`Parameters: ${summary}`, rows)}
      ${body ? html`<h3>Attributes of the request</h3>` : ''}
      ${body ? attributeTable(`Attributes of the request: ${summary}`, requestRows(reference, body.schema)) : ''}
      ${answersOf(operation)}
    </div>
    <div class="aside">
      ${
        answerType(operation) === 'text/html'
          ? codeBlock(`${id}-address`, 'For a browser', addressOf(operation))
          : codeTabs(id, summary, programsOf(operation))
      }
      ${answerShown(reference, operation, before)}
    </div>
  </section>`
}

/** The attributes of the resources that the answers of a page hold; the members of other answers. */
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
      caption: `Members of the answer: ${operation.summary}`,
      rows: schema && resourcesIn(reference, schema).length === 0 ? sentRows(reference, schema) : [],
    }
  })
  return [
    { id: `${name}-attributes`, caption: `Attributes of answers: ${title.toLowerCase()}`, rows },
    ...other,
  ].filter((table) => table.rows.length > 0)
}

/** What is on a page, with links to it. */
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

/** The page of the events: what each is about, and what its request holds. */
export function eventsPage(reference: Reference, { operations }: ReferencePage): Html {
  const [first] = operations
  const answers = (first?.answers ?? []).toSorted(([one], [other]) => (one < other ? -1 : 1))
  return html`${contents(operations.map(({ path }) => [path, path]))}
    <section id="request">
      <h2><a href="#request">The request</a></h2>
      <p>
        An event is a <code>POST</code> to the URL of a webhook, with a JSON body of <code>type</code>,
        <code>timestamp</code> and <code>data</code>. How the signature is checked:
        <a href="/docs#webhooks">Webhooks</a>.
      </p>
      ${attributeTable(
        'Headers of the request',
        (first?.parameters ?? []).map(({ description = '', name }) => ({
          name,
          type: 'header',
          about: description,
        })),
      )}
      <h3>What your server answers</h3>
      ${attributeTable(
        'Answers of your server',
        answers.map(([status, { description }]) => ({
          name: status === 'default' ? 'other' : status,
          about: description,
        })),
      )}
    </section>
    ${operations.map((operation) => {
      const data = operation.body && reference.resolve(operation.body.schema).properties?.['data']
      return html`<section class="operation" id="${operation.path}">
        <div>
          <h2><a href="#${operation.path}">${operation.path}</a></h2>
          <p>
            ${prose(capital(operation.more === '' ? operation.summary : `${operation.summary}. ${operation.more}`))}
          </p>
          ${data ? attributeTable(`Data of ${operation.path}`, sentRows(reference, data)) : ''}
        </div>
        <div class="aside">
          ${codeBlock(`${operation.id}-body`, `Body of ${operation.path}`, JSON.stringify(operation.body?.example, null, 2))}
        </div>
      </section>`
    })}`
}
