// Batches of JSON-RPC 2.0 §6, which MCP had up to 2025-03-26. Messages are answered one after the other, so that what a
// message asks is done before the next; each request costs what it would cost alone.
import type { Rate } from '../accounts/rates.ts'
import { errorOf, faultOf } from './mcp-calls.ts'

/** The versions of MCP with batches; a request without a version header counts as 2025-03-26. */
export const BATCHED: readonly string[] = ['2024-10-07', '2024-11-05', '2025-03-26']

const MAX_MESSAGES = 50
/** Characters of all answers of a batch together; what is asked beyond them is not done. */
const MAX_ANSWERS = 10 * 1024 * 1024
const NO_MESSAGE = 'This is no message of JSON-RPC.'

export interface Batching {
  /** Answers one message, as if it had come alone. */
  answer: (message: unknown) => Promise<Response>
  /** Takes the tokens of requests after the first, which the HTTP request has paid. */
  spend: () => Rate
}

/**
 * Answers a batch: 200 with an array of the answers to its requests, 202 when it has none, 400 when it is empty, too
 * long, or opens a connection (MCP 2025-03-26, "Initialization"). A request that is beyond the limits or not well made
 * has an error of its own; the others are answered.
 */
export async function answerBatch(messages: readonly unknown[], { answer, spend }: Batching): Promise<Response> {
  const refuse = (sentence: string): Response => faultOf(400, -32600, sentence)
  if (messages.length === 0) return refuse('The batch is empty; send at least one message.')
  if (messages.length > MAX_MESSAGES) return refuse(`A batch may hold at most ${MAX_MESSAGES} messages.`)
  if (messages.some((message) => memberOf(message, 'method') === 'initialize'))
    return refuse('Send "initialize" alone, not in a batch.')
  const answers: string[] = []
  let size = 0
  let paid = true
  for (const message of messages) {
    const asks = memberOf(message, 'method') !== undefined && memberOf(message, 'id') !== undefined
    const refused = asks ? refusalOf(paid ? undefined : spend(), size) : undefined
    if (asks) paid = false
    let said: string | undefined
    if (refused !== undefined) said = errorOf(idOf(message), -32000, refused)
    // A batch inside a batch would cost nothing.
    else if (Array.isArray(message)) said = errorOf(null, -32600, NO_MESSAGE)
    else {
      const response = await answer(message)
      // The headers of the whole are at fault.
      if (response.status === 406 || response.status === 415) return response
      said = await saidOf(message, response)
    }
    if (said !== undefined) answers.push(said)
    size += said?.length ?? 0
  }
  if (answers.length === 0) return new Response(null, { status: 202 })
  return new Response(`[${answers.join(',')}]`, { headers: { 'Content-Type': 'application/json' } })
}

/** Why a request is not done; undefined when it is. */
function refusalOf(rate: Rate | undefined, size: number): string | undefined {
  if (rate?.allowed === false) return `Too many requests; try again in ${rate.reset} s.`
  return size > MAX_ANSWERS ? 'The answers to this batch are too large already; send this request again.' : undefined
}

/** The answer to one message as JSON; undefined for one that is not answered. */
async function saidOf(message: unknown, response: Response): Promise<string | undefined> {
  if (response.status === 202) return undefined
  const text = await response.text()
  return response.status === 200 ? text : errorOf(idOf(message), -32600, NO_MESSAGE)
}

function memberOf(message: unknown, name: string): unknown {
  return typeof message === 'object' && message !== null ? (message as Record<string, unknown>)[name] : undefined
}

function idOf(message: unknown): string | number | null {
  const id = memberOf(message, 'id')
  return typeof id === 'string' || typeof id === 'number' ? id : null
}
