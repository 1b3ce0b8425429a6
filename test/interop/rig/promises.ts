// The emails that a traced server (rig/calls.ts) accepted with 201 and 250, their position in the write-ahead log, and
// whether they were durable before the first byte of the reply was written. (https://sqlite.org/walformat.html)
import { written, type Call, type Span } from './calls.ts'
import { durableAt, syncedBetween, type Change, type History } from './disk.ts'

/** The name of the log in the data directory. */
export const LOG = 'postrider.db-wal'
const HEADER = 32
const FRAME_HEADER = 24
/** The Message-ID is within this many bytes of the start of a message. */
export const HEAD = 2048

export interface Promised {
  kind: 'mail' | 'message'
  /** The id of a mail, the Message-ID of a message. */
  name: string
  /** The line of the trace at which its answer began. */
  answered: number
}

/** A transaction in the log: from its first write to its last. */
export interface Commit extends Span {
  pages: Buffer[]
}

/** Writes to clients of a port: the client's port, the bytes as text, the line at which the call started. */
function* answersOf(calls: readonly Call[], port: number): Generator<{ client: number; text: string; at: number }> {
  for (const call of calls) {
    const [, own, client] = /^TCP(?:v6)?:\[.*:(\d+)->.*:(\d+)\]$/.exec(call.on) ?? []
    if (Number(own) === port && /^(?:write|send)/.test(call.name))
      yield { client: Number(client), text: written(call).toString('latin1'), at: call.began }
  }
}

/** The emails that the API accepted with 201. */
export function mailsPromised(calls: readonly Call[], port: number): Promised[] {
  const created = /HTTP\/1\.1 201 [^]*?\r\nlocation: \S*\/outbound-emails\/([0-9a-f-]{36})\r\n/gi
  return [...answersOf(calls, port)].flatMap(({ at, text }) =>
    [...text.matchAll(created)].map(([, name]): Promised => ({ kind: 'mail', name: name!, answered: at })),
  )
}

/**
 * The messages that were answered 250 after their final dot. `sent` are their names, by the client's port and in the
 * order in which that connection sent them.
 */
export function messagesPromised(calls: readonly Call[], port: number, sent: Map<number, string[]>): Promised[] {
  const replies = new Map<number, { code: string; at: number }[]>()
  for (const { at, client, text } of answersOf(calls, port))
    for (const [, code] of text.matchAll(/^(\d{3})(?: .*)?\r$/gm))
      replies.set(client, [...(replies.get(client) ?? []), { code: code!, at }])
  return [...sent].flatMap(([client, names]) => {
    const said = replies.get(client) ?? []
    const verdicts = said.filter((_, n) => said[n - 1]?.code === '354')
    return verdicts.flatMap(({ at, code }, n): Promised[] =>
      code === '250' ? [{ kind: 'message', name: names[n] ?? `message ${n} of ${client}`, answered: at }] : [],
    )
  })
}

/** The transactions that were written into a log, in order. `start` is the previous content of the log. */
export function commitsOf(start: Buffer, changes: readonly Change[]): Commit[] {
  const writes = changes.filter((change) => change.kind === 'write')
  const image = Buffer.alloc(Math.max(start.length, HEADER, ...writes.map(({ at, bytes }) => at + bytes.length)))
  start.copy(image)
  const commits: Commit[] = []
  let open: (Commit & { frames: Map<number, Buffer> }) | undefined
  let last = 0
  for (const { at, began, ended, bytes } of writes) {
    bytes.copy(image, at)
    const size = FRAME_HEADER + image.readUInt32BE(8)
    const before = Math.floor((at - HEADER) / size)
    const after = Math.floor((at + bytes.length - HEADER) / size)
    // The log begins again, or checksums of the last transaction are written once more.
    if (at < HEADER) {
      open = undefined
      last = 0
    } else if (!open && at + bytes.length <= last) commits.at(-1)!.ended = ended
    else open = { pages: [], frames: new Map(), began, ...open, ended }
    for (let frame = Math.max(before, 0); open && frame < after; frame++) {
      const place = HEADER + frame * size
      open.frames.set(frame, Buffer.from(image.subarray(place + FRAME_HEADER, place + size)))
      // Frames above this one are of a transaction that was given up.
      for (const other of open.frames.keys()) if (other > frame) open.frames.delete(other)
      if (image.readUInt32BE(place + 4) === 0) continue
      commits.push({ began: open.began, ended: open.ended, pages: [...open.frames.values()] })
      last = place + size
      open = undefined
    }
  }
  return commits
}

/** The first transaction that holds each of these names. */
function firstWith(commits: readonly Commit[], names: Iterable<string>): Map<string, Commit> {
  const sought = new Set(names)
  const found = new Map<string, Commit>()
  for (const commit of commits)
    for (const page of commit.pages)
      for (const name of sought) if (page.includes(name, 0, 'latin1') && sought.delete(name)) found.set(name, commit)
  return found
}

/** One sentence for each reply that was sent before its data was durable. */
export function tooEarly(history: History, promises: readonly Promised[]): string[] {
  const log = history.named.get(LOG)
  if (!log) return ['there is no log']
  const commits = commitsOf(log.start ?? Buffer.alloc(0), log.changes)
  const files = [...history.named].filter(([name]) => /^spool\/.*~/.test(name))
  const named = firstWith(
    commits,
    files.map(([name]) => ownName(name)),
  )
  const rows = firstWith(
    commits,
    promises.map(({ name }) => name),
  )
  return promises.flatMap(({ answered, kind, name }) => {
    const what = `${kind} ${name}, answered at line ${answered + 1}`
    // A large message is a file, and its row names that file.
    const file = files.find(([, { changes }]) => changes.some((change) => begins(change, name)))?.[0]
    const both = [rows.get(name), named.get(ownName(file ?? ''))].filter((each) => each !== undefined)
    const commit = both.sort((one, two) => one.began - two.began)[0]
    if (!commit) return [`${what}: no transaction holds it`]
    // A file is durable before any row names it (src/README.md), so all that the transaction names are asked.
    const early = files.filter(([each]) => named.get(ownName(each)) === commit && !durableAt(history, each, answered))
    return [
      ...(syncedBetween(log, commit.ended, answered) ? [] : [`${what}: its transaction was not synced`]),
      ...early.map(([each]) => `${what}: ${each} was not synced with its folder`),
    ]
  })
}

const ownName = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

const begins = (change: Change, name: string): boolean =>
  change.kind === 'write' && change.at === 0 && change.bytes.subarray(0, HEAD).includes(name)
