// Parameters of the OpenAPI document: in the path, in the query, and the header If-Match.
import type { AnyAction } from './openapi-errors.ts'
import type { Json } from './openapi-schemas.ts'
import type { Resource } from './resource.ts'

/** An optional query parameter. */
export const query = (name: string, description: string, example?: string): Json => ({
  name,
  in: 'query',
  required: false,
  description,
  schema: { type: 'string', ...(example === undefined ? {} : { examples: [example] }) },
})

/** The header If-Match of an update (RFC 9110 §13.1.1). */
export const IF_MATCH: Json = {
  name: 'If-Match',
  in: 'header',
  required: false,
  description:
    'The ETag of the state that the change is for; 412 when it is another by now. An extension of the interface.',
  schema: { type: 'string' },
}

/** The parameters in the path of an action: ":id" and the like. */
export const pathParametersOf = ({ path }: AnyAction): Json[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: PATH[name!] ?? `The id of one of ${idOf(name!)}.`,
    schema: { type: 'string' },
  }))

/** The parameters filter[…] of a resource. */
export const filtersOf = (resource: Resource<never>): Json[] =>
  Object.entries(resource.filters ?? {}).map(([name, { about, flag, type }]) =>
    query(
      `filter[${name}]`,
      about !== undefined
        ? about
        : type === undefined
          ? `Only those with this \`${name}\`; commas mean any of${flag ? '; true or false' : ''}.`
          : `Only those of this one of ${type}, by its id; commas mean any of.`,
    ),
  )

/** Path parameters that do not name a resource by its id. */
const PATH: Record<string, string> = {
  recipient: 'An email address.',
  attachment: 'The id of an attachment of this mail.',
  outboundWebhook: 'The id of a delivery.',
}
/** "outboundEmail" -> "outbound-emails". */
const idOf = (name: string): string => {
  const words = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  return words.endsWith('x') ? `${words}es` : `${words}s`
}
