// Composes and signs emails in a worker thread: the input is the data of an email, the output are the bytes for DATA.
// Parsed keys and compiled templates are cached, and missing ones are requested from the server. Attachments are read
// from their files one at a time, and a large email is written into one buffer, so that an email of 40 MB needs little
// more memory than 40 MB.
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { keepNewest } from '../base/maps.ts'
import { askForAll } from '../base/threads/jobs.ts'
import { readProven } from '../base/spooled.ts'
import {
  compileCampaign,
  fillCampaign,
  signCampaign,
  sizeOfBody,
  type CampaignRecipient,
  type CampaignTemplate,
  type CompiledCampaign,
} from './campaign.ts'
import { compose, stuffDots, type Mail } from './compose.ts'
import { signLarge } from './dkim.ts'
import { octetOf } from './reencode.ts'
import { unsubscribeFields } from './list-unsubscribe.ts'
import { relayed } from './relay.ts'
import { readBody, type StoredBody, type StoredText, type WrittenBody } from './stored-body.ts'
import { MAX_MESSAGE, TooLarge } from './too-large.ts'
import { filledBody, readValues, type Syntax } from './variables.ts'

export interface ComposeJob {
  mail: Omit<Mail, 'html' | 'text' | 'attachments'>
  /** A StoredBody whose files are names in `spool`: JSON, or a file (message/stored-body.ts). */
  content: StoredText
  /** The body is shared by a batch. `values`: those of the recipient (message/variables.ts). */
  fill?: { syntax: Syntax; values: string } | undefined
  /** This server's unsubscribe address for the recipient, as a URI. */
  mailto: string
  /** Directory of the files that attachments name. */
  spool: string
  signature: Signing
  /** For a server without 8BITMIME. Only mail from SMTP submission has 8-bit text. */
  sevenBit?: boolean
  /** For a server without UTF-8 in the header. Only mail from SMTP submission has such a header. */
  asciiHeader?: boolean
}

/** The key to sign with, and the time of signing. A worker requests a key that it does not have. */
export interface Signing {
  domain: string
  selector: string
  keyId: string
  /** Milliseconds. */
  time: number
}

/** The questions of a thread to the server. */
export type LetterAsks = { key: string } | { campaign: string }

export interface CampaignJob {
  /** The name of the template. The worker requests one that it does not have. */
  campaign: string
  recipient: CampaignRecipient
  signature: Signing
}

/** Templates that a worker keeps compiled. */
const MAX_TEMPLATES = 20
const templates = new Map<string, Promise<CompiledCampaign>>()

function templateOf(id: string): Promise<CompiledCampaign> {
  let compiled = templates.get(id)
  if (!compiled) {
    compiled = askForAll<CampaignTemplate>({ campaign: id } satisfies LetterAsks).then((template) => {
      if (!template) throw new Error('The campaign is no longer known.')
      return compileCampaign(template)
    })
    // A failure is not kept, because the next request may succeed.
    compiled.catch(() => templates.delete(id))
    templates.set(id, compiled)
    keepNewest(templates, MAX_TEMPLATES)
  }
  return compiled
}

/** Waits until there is enough memory for an email of this size. */
export type RoomFor = (bytes: number) => Promise<void>
const noWait: RoomFor = () => Promise.resolve()

/** The bytes that follow DATA, final dot included. */
async function fillAndSign(
  { campaign, recipient, signature }: CampaignJob,
  room: RoomFor,
): Promise<Uint8Array<ArrayBuffer>> {
  const mail = fillCampaign(await templateOf(campaign), recipient)
  const privateKey = await keyOf(signature)
  await room(sizeOfBody(mail))
  return signCampaign(mail, { ...signature, privateKey })
}

/** Beyond this many, all keys are dropped. */
const MAX_KEYS = 1000
const keys = new Map<string, Promise<KeyObject>>()

function keyOf({ keyId }: Signing): Promise<KeyObject> {
  let opened = keys.get(keyId)
  if (!opened) {
    if (keys.size >= MAX_KEYS) keys.clear()
    opened = askForAll<string>({ key: keyId } satisfies LetterAsks).then((pem) => {
      if (pem === undefined) throw new Error('The DKIM key was erased.')
      return createPrivateKey(pem)
    })
    opened.catch(() => keys.delete(keyId))
    keys.set(keyId, opened)
  }
  return opened
}

type SizedMail = Omit<Mail, 'attachments'> & {
  attachments: readonly (Mail['attachments'][number] & { size: number })[]
}

/**
 * The bytes that follow DATA, final dot included. A single byte when the mail cannot be made in the required form
 * (`reasonOf`).
 */
