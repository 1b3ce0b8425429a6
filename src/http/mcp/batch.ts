// Batches of JSON-RPC 2.0 §6, part of MCP until version 2025-03-26. Messages are answered one after the other, so that
// a message can rely on the effects of earlier ones. Each request counts against the rate limit as it would alone.
import type { Rate } from '../../identity/rates.ts'
import { errorOf, faultOf } from './calls.ts'

/** The versions of MCP with batches; a request without a version header counts as 2025-03-26. */
export const BATCHED: readonly string[] = ['2024-10-07', '2024-11-05', '2025-03-26']

const MAX_MESSAGES = 50
/** The most characters of all answers of a batch together; requests after that are refused. */
const MAX_ANSWERS = 10 * 1024 * 1024
const NO_MESSAGE = 'This is not a message of JSON-RPC.'

export interface Batching {
  /** Answers one message as if it were sent alone. */
  answer: (message: unknown) => Promise<Response>
  /** Takes the rate-limit tokens of each request after the first; the HTTP request has paid for the first. */
  spend: () => Rate
}

/**
 * Answers a batch: 200 with an array of the answers to its requests, 202 when it has no requests, 400 when it is empty,
 * too long, or contains `initialize` (MCP 2025-03-26, "Initialization"). A request beyond the limits or with a wrong
 * form gets its own error; the others are answered.
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
    // A nested batch is refused: its requests would not count against the rate limit.
    else if (Array.isArray(message)) said = errorOf(null, -32600, NO_MESSAGE)
    else {
      const response = await answer(message)
      // The headers of the HTTP request are wrong, and they belong to every message.
      if (response.status === 406 || response.status === 415) return response
      said = await saidOf(message, response)
    }
    if (said !== undefined) answers.push(said)
    size += said?.length ?? 0
  }
  if (answers.length === 0) return new Response(null, { status: 202 })
  return new Response(`[${answers.join(',')}]`, { headers: { 'Content-Type': 'application/json' } })
}

/** Why a request is refused; undefined when it may run. */
function refusalOf(rate: Rate | undefined, size: number): string | undefined {
  if (rate?.allowed === false) return `Too many requests; try again in ${rate.reset} s.`
  return size > MAX_ANSWERS ? 'The answers to this batch are too large already; send this request again.' : undefined
}

/** The answer to one message as JSON; undefined for a message without an answer. */
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
