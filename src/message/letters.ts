// Composes and signs mail in a worker thread: the input is the data of a mail, the output are the bytes for DATA.
// Parsed keys and compiled templates are kept; missing ones are requested from the server. Attachments are read from
// their files one at a time, and a large mail is written into one buffer, so that a mail of 40 MB needs little more
// memory than 40 MB.
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { keepNewest } from '../base/maps.ts'
import { release } from '../base/memory.ts'
import { ReusedBuffers } from '../base/reused-buffers.ts'
import { askForAll } from '../base/threads/jobs.ts'
import { readProven } from '../base/spooled.ts'
import {
  compileCampaign,
  fillCampaign,
  signCampaign,
  type CampaignRecipient,
  type CampaignTemplate,
  type CompiledCampaign,
} from './campaign.ts'
import { compose, stuffDots, type Mail } from './compose.ts'
import { signLarge } from './dkim.ts'
import { octetOf } from './reencode.ts'
import { relayed } from './relay.ts'
import { readBody, type StoredBody, type StoredText } from './stored-body.ts'

export interface ComposeJob {
  mail: Omit<Mail, 'html' | 'text' | 'attachments'>
  /** A StoredBody whose files are names in `spool`: JSON, or a file (message/stored-body.ts). */
  content: StoredText
  /** Directory of the files that attachments name. */
  spool: string
  signature: Signing
  /** For a server without 8BITMIME; only mail from SMTP submission has 8-bit text. */
  sevenBit?: boolean
  /** For a server that takes no UTF-8 in the header; only mail from SMTP submission has such a header. */
  asciiHeader?: boolean
}

/** The key to sign with, and the time of signing; a worker asks for a key that it does not have. */
export interface Signing {
  domain: string
  selector: string
  keyId: string
  /** Milliseconds. */
  time: number
}

/** The questions of a thread to the server. */
export type LetterAsks = { key: string } | { campaign: string }

/** One mail of a campaign. */
export interface CampaignJob {
  /** The name of the template; the worker asks for one that it does not have. */
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

/** The memory of mails of campaigns. */
const buffers = new ReusedBuffers()

/** Call it when the octets of a letter are no longer read. */
export function letGo(octets: Uint8Array): void {
  if (!buffers.giveBack(octets)) release(octets)
}

/** The bytes that follow DATA, final dot included. */
async function fillAndSign({ campaign, recipient, signature }: CampaignJob): Promise<Uint8Array<ArrayBuffer>> {
  const mail = fillCampaign(await templateOf(campaign), recipient)
  const privateKey = await keyOf(signature)
  return signCampaign(mail, { ...signature, privateKey }, (octets) => buffers.take(octets))
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
 * The bytes that follow DATA, final dot included; a single octet when the mail cannot be made in the required form
 * (`reasonOf`).
 */
export async function composeAndSign({
  mail,
  content,
  spool,
  signature,
  sevenBit,
  asciiHeader,
}: ComposeJob): Promise<Uint8Array<ArrayBuffer>> {
  const whole = wholeMail({ mail, content, spool })
  if ('octets' in whole) {
    const { extra, tracking } = mail
    const relay = { extra, tracking, sevenBit: sevenBit === true, asciiHeader: asciiHeader === true }
    const wire = relayed(whole.octets, relay, { ...signature, privateKey: await keyOf(signature) })
    return typeof wire === 'string' ? octetOf(wire) : wire
  }
  const { attachments, html, text } = whole
  const size = html.length + (text?.length ?? 0) + attachments.reduce((sum, each) => sum + each.size * 1.4, 0)
  return composeInOne(whole, signature, Math.ceil(size))
}

/** A mail with its stored body; of mail from SMTP submission the octets that came. */
export function wholeMail({
  content,
  mail,
  spool,
}: Pick<ComposeJob, 'content' | 'mail' | 'spool'>): SizedMail | { octets: Buffer } {
  const body = 'text' in content ? (JSON.parse(content.text) as StoredBody) : readBody(readProven(content.file))
  if (body.raw)
    return {
      octets: 'text' in body.raw ? Buffer.from(body.raw.text, 'latin1') : readProven(`${spool}/${body.raw.file}`),
    }
  const attachments = (body.attachments ?? []).map((attachment) => ({
    ...attachment,
    bytes: () =>
      'text' in attachment.content
        ? Buffer.from(attachment.content.text, 'base64')
        : readProven(`${spool}/${attachment.content.file}`),
  }))
  return { ...mail, html: body.html, text: body.text, attachments, extra: [...(body.headers ?? []), ...mail.extra] }
}

/** Octets reserved in front of a message for the signature, which is computed last, and for its header. */
const HEADROOM = 4096
const END = Buffer.from('.\r\n')

/** Composes a mail into one buffer and signs it there. `guess`: the octets of its bodies and files. */
async function composeInOne(mail: Mail, signature: Signing, guess: number): Promise<Uint8Array<ArrayBuffer>> {
  const privateKey = await keyOf(signature)
  // Line ends, boundaries and some quoted-printable are more than the guess.
  let buffer = Buffer.allocUnsafeSlow(2 * HEADROOM + Math.ceil(guess * 1.05) + Math.min(guess, 64 * 1024))
  let end = HEADROOM
  const put = (text: string): void => {
    const octets = Buffer.byteLength(text)
    if (end + octets + END.length > buffer.length) {
      // Not from the pool: the message begins at a place of the whole memory below.
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
  // Only a header field of the sender can begin a line with a dot; in bodies it is encoded.
  if (message.includes('\r\n.'))
    return new Uint8Array(Buffer.concat([field, Buffer.from(stuffDots(message.toString())), END]))
  field.copy(buffer, HEADROOM - field.length)
  end += END.copy(buffer, end)
  return new Uint8Array(buffer.buffer, HEADROOM - field.length, end - HEADROOM + field.length)
}

/** The bytes that follow DATA, final dot included, or one octet (`reasonOf`). Throws when it cannot be made now. */
export const letterOf = (job: ComposeJob | CampaignJob): Promise<Uint8Array<ArrayBuffer>> =>
  'campaign' in job ? fillAndSign(job) : composeAndSign(job)
