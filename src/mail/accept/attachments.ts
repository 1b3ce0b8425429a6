// Receives attachments: decodes or fetches them, checks their type, and stores them for the composer. Small attachments
// go into the body's JSON, large ones into files of the spool, which are on the disk before the email is accepted.
import { HeldMemory, ownerOf, release, type Budget } from '../../base/memory.ts'
import { Refusal, type Problem } from '../../base/errors.ts'
import { inOwnTurn, semaphore } from '../../base/semaphore.ts'
import { refusalOf, typeOf } from '../../message/file-type.ts'
import type { StoredAttachment } from '../../message/stored-body.ts'
import type { Spool } from '../../store/spool.ts'
import { fetchFile, RULES, type FetchDeps } from '../../net/fetch.ts'

export interface NewAttachment {
  /** Base64, or bytes that are also part of a request body. */
  content?: string | Buffer | undefined
  path?: string | undefined
  filename: string
  content_type?: string | undefined
  content_id?: string | undefined
  disposition?: 'attachment' | 'inline' | undefined
}

/** An attachment with its bytes in memory, not yet stored. */
export interface Received extends Omit<StoredAttachment, 'content'> {
  bytes: Buffer
  /** Whether the bytes are only here, so that their memory can be freed. */
  own: boolean
}

/** Attachments of up to this size (bytes) are kept inside the body's JSON. */
const INLINE_UP_TO = 16 * 1024

export interface AttachmentDeps {
  fetching: FetchDeps
  /**
   * The budget that fetched bytes share with the bodies of requests. Absent for a command, which has its own process.
   */
  bodies?: Budget | undefined
}

/** The size at which an email is rejected while its attachments are fetched. */
export interface Receiving {
  userKey: number
  /** Throws if the email would be too large with these bytes. */
  fits: (bytes: number) => void
}

/** The most fetches of an account at once. Further ones wait. */
const FETCHES = 4
const fetches = new Map<number, { oneOf: ReturnType<typeof semaphore>; waiting: number }>()

/** Runs a fetch when the account has fewer than FETCHES in progress. */
async function inTurn<T>(userKey: number, run: () => Promise<T>): Promise<T> {
  const turn = fetches.get(userKey) ?? { oneOf: semaphore(FETCHES), waiting: 0 }
  fetches.set(userKey, turn)
  turn.waiting++
  try {
    return await turn.oneOf(run)
  } finally {
    turn.waiting--
    if (turn.waiting === 0) fetches.delete(userKey)
  }
}

/**
 * Runs `use` with all attachments, decoded or fetched, a few at a time. Fetched attachments are in the budget until
 * `use` ends, and count against the size of the email while they arrive (D112). Throws 422 with every problem found,
 * 503 when too many bodies are in progress.
 */
export async function withAttachments<T>(
  deps: AttachmentDeps,
  given: readonly NewAttachment[],
  { fits, userKey }: Receiving,
  use: (received: Received[]) => Promise<T>,
): Promise<T> {
  const held = deps.bodies && new HeldMemory(deps.bodies, ownerOf(userKey))
  let ended: unknown
  let fetched = 0
  const arrived = (bytes: number): void => {
    fetched += bytes
    fits(fetched)
    // While the pieces are joined to one buffer, they are in memory twice.
    held?.more(bytes * 2)
  }
  const load = (url: string) =>
    inTurn(userKey, async () => {
      if (ended !== undefined) throw ended
      return fetchFile(deps.fetching, url, { ...RULES, arrived })
    })
  try {
    const received = given.map((attachment, index) => receive(load, attachment, index))
    for (const each of received) each.catch((thrown: unknown) => (ended ??= thrown))
    // All fetches have to end before the budget is given back.
    await Promise.allSettled(received)
    return await use(withoutProblems(await Promise.all(received)))
  } finally {
    held?.end()
  }
}

function withoutProblems(results: readonly (Received | Problem)[]): Received[] {
  const problems = results.filter((result): result is Problem => 'code' in result)
  if (problems.length > 0) throw new Refusal(problems)
  return results as Received[]
}

async function receive(
  load: (url: string) => ReturnType<typeof fetchFile>,
  given: NewAttachment,
  index: number,
): Promise<Received | Problem> {
  const problem = (code: Problem['code'], member: string, detail: string): Problem => ({
    code,
    detail,
    source: { pointer: `/data/attributes/attachments/${index}/${member}` },
  })
  // The name is checked before the file is fetched.
  const byName = refusalOf(given.filename, Buffer.alloc(0))
  if (byName) return problem('forbidden_attachment', 'filename', `"${given.filename}" ${byName}. Remove it.`)
  let bytes: Buffer
  let fetchedType: string | undefined
  const { content } = given
  if (given.path === undefined) bytes = Buffer.isBuffer(content) ? content : await decoded(content ?? '')
  else {
    const fetched = await load(given.path)
    if ('refused' in fetched)
      return problem('attachment_unavailable', 'path', `"path" of the attachment ${fetched.refused}.`)
    bytes = fetched.bytes
    fetchedType = fetched.contentType
  }
  const byBytes = refusalOf(given.filename, bytes)
  if (byBytes)
    return problem(
      'forbidden_attachment',
      given.path === undefined ? 'content' : 'path',
      `"${given.filename}" ${byBytes}. Remove it.`,
    )
  return {
    filename: given.filename,
    contentType: given.content_type ?? usable(fetchedType) ?? typeOf(given.filename, bytes),
    contentId: given.content_id ?? null,
    disposition: given.disposition ?? (given.content_id === undefined ? 'attachment' : 'inline'),
    size: bytes.length,
    bytes,
    own: !Buffer.isBuffer(content),
  }
}

const decoded = (base64: string): Promise<Buffer> => inOwnTurn(base64.length, () => Buffer.from(base64, 'base64'))

/**
 * The media type of a foreign Content-Type header, or undefined if it is missing or generic: the file name is more
 * specific than a generic type.
 */
function usable(type: string | undefined): string | undefined {
  const [, name] = /^\s*([\w.+-]+\/[\w.+-]+)\s*(?:;|$)/.exec(type ?? '') ?? []
  return name === undefined || /^(?:application\/octet-stream|text\/plain|binary\/)/i.test(name)
    ? undefined
    : name.toLowerCase()
}

/**
 * Writes large attachments to the spool. Returns all attachments in the form of the body's JSON, and the names of the
 * files.
 */
export async function storeAttachments(
  spool: Spool,
  emailId: string,
  received: readonly Received[],
): Promise<{ stored: StoredAttachment[]; files: string[] }> {
  const files: string[] = []
  const stored = await Promise.all(
    received.map(async ({ bytes, own, ...attachment }, index): Promise<StoredAttachment> => {
      if (bytes.length <= INLINE_UP_TO) return { ...attachment, content: { text: bytes.toString('base64') } }
      const file = await spool.put(`${emailId}-${index}`, bytes)
      files.push(file)
      if (own) release(bytes)
      return { ...attachment, content: { file } }
    }),
  )
  return { stored, files }
}
