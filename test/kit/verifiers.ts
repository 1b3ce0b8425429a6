// The verifiers of docs/webhooks.md, and the result that each must have for good, bad, stale and malformed requests.
import { readFileSync } from 'node:fs'
import { signatureHeader } from '../../src/webhooks/post.ts'

const PAGE = new URL('../../docs/webhooks.md', import.meta.url)

/** The code of the page in one language, byte for byte. */
export function snippet(language: string): string {
  const [, ...found] = readFileSync(PAGE, 'utf8').split(`\`\`\`${language}\n`)
  if (found.length !== 1) throw new Error(`${found.length} blocks of ${language}`)
  return found[0]!.slice(0, found[0]!.indexOf('\n```'))
}

export const SECRET = `whsec_${Buffer.alloc(32, 'key').toString('base64')}`
const OTHER = `whsec_${Buffer.alloc(32, 'other').toString('base64')}`
const ID = '019bc186-de00-738a-a9ec-e0b19577265d'
const BODY = '{"type":"email.delivered","data":{"subject":"Grüße 🦊","text":"a\\nb"}}'

export interface Case {
  name: string
  genuine: boolean
  /** The headers by lower-case name. A missing header has no entry. */
  headers: Record<string, string>
  /** Base64. */
  body: string
}

/** Requests that arrive at `now`, in Unix seconds. */
export function cases(now: number): Case[] {
  const signature = (timestamp: number | string, body = BODY, secret = SECRET, id = ID): string =>
    signatureHeader([secret], id, timestamp as number, body)
  const request = (name: string, genuine: boolean, headers: Record<string, string | undefined>, body = BODY): Case => ({
    name,
    genuine,
    headers: Object.fromEntries(
      Object.entries({
        'webhook-id': ID,
        'webhook-timestamp': String(now),
        'webhook-signature': signature(now, body),
        ...headers,
      }).filter((each): each is [string, string] => each[1] !== undefined),
    ),
    body: Buffer.from(body).toString('base64'),
  })
  const signed = (name: string, given: string): Case => request(name, false, { 'webhook-signature': given })
  const at = (name: string, timestamp: number | string, genuine = false): Case =>
    request(name, genuine, { 'webhook-timestamp': String(timestamp), 'webhook-signature': signature(timestamp) })
  const good = signature(now)
  return [
    request('as it was sent', true, {}),
    request('after a rotation', true, { 'webhook-signature': `${signature(now, BODY, OTHER)} ${good}` }),
    request('before a signature of another version', true, { 'webhook-signature': `${good} v1a,AAAA` }),
    request('an empty body', true, {}, ''),
    at('four minutes old', now - 240, true),
    at('four minutes ahead', now + 240, true),
    at('six minutes old', now - 360),
    at('six minutes ahead', now + 360),
    at('of the year 1970', 0),
    at('no number', 'yesterday'),
    at('an empty time', ''),
    at('a negative time', -now),
    at('another way to write a number', `${now}e0`),
    at('a number beyond all', '9'.repeat(40)),
    at('a number that is none', 'NaN'),
    at('a time without end', 'Infinity'),
    request('another body', false, { 'webhook-signature': signature(now, `${BODY} `) }),
    request('another id', false, { 'webhook-id': 'another' }),
    request('another time than was signed', false, { 'webhook-timestamp': String(now - 1) }),
    request('another secret', false, { 'webhook-signature': signature(now, BODY, OTHER) }),
    request('no id', false, { 'webhook-id': undefined }),
    request('no time', false, { 'webhook-timestamp': undefined }),
    request('no signature', false, { 'webhook-signature': undefined }),
    signed('an empty signature', ''),
    signed('blanks', '   '),
    signed('a version alone', 'v1'),
    signed('a version and a comma', 'v1,'),
    signed('a letter', 'x'),
    signed('a comma', ','),
    signed('base64 that is none', 'v1,%%%%'),
    signed('letters that are not ASCII', 'v1,ÄÖÜ'),
    signed('half of it', good.slice(0, 20)),
    signed('more than it', `${good}AAAA`),
    signed('another version', good.replace('v1,', 'v2,')),
    signed('no version', good.slice(3)),
    signed('far too much', `v1,${'A'.repeat(50_000)}`),
    signed('many of them', 'v1,AAAA '.repeat(5000)),
  ]
}
