// The API inside the process, for MCP and the console, which have already authenticated their request. It uses no
// socket and has the rights of the named caller. Routes, rules and refusals are the same as over HTTP.
import { Hono } from 'hono'
import { Budget } from '../base/memory.ts'
import { answerError } from './errors.ts'
import type { Caller, Resource } from './resource.ts'
import { createRouter, routesOf, type RouterOptions } from './routes.ts'
import type { ApiDeps } from './define.ts'
import { refuseWhenFull } from './storage-left.ts'

/** Performs a request with the rights of a caller. Its path is below the API's base. */
export type Inside = (caller: Caller, request: Request) => Promise<Response>

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
  app.route('/', createRouter(options, routesOf(options)))
  app.onError((thrown, context) => {
    const { status, headers, body } = answerError(thrown, deps)
    return context.body(body, status, headers)
  })
  return async (caller, request) => app.fetch(request, { caller })
}
