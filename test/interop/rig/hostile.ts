// Emails that break composers, signers and relays: each must arrive intact, with a valid signature and the original
// content.

export interface Hostile {
  from?: string
  to?: string
  subject?: string
  html?: string
  text?: string | null
  reply_to?: string[]
  cc?: string[]
  bcc?: string[]
  headers?: Record<string, string>
  attachments?: { filename: string; content: string; content_id?: string }[]
  /** Name and address as a reader must see them, where they are not the plain ones. */
  fromRead?: [name: string, address: string]
  toRead?: [name: string, address: string]
}

const FROM = 'ann@shop.example'
const TO = 'bob@there.example'
/** Whole repetitions of `unit`, together at most `length` UTF-16 units. */
const long = (unit: string, length: number): string => unit.repeat(Math.floor(length / unit.length))

const bytes = (length: number): string =>
  Buffer.from(Array.from({ length }, (_, i) => (i * 31) % 251)).toString('base64')

export const HOSTILE: Record<string, Hostile> = {
  'attachments with names that are not ASCII, one shown in the html': {
    html: '<p>See <img src="cid:logo@shop.example"></p>',
    attachments: [
      { filename: 'Ärger, "größer" 日本語 🎉.pdf', content: bytes(5000) },
      { filename: `${long('sehr lang ', 200)}.csv`, content: bytes(3) },
      { filename: 'logo.png', content: bytes(999), content_id: 'logo@shop.example' },
      { filename: 'empty.txt', content: '' },
    ],
  },
  'two megabytes attached: the streaming signer': {
    attachments: [{ filename: 'large.dat', content: bytes(2_000_000) }],
  },
  'headers of the sender’s own, a thread, cc and bcc': {
    cc: ['"Ähre, Cc" <cc@there.example>'],
    bcc: ['hidden@there.example'],
    headers: {
      'In-Reply-To': '<first@there.example>',
      References: long('<0123456789abcdef@there.example> ', 900).trim(),
      'X-Long': long('word ', 990).trim(),
      '.Dotted': 'a name that begins with a dot',
    },
  },
  'names and subject that are not ASCII': {
    from: `"Ähre, Ann (ok) \\"x\\"" <${FROM}>`,
    fromRead: ['Ähre, Ann (ok) "x"', FROM],
    to: `"日本語の名前 Łukasz" <${TO}>`,
    toRead: ['日本語の名前 Łukasz', TO],
    subject: 'Привет, 你好, مرحبا, Grüße',
    text: 'Привет, 你好, مرحبا, Grüße',
    html: '<p>Привет, 你好, مرحبا, Grüße</p>',
  },
  'long names that are not ASCII': {
    from: `"${long('Äöü ', 199)}x" <${FROM}>`,
    fromRead: [`${long('Äöü ', 199)}x`, FROM],
    to: `"${'名'.repeat(60)}" <${TO}>`,
    toRead: ['名'.repeat(60), TO],
  },
  'names that need quotes, or look encoded': {
    from: `"Ann @ Shop; <sales>, \\\\o/" <${FROM}>`,
    fromRead: ['Ann @ Shop; <sales>, \\o/', FROM],
    to: `"=?utf-8?Q?not_a_word?=" <${TO}>`,
    toRead: ['=?utf-8?Q?not_a_word?=', TO],
  },
  'emoji everywhere, joined, toned and in pairs': {
    from: `"🧑🏽‍🚀" <${FROM}>`,
    fromRead: ['🧑🏽‍🚀', FROM],
    subject: long('🎉👩‍👩‍👧‍👦🇩🇪', 220),
    text: '🎉'.repeat(1000),
    html: `<p>${'👩‍👩‍👧‍👦🇩🇪'.repeat(300)}</p>`,
  },
  'a subject of 998 letters without a space': { subject: 'x'.repeat(998) },
  'a subject of 998 bytes that are not ASCII': { subject: 'ä'.repeat(499) },
  'a subject of many short words, with double spaces': { subject: `${long('to be  or not ', 600)}.` },
  'a subject that looks like an encoded word, and like a field': { subject: '=?utf-8?B?SGk=?= Bcc: eve@there.example' },
  'one line of 100,000 letters with spaces': {
    text: `${long('word ', 100_000)}.`,
    html: `<p>${long('word ', 100_000)}</p>`,
  },
  'one word of 100,000 letters': { text: 'x'.repeat(100_000), html: `<p>${'y'.repeat(100_000)}</p>` },
  'lines of 997 to 1,000 letters': {
    text: [997, 998, 999, 1000].map((length) => 'z'.repeat(length)).join('\n'),
    html: [996, 997, 998, 999].map((length) => 'z'.repeat(length)).join('\r\n'),
  },
  'an empty text': { text: '' },
  'a text of white space': { text: ' \t \n\n  \n', html: '\n\n' },
  'nothing at all in html and text': { text: '', html: '' },
  'no text part': { text: null },
  'lines of dots': {
    text: '.\n..\n...\n.hidden\n.\n\n.',
    html: '<pre>\n.\n..\n.</pre>\r\n.\r\n',
  },
  'dots where soft line breaks fall': { text: `ä${'.'.repeat(1000)}`, html: `<p>é${long('.......... ', 5000)}</p>` },
  'lines that relays would change': {
    text: 'From here on\nFrom: eve\n>From there\n--\n-- \ntrailing spaces   \ntrailing tab\t\n\n\n',
    html: '<p>\nFrom here on\n</p>   \n\t\n',
  },
  'every kind of line end, and control characters': {
    text: 'one\rtwo\r\nthree\n\rfour\fform feed\vtab\u0001\u0007\u001b[31m\u007f end',
    html: '<p>\u0085\u2028\u2029\u00a0\u200b\ufeff</p>\r<p>\f</p>',
  },
  'what looks like a header and a boundary': {
    text: 'Subject: other\nBcc: eve@there.example\n\n--=_x\nContent-Type: text/html\n\n--=_x--\n',
    html: '</html>\r\n\r\n--=_x--\r\n',
  },
  'what looks encoded already': { text: '=C3=A4 =\n=20 = ==', html: '<p>=3D &auml; %C3%A4 =?utf-8?Q?=C3=A4?=</p>' },
  '300 KB of html': {
    html: `<html><body>${'<p style="color:#123456">Straße, 10 €; “quoted” text. </p>\n'.repeat(4700)}</body></html>`,
    text: 'See the html.',
  },
  '2 MB of html on one line, not ASCII': { html: `<p>${'é€🎉x '.repeat(180_000)}</p>`, text: null },
  'ten addresses to reply to, with names': {
    reply_to: Array.from({ length: 10 }, (_, at) => `"Person ${at}, Ümlaut" <person-${at}@help.shop.example>`),
  },
  // All but "!" and "%", which Postfix takes for a source route.
  'an address with every odd character': {
    to: "o'brien+tag=x#$&*/?^_`{|}~-@there.example",
    toRead: ['', "o'brien+tag=x#$&*/?^_`{|}~-@there.example"],
  },
  'a domain that is not ASCII': { to: 'bob@bücher.example', toRead: ['', 'bob@xn--bcher-kva.example'] },
}

/**
 * True when a reader sees what was written. Line ends are CRLF on the wire whatever they were; a last line may have
 * gained its end, or lost it to the boundary behind it (RFC 2046 §5.1.1): no reader shows the difference.
 */
export function readsAs(read: string, written: string): boolean {
  const [got, wanted] = [read, written].map((text) => text.replace(/\r\n?/g, '\n')) as [string, string]
  return got === wanted || got === `${wanted}\n` || `${got}\n` === wanted
}
