// Mail of every kind, made from a seed, in the form before signing.
import { compileCampaign, fillCampaign, type FilledCampaign } from '../../src/message/campaign.ts'
import { compose, type Mail } from '../../src/message/compose.ts'
import type { Address } from '../../src/message/address.ts'
import { seeded } from './seeded.ts'

const RANGES: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0x20, 0x7e],
  [0, 0x1f],
  [0x80, 0x24f],
  [0x370, 0x5ff],
  [0x2000, 0x206f],
  [0x4e00, 0x4fff],
  [0xd800, 0xdfff],
  [0xfe00, 0xffff],
  [0x1f300, 0x1f6ff],
]
const MARKS = ['\r\n', '\n', '\r', '.', '\r\n.', ' ', '  ', '\t', '=?', '?=', '=', '"', ',', 'From ', '\r\nFrom ']

/** Text of one script with letters, and with characters that matter for the encoding of an email. */
export function randomText(random: () => number, most: number): string {
  let text = ''
  const [low, high] = RANGES[Math.floor(random() * RANGES.length)]!
  for (let left = Math.floor(random() * most); left > 0; left--) {
    const pick = random()
    if (pick < 0.15) text += MARKS[Math.floor(random() * MARKS.length)]!
    else if (pick < 0.5) text += String.fromCharCode(0x61 + Math.floor(random() * 26))
    else text += String.fromCodePoint(low + Math.floor(random() * (high - low + 1)))
  }
  return text
}

const FROM = 'here.example'
const DATE = Date.UTC(2026, 10, 20, 16, 53, 57)

/** One line without the characters that the parser of addresses refuses. */
const oneLine = (text: string): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\u2028\u2029\s]+/gu, ' ')
    .trim()

/** The email of this seed: composed, or (every third) of a campaign. */
export function letter(seed: number): string {
  const random = seeded(seed)
  const text = (most: number): string => randomText(random, most)
  const person = (local: string, domain: string): Address => {
    const name = random() < 0.3 ? '' : oneLine(text(random() < 0.1 ? 400 : 40))
    return { name, address: `${local}@${domain}`, local, domain }
  }
  const people = (most: number): Address[] =>
    Array.from({ length: Math.floor(random() * (most + 1)) }, (_, n) => person(`n${n}`, 'there.example'))
  const maybe = <T>(value: T): T[] => (random() < 0.5 ? [value] : [])
  const messageId = `<${seed}.${Math.floor(random() * 1e9)}@${FROM}>`
  const own: [string, string][] = [
    ...maybe<[string, string]>(['In-Reply-To', '<a@there.example>']),
    ...maybe<[string, string]>([
      'References',
      '<a@there.example>   <b@there.example>'.repeat(1 + Math.floor(random() * 5)),
    ]),
    ...maybe<[string, string]>(['references', '<another@there.example>']),
    ...maybe<[string, string]>(['X-Spaces', `a${' '.repeat(1 + Math.floor(random() * 200))}b `]),
    ['Feedback-ID', `0:${seed}:transactional:${FROM}`],
  ]
  const leave: [string, string][] = [
    [
      'List-Unsubscribe',
      `<https://mx.${FROM}/u/${'x'.repeat(Math.floor(random() * 90))}>, <mailto:leave@bounce.${FROM}>`,
    ],
    ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
    ['List-Id', `<${seed}.lists.${FROM}>`],
    ['CFBL-Address', `fbl@bounce.${FROM}; report=arf`],
  ]
  if (seed % 3 === 0) {
    const compiled = compileCampaign({
      id: String(seed),
      from: person('news', FROM),
      replyTo: people(2),
      subject: `${oneLine(text(80))} {{name}}`,
      html: `<p>${text(2000)}{{name}}</p><a href="{{unsubscribe_url}}">Leave</a>`,
      text: random() < 0.3 ? null : `${text(1000)}{{name}}`,
      extra: own,
      tracking: null,
      seed: `seed${seed}`,
    })
    const values = { name: oneLine(text(60)), unsubscribe_url: `https://mx.${FROM}/u/${seed}` }
    const to = person('ann', 'there.example')
    return unsigned(fillCampaign(compiled, { to, messageId, date: DATE + seed, delivery: seed, values, extra: leave }))
  }
  const attachment = (n: number): Mail['attachments'][number] => ({
    filename: `${oneLine(text(30)).replace(/[/\\]/g, '_')}${n}.bin`,
    contentType: ['text/csv', 'text/plain; charset=utf-8', 'application/pdf', 'message/rfc822'][
      Math.floor(random() * 4)
    ]!,
    contentId: random() < 0.3 ? `cid${n}@${FROM}` : null,
    disposition: random() < 0.3 ? 'inline' : 'attachment',
    bytes: () => Buffer.from(texts[n]!),
  })
  const texts = Array.from({ length: Math.floor(random() * 3) }, () => text(3000))
  const mail: Mail = {
    from: person('ann', FROM),
    to: [person('bob', 'there.example'), ...people(3)],
    cc: people(3),
    replyTo: people(2),
    subject: text(200),
    html: text(2000),
    text: random() < 0.3 ? null : text(2000),
    attachments: texts.map((_, n) => attachment(n)),
    messageId,
    date: DATE + seed,
    extra: [...own, ...(random() < 0.5 ? leave : [])],
    tracking: null,
  }
  return [...compose(mail)].join('')
}

/** The whole text of a campaign's email before it is signed. */
export const unsigned = ({ body, header }: FilledCampaign): string =>
  Buffer.from(header + body.map((piece) => piece.toString('latin1')).join(''), 'latin1').toString()
