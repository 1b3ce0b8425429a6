// Tests an exchanger's TLS: its certificate, and whether it accepts an offer of a single version, suite or group.
import type { X509Certificate } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions, type DetailedPeerCertificate, type TLSSocket } from 'node:tls'
import { trusting } from '../base/tls.ts'
import { certificatesOf } from '../smtp/dane.ts'

export interface Handshake {
  protocol: string
  cipher: string
  /** "X25519", "prime256v1"; undefined for TLS without ephemeral keys. */
  group: string | undefined
  certificate: DetailedPeerCertificate
  /** What the server sent, its own certificate first. */
  shown: X509Certificate[]
  trusted: boolean
}

export interface ExchangerPlace {
  host: string
  address: string
  port: number
}

const TIMEOUT = 8000

/** Whether an SMTP server answers at this address. */
export const answers = async (place: ExchangerPlace): Promise<boolean> => (await opened(place)) !== undefined

/**
 * One STARTTLS handshake with these options; undefined when it fails, 'no STARTTLS' when the server does not offer it.
 */
export async function shake(
  place: ExchangerPlace,
  authority: string | undefined,
  options: ConnectionOptions = {},
): Promise<Handshake | 'no STARTTLS' | undefined> {
  const smtp = await opened(place)
  if (!smtp) return undefined
  try {
    if (!/^250[- ]STARTTLS\r$/im.test(await smtp.ask('EHLO grade.invalid'))) return 'no STARTTLS'
    if (!(await smtp.ask('STARTTLS')).startsWith('220')) return 'no STARTTLS'
    return await agreed(smtp.socket, {
      servername: place.host,
      rejectUnauthorized: false,
      ...trusting(authority),
      ...options,
    })
  } finally {
    smtp.socket.destroy()
  }
}

function agreed(socket: Socket, options: ConnectionOptions): Promise<Handshake | undefined> {
  return new Promise((resolve) => {
    let secure: TLSSocket
    try {
      secure = connectTls({ socket, ...options })
    } catch {
      // This machine's OpenSSL does not know the requested algorithm.
      return resolve(undefined)
    }
    secure.setTimeout(TIMEOUT, () => secure.destroy())
    secure.on('error', () => resolve(undefined)).on('close', () => resolve(undefined))
    secure.on('secureConnect', () => {
      const key = secure.getEphemeralKeyInfo() as { name?: string } | null
      resolve({
        protocol: secure.getProtocol() ?? '',
        cipher: secure.getCipher().standardName,
        group: key?.name,
        certificate: secure.getPeerCertificate(true),
        shown: certificatesOf(secure),
        trusted: secure.authorized,
      })
      secure.destroy()
    })
  })
}

interface Dialogue {
  socket: Socket
  ask(line: string): Promise<string>
}

/** Opens a connection and reads its greeting. */
async function opened({ address, port }: ExchangerPlace): Promise<Dialogue | undefined> {
  const socket = connect({ host: address, port })
  let text = ''
  let wake = (): void => {}
  let ended = false
  const over = (): void => {
    ended = true
    wake()
  }
  socket.setTimeout(TIMEOUT, () => socket.destroy())
  socket.on('error', over).on('close', over)
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    wake()
  })
  const reply = async (): Promise<string> => {
    for (;;) {
      const whole = /^(?:\d{3}-.*\r\n)*\d{3}(?: .*)?\r\n/.exec(text)?.[0]
      if (whole !== undefined) {
        text = text.slice(whole.length)
        return whole
      }
      if (ended || text.length > 65_536) return ''
      await new Promise<void>((resolve) => (wake = resolve))
    }
  }
  if (!(await reply()).startsWith('220')) {
    socket.destroy()
    return undefined
  }
  return {
    socket,
    ask(line) {
      socket.write(`${line}\r\n`)
      return reply()
    },
  }
}
