// The API without its gate, for requests that were let in elsewhere (MCP, the console): made inside the process, on no
// socket, with the rights that their maker found out. The same routes, the same rules, the same refusals.
import { Hono } from 'hono'
import { Budget } from '../base/memory.ts'
import { answerError } from '../jsonapi/errors.ts'
import type { Caller, Resource } from '../jsonapi/resource.ts'
import { createRouter } from '../jsonapi/routes.ts'
import { createGate } from './auth.ts'
import type { ApiDesk } from './desk.ts'
import { promise } from './promise.ts'

/** Performs a request as somebody. Its path is below the API's base. */
export type Inside = (caller: Caller, request: Request) => Promise<Response>

export function createInside(desk: ApiDesk, base: () => string, resources: readonly Resource<ApiDesk>[]): Inside {
  const gate = createGate(desk)
  const app = new Hono()
  app.route(
    '/',
    createRouter({
      parts: desk,
      reader: desk.store,
      clock: desk.clock,
      log: desk.log,
      keyring: desk.keyring,
      gate: {
        authenticate: (_, env) => (env as { caller: Caller }).caller,
        admit: () => ({ headers: {} }),
        permit: (caller, scope) => gate.permit(caller, scope),
      },
      base,
      resources,
      // The request that holds them was let in by its own size.
      bodies: new Budget(Infinity),
      promise: () => promise(desk),
    }),
  )
  app.onError((thrown, context) => {
    const { status, headers, body } = answerError(thrown, desk)
    return context.body(body, status as 400, headers)
  })
  return async (caller, request) => app.fetch(request, { caller })
}
