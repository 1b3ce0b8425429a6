// A clamd on loopback that speaks INSTREAM (clamd(8)) and replies as the test sets it.
import { createServer, type AddressInfo, type Socket } from 'node:net'

export interface TestScanner {
  /** For inbound.clamav. */
  address: string
  /** The received messages. */
  scanned: Buffer[]
  /** The reply to a message, or undefined for no reply. */
  answer: (message: Buffer) => string | undefined
  close(): Promise<void>
}

export async function startScanner(): Promise<TestScanner> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    let bytes = Buffer.alloc(0)
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    socket.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk])
      const message = streamOf(bytes)
      if (!message) return
      scanner.scanned.push(message)
      const answer = scanner.answer(message)
      if (answer !== undefined) socket.end(`${answer}\0`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const scanner: TestScanner = {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    scanned: [],
    answer: () => 'stream: OK',
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
  return scanner
}

const COMMAND = 'zINSTREAM\0'

/** The whole message once the chunk of length 0 has come. */
function streamOf(bytes: Buffer): Buffer | undefined {
  if (bytes.toString('latin1', 0, COMMAND.length) !== COMMAND) return undefined
  const chunks: Buffer[] = []
  for (let at = COMMAND.length; at + 4 <= bytes.length;) {
    const length = bytes.readUInt32BE(at)
    if (length === 0) return Buffer.concat(chunks)
    chunks.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return undefined
}
