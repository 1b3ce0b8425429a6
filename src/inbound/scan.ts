// Sends content to the virus scanner, clamd, over its socket by INSTREAM (clamd(8)). No answer does not mean "clean":
// the message is deferred (D47).
import { connect, type Socket } from 'node:net'
import { upTo } from '../base/text.ts'
import { MINUTE } from '../base/clock.ts'
import { parseEndpoint } from '../base/network.ts'
import { openSpooled } from '../base/spooled.ts'

export type ScanResult = { kind: 'clean' } | { kind: 'found'; name: string } | { kind: 'unavailable'; reason: string }

const CHUNK = 64 * 1024
const PATIENCE = 2 * MINUTE
const MAX_ANSWER = 1000

/** Scans bytes or a file with the clamd at "host:port" or a socket path. Never throws. */
export async function scan(
  clamd: string,
  content: Uint8Array | { file: string },
  patience: number = PATIENCE,
): Promise<ScanResult> {
  try {
    return judge(await ask(clamd, content, patience))
  } catch (thrown) {
    return { kind: 'unavailable', reason: thrown instanceof Error ? thrown.message : String(thrown) }
  }
}

/** The name of a virus from the database, as text, or "a virus" if the stored name is corrupt. */
export const nameOfVirus = (kept: string): string => (/^[\x20-\x7e]{1,200}$/.test(kept) ? kept : 'a virus')

function judge(answer: string): ScanResult {
  const [, name] = /^stream: (.*) FOUND$/.exec(answer) ?? []
  if (name !== undefined) return { kind: 'found', name: name.replace(/[^\x20-\x7e]/g, '').slice(0, 200) }
  return answer === 'stream: OK' ? { kind: 'clean' } : { kind: 'unavailable', reason: answer.slice(0, 200) }
}

async function ask(clamd: string, content: Uint8Array | { file: string }, patience: number): Promise<string> {
  const endpoint = parseEndpoint(clamd)
  const socket = endpoint && !clamd.startsWith('/') ? connect(endpoint.port, endpoint.host) : connect(clamd)
  socket.setTimeout(patience, () => socket.destroy(new Error('clamd does not answer')))
  const answered = new Promise<string>((resolve, reject) => {
    let text = ''
    socket.setEncoding('latin1').on('data', (data: string) => {
      text += data
      if (text.includes('\0') || text.length > MAX_ANSWER) resolve(upTo(text, '\0').trim())
    })
    socket.on('error', reject).on('close', () => reject(new Error('clamd closed the connection')))
  })
  // clamd may answer and close before all bytes are sent (its size limit).
  answered.catch(() => {})
  try {
    socket.write('zINSTREAM\0')
    const chunks =
      'file' in content ? (await openSpooled(content.file)).createReadStream({ highWaterMark: CHUNK }) : slices(content)
    for await (const chunk of chunks as AsyncIterable<Uint8Array>) if (!(await put(socket, chunk))) break
    if (socket.writable) socket.write(Buffer.alloc(4))
    return await answered
  } finally {
    socket.destroy()
  }
}

function* slices(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += CHUNK) yield bytes.subarray(at, at + CHUNK)
}

/** Sends one chunk with its length in front. Returns false if the scanner has stopped reading. */
async function put(socket: Socket, chunk: Uint8Array): Promise<boolean> {
  if (!socket.writable) return false
  const length = Buffer.alloc(4)
  length.writeUInt32BE(chunk.length)
  socket.write(length)
  if (socket.write(chunk)) return true
  await new Promise<void>((resolve) => {
    const go = (): void => {
      socket.off('drain', go).off('close', go)
      resolve()
    }
    socket.on('drain', go).on('close', go)
  })
  return socket.writable
}
