// The API inside the process, for MCP and the console, which have already authenticated their request. It uses no
// socket and has the rights of the named caller. Routes, rules and refusals are the same as over HTTP.
import { Hono } from 'hono'
import { Budget } from '../base/memory.ts'
import { must } from '../base/errors.ts'
import { answerError } from './errors.ts'
import type { ApiAnswer } from './exchange.ts'
import { JSON_API } from './media.ts'
import { documentIn } from './request.ts'
import type { Caller, Resource } from './resource.ts'
import { createRouter, routesOf, type RouterOptions } from './routes.ts'
import type { ApiDeps } from './define.ts'
import { refuseWhenFull } from './storage-left.ts'

/** Performs a request with the rights of a caller. Its path is below the API's base. */
export interface Inside {
  (caller: Caller, request: Request): Promise<Response>
  /**
   * Creates a resource in a collection, such as "/outbound-emails". The resource object is not written as JSON and read
   * again. Throws a Refusal.
   */
  create(caller: Caller, path: string, data: object): Promise<ApiAnswer>
}

export function createInside<Deps extends ApiDeps>(
  deps: Deps,
  base: () => string,
  resources: readonly Resource<Deps>[],
): Inside {
  const app = new Hono()
  const options: RouterOptions<Deps> = {
    parts: deps,
    reader: deps.store,
    store: deps.store,
    clock: deps.clock,
    log: deps.log,
    keyring: deps.keyring,
    gate: {
      authenticate: ({ env }) => (env as { caller: Caller }).caller,
      admit: () => ({ headers: {} }),
    },
    base,
    resources,
    // The size of the outer HTTP request is already limited.
    bodies: new Budget(Infinity),
    refuseWhenFull: () => refuseWhenFull(deps),
  }
  const routes = routesOf(options)
  app.route('/', createRouter(options, routes))
  app.onError((thrown, context) => {
    const { status, headers, body } = answerError(thrown, deps)
    return context.body(body, status, headers)
  })
  const creations = new Map(routes.flatMap((route) => (route.method === 'POST' ? [[route.path, route] as const] : [])))
  return Object.assign(async (caller: Caller, request: Request) => app.fetch(request, { caller }), {
    create: async (caller: Caller, path: string, data: object) => {
      const common: Record<string, string> = {}
      const { body, headers, status } = await must(creations.get(path), `The endpoint ${path}`).answer(
        {
          path,
          params: {},
          query: [],
          header: (name) => (name === 'content-type' ? JSON_API : undefined),
          env: { caller },
          document: documentIn({ data }),
        },
        common,
      )
      return { body, status, headers: { ...common, ...headers } }
    },
  })
}