export async function composeAndSign(
  { mail, mailto, content, fill, spool, signature, sevenBit, asciiHeader }: ComposeJob,
  room: RoomFor = noWait,
): Promise<Uint8Array<ArrayBuffer>> {
  const whole = wholeMail({ mail, mailto, content, fill, spool })
  if ('raw' in whole) {
    await room(whole.raw.length)
    const { extra, tracking } = mail
    const relay = { extra, tracking, sevenBit: sevenBit === true, asciiHeader: asciiHeader === true }
    const wire = relayed(whole.raw, relay, { ...signature, privateKey: await keyOf(signature) })
    // A server that takes only 7 bits may get more, but tracked links may not make a message too large.
    if (!sevenBit && typeof wire !== 'string' && wire.length >= MAX_MESSAGE + SLACK) throw new TooLarge()
    return typeof wire === 'string' ? octetOf(wire) : wire
  }
  const { attachments, html, text } = whole
  const size = html.length + (text?.length ?? 0) + attachments.reduce((sum, each) => sum + each.size * 1.4, 0)
  await room(Math.ceil(size))
  return composeInOne(whole, signature, Math.ceil(size))
}

/** An email with its stored body, which `change` can change. For SMTP submission, the body is the received bytes. */
export function wholeMail(
  { content, fill, mail, mailto, spool }: Pick<ComposeJob, 'content' | 'fill' | 'mail' | 'mailto' | 'spool'>,
  change: (body: WrittenBody) => WrittenBody = (same) => same,
): SizedMail | { raw: Buffer } {
  const stored = 'text' in content ? (JSON.parse(content.text) as StoredBody) : readBody(readProven(content.file))
  if (stored.raw)
    return {
      raw: 'text' in stored.raw ? Buffer.from(stored.raw.text, 'latin1') : readProven(`${spool}/${stored.raw.file}`),
    }
  const body = change(fill ? filledBody(fill.syntax, stored, readValues(fill.values)) : stored)
  const attachments = (body.attachments ?? []).map((attachment) => ({
    ...attachment,
    bytes: () =>
      'text' in attachment.content
        ? Buffer.from(attachment.content.text, 'base64')
        : readProven(`${spool}/${attachment.content.file}`),
  }))
  const leaves = body.unsubscribe ? unsubscribeFields(body.unsubscribe, mailto) : []
  const extra = [...(body.headers ?? []), ...leaves, ...mail.extra]
  return { ...mail, html: body.html, text: body.text, attachments, extra }
}

/** The bytes that this server may add to a message that was just below the limit when it was accepted. */
const SLACK = 64 * 1024

/** Bytes reserved in front of a message for the signature, which is computed last, and for its header. */
const HEADROOM = 4096
const END = Buffer.from('.\r\n')

/** Composes an email into one buffer and signs it there. `guess`: the bytes of its bodies and files. */
async function composeInOne(mail: Mail, signature: Signing, guess: number): Promise<Uint8Array<ArrayBuffer>> {
  const privateKey = await keyOf(signature)
  // Line ends, boundaries and some quoted-printable are more than the guess.
  let buffer = Buffer.allocUnsafeSlow(2 * HEADROOM + Math.ceil(guess * 1.05) + Math.min(guess, 64 * 1024))
  let end = HEADROOM
  const put = (text: string): void => {
    const octets = Buffer.byteLength(text)
    // Tracked links are longer than those that were counted when the mail was accepted.
    if (end + octets >= MAX_MESSAGE + SLACK) throw new TooLarge()
    if (end + octets + END.length > buffer.length) {
      // Not from the pool: the message starts at an offset of the whole buffer below.
      const larger = Buffer.allocUnsafeSlow(2 * buffer.length + octets)
      buffer.copy(larger, 0, 0, end)
      buffer = larger
    }
    // ASCII is copied, not encoded.
    end += buffer.write(text, end, octets === text.length ? 'latin1' : 'utf8')
  }
  for (const piece of compose(mail)) put(piece)
  const message = buffer.subarray(HEADROOM, end)
  const field = Buffer.from(signLarge(message, { ...signature, privateKey }))
  // Only a header field of the sender can begin a line with a dot. In bodies it is encoded.
  if (message.includes('\r\n.'))
    return new Uint8Array(Buffer.concat([field, Buffer.from(stuffDots(message.toString())), END]))
  field.copy(buffer, HEADROOM - field.length)
  end += END.copy(buffer, end)
  return new Uint8Array(buffer.buffer, HEADROOM - field.length, end - HEADROOM + field.length)
}

/** The bytes that follow DATA, final dot included, or one byte (`reasonOf`). Throws when it cannot be made now. */
export async function letterOf(
  job: ComposeJob | CampaignJob,
  room: RoomFor = noWait,
): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await ('campaign' in job ? fillAndSign(job, room) : composeAndSign(job, room))
  } catch (thrown) {
    if (thrown instanceof TooLarge) return octetOf('large')
    throw thrown
  }
}
