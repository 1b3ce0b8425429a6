// A request and its answer as the checks and handlers use them, independent of Hono and Node.
import type { IncomingMessage } from 'node:http'
import type { RequestDocument } from './request.ts'

/** A request as the checks read it: from Hono's context, or from a message of Node (http/direct.ts). */
export interface ApiCall {
  path: string
  params: Record<string, string>
  query: Iterable<[string, string]>
  header(name: string): string | undefined
  /** Hono's environment: a request inside the process carries its caller there. */
  env: unknown
  /** The source of the body. One of the three is set. */
  document?: RequestDocument
  request?: Request
  incoming?: IncomingMessage | undefined
}

/** An answer, independent of the way it is sent. */
export interface ApiAnswer {
  status: number
  headers: Record<string, string>
  body: string | ReadableStream | null
}
