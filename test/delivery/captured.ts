// Checks of captured emails by independent software: mailauth checks every signature, and Python's email package
// (policy default) must read every email without defects. The wire format is checked here.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import type { TestAppliance } from '../kit/appliance.ts'
import type { Heard, TestExchanger } from '../kit/exchanger.ts'

export interface ReadPart {
  type: string
  filename: string | null
  disposition: string | null
  cid: string | null
  sha256: string | null
  parts: ReadPart[]
}
export interface ReadMail {
  defects: string[]
  root: ReadPart
  headers: [string, string][]
}

const READER = `
import sys, json, base64, hashlib, email, email.policy
def defects(part):
    found = [repr(d) for d in part.defects]
    for name, value in part.items():
        found += [name + ': ' + repr(d) for d in getattr(value, 'defects', ())]
    return found
def tree(part):
    many = part.is_multipart()
    bytes_ = None if many else part.get_payload(decode=True)
    return {'type': part.get_content_type(), 'filename': part.get_filename(), 'disposition': part.get_content_disposition(),
            'cid': None if part['content-id'] is None else str(part['content-id']),
            'sha256': None if many else hashlib.sha256(bytes_).hexdigest(),
            'parts': [tree(p) for p in part.iter_parts()] if many else []}
out = []
for text in json.load(sys.stdin):
    mail = email.message_from_bytes(base64.b64decode(text), policy=email.policy.default)
    root = tree(mail)
    out.append({'defects': [d for p in mail.walk() for d in defects(p)], 'root': root,
                'headers': [[n, str(v)] for n, v in mail.items()]})
json.dump(out, sys.stdout)
`

/** False, or the line that a skipped test shows. */
export const withoutPython =
  spawnSync('python3', ['-c', 'import email.policy']).status === 0 ? false : 'python3 is not installed here'

/** The emails as Python's email package reads them. */
export function readByPython(messages: readonly string[]): ReadMail[] {
  const { status, stdout, stderr } = spawnSync('python3', ['-c', READER], {
    input: JSON.stringify(messages.map((message) => Buffer.from(message).toString('base64'))),
    maxBuffer: 256 * 1024 * 1024,
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  return JSON.parse(stdout) as ReadMail[]
}

/** The email with this Message-ID, which must have been received exactly once. */
export function heardAs({ heard }: TestExchanger, messageId: string): Heard {
  const found = heard.filter(({ message }) => message.includes(`\r\nMessage-ID: ${messageId}\r\n`))
  assert.equal(found.length, 1, `${messageId} was heard ${found.length} times`)
  return found[0]!
}

/** The header fields, unfolded. */
export function fieldsOf(message: string): [name: string, value: string][] {
  return message
    .slice(0, message.indexOf('\r\n\r\n'))
    .replace(/\r\n([ \t])/g, '$1')
    .split('\r\n')
    .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).replace(/^ /, '')])
}

export async function dkimOf(postrider: TestAppliance, message: string): Promise<string | undefined> {
  const { results } = await dkimVerify(Buffer.from(message), {
    resolver: async (name: string, type: string) => {
      const answer = type === 'TXT' ? await postrider.dns.resolver.txt(name) : { kind: 'none' }
      return 'records' in answer ? answer.records.map((text) => [text]) : []
    },
  })
  assert.equal(results.length, 1)
  return results[0]?.status.result
}

/** The requirements for every sent email (D32). */
export async function judgeAll(postrider: TestAppliance, heard: readonly Heard[]): Promise<void> {
  assert.ok(heard.length > 0)
  for (const { message } of heard) {
    const at = message.slice(0, 2000)
    assert.doesNotMatch(message, /\r(?!\n)|(?<!\r)\n|\0/, at)
    for (const line of message.split('\r\n')) assert.ok(Buffer.byteLength(line) <= 998, at)
    const names = fieldsOf(message).map(([name]) => name.toLowerCase())
    for (const name of ['from', 'to', 'subject', 'date', 'message-id', 'mime-version', 'dkim-signature'])
      assert.equal(names.filter((each) => each === name).length, 1, `one ${name}: ${at}`)
    assert.ok(!names.includes('bcc'), at)
    assert.equal(await dkimOf(postrider, message), 'pass', at)
  }
  if (withoutPython) return
  // It takes the 8-bit header of an international address (RFC 6532) for a defect.
  // oxlint-disable-next-line no-control-regex
  const ascii = heard.filter(({ message }) => /^[\u0000-\u007f]*$/.test(message))
  for (const [index, { defects }] of readByPython(ascii.map(({ message }) => message)).entries())
    assert.deepEqual(defects, [], ascii[index]!.message.slice(0, 4000))
}

/**
 * The media types of an email's parts as a tree, such as `mixed(alternative(plain, html), pdf)`. Boundaries followed by
 * hand.
 */
export function shapeOf(message: string): string {
  const split = message.indexOf('\r\n\r\n')
  const header = message.slice(0, split).replace(/\r\n[ \t]+/g, ' ')
  const [, type] = /^Content-Type: [\w.+-]+\/([\w.+-]+)/im.exec(header)!
  const [, boundary] = /boundary="([^"]+)"/i.exec(header) ?? []
  if (boundary === undefined) return type!
  const body = `\r\n${message.slice(split + 4)}`
  assert.ok(body.includes(`\r\n--${boundary}--`), `${boundary} is closed`)
  const parts = body
    .slice(0, body.indexOf(`\r\n--${boundary}--`))
    .split(`\r\n--${boundary}\r\n`)
    .slice(1)
  return `${type}(${parts.map(shapeOf).join(', ')})`
}
