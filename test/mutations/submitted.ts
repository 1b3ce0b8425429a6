// Parsers of what programs hand in by SMTP: commands, the octets of a message, its header, and its way on.
import { generateKeyPairSync } from 'node:crypto'
import { withAsciiHeader, relayed } from '../../src/message/relay.ts'
import { inSevenBits, withShortLines } from '../../src/message/reencode.ts'
import { readSubmitted, UnsendableHeader } from '../../src/message/submitted.ts'
import { hasBareLineEnd, StrictStream } from '../../src/smtp/session.ts'
import { piecesOf } from '../../src/submission/api.ts'
import { ContentCheck } from '../../src/submission/message.ts'
import { around, bombs, both, of, text, type Parser } from './parser.ts'

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 })
const SIGNATURE = { domain: 'here.test', selector: 's', privateKey, time: 0 }
const TRACKING = { base: 'https://here.test', key: 'AAAA', delivery: 1, opens: true, clicks: true }

/** The session of a client: commands are noted, and a message follows each DATA. */
function converse(bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = new StrictStream()
    let commands = 0
    stream.oncommand = (command: Buffer, next: () => void) => {
      commands++
      if (!/^data$/i.test(command.toString('latin1'))) return next()
      const message = stream.startDataMode(32_000_000)
      message.on('end', () => stream.continue()).resume()
      next()
    }
    stream.onbroken = () => resolve(commands)
    stream.on('error', reject).on('finish', () => resolve(commands))
    for (let at = 0; at < bytes.length; at += 1460) stream.write(bytes.subarray(at, at + 1460))
    stream.end()
  })
}

/** What a mail must be before it is relayed: lines that end with CRLF, and a header with its empty line. */
function sendable(bytes: Buffer): Buffer {
  const lines = text(bytes).replace(/\r\n|\r|\n/g, '\r\n')
  const whole = lines.includes('\r\n\r\n') ? lines : `From: a@here.test\r\n\r\n${lines}\r\n`
  return Buffer.from(whole, 'latin1')
}

const header = (bytes: Buffer): Buffer => {
  const end = bytes.indexOf('\r\n\r\n')
  return end < 0 ? bytes : bytes.subarray(0, end + 2)
}

const FROM = 'From: a@here.test\r\n'

export const SUBMITTED: Record<string, Parser> = {
  'line ends': {
    files: ['smtp/session.ts'],
    seeds: of('a\r\n', '\r', '\n', '\r\n.\r\n'),
    parse: (bytes) => hasBareLineEnd(bytes, 0),
  },
  'commands of clients': {
    files: ['smtp/session.ts'],
    seeds: of(
      'EHLO there.test\r\nMAIL FROM:<a@there.test> SIZE=100\r\nRCPT TO:<b@here.test>\r\nDATA\r\n..a\r\n.\r\n',
      'DATA\r\n.\r\n',
      'DATA\r\n..\r\n',
      'NOOP\r\n',
      'MAIL FROM:<',
      '\r\n',
      '.',
    ),
    parse: converse,
    declared: (thrown) => thrown instanceof Error && thrown.message === 'Command line too long',
  },
  'octets of a message': {
    files: ['submission/message.ts'],
    seeds: of('a\r\n', '\r', 'a', '\0'),
    parse(bytes) {
      const check = new ContentCheck()
      for (let at = 0; at < bytes.length; at += 7) check.add(bytes.subarray(at, at + 7))
    },
  },
  'octets of a message in base64': {
    files: ['submission/api.ts'],
    seeds: of('a\r\nb\n\nc\rd', '\r', '\n', '\r\r\n\r', 'ab\r\ncd\r\n'),
    async parse(bytes) {
      const pieces: Buffer[] = []
      for await (const piece of piecesOf(bytes.toString('base64'), 4)) pieces.push(piece)
      const whole = Buffer.concat(pieces)
      if (!whole.subarray(-2).equals(Buffer.from('\r\n'))) throw new Error('The last line has no end.')
      if (/\r(?!\n)|(?<!\r)\n/.test(whole.toString('latin1'))) throw new Error('A line end is bare.')
      const lines = bytes.toString('latin1').replaceAll(/\r\n?/g, '\n').replace(/\n$/, '')
      if (whole.toString('latin1').replaceAll('\r\n', '\n') !== `${lines}\n`) throw new Error('A line was changed.')
    },
  },
  'submitted headers': {
    files: ['message/submitted.ts', 'message/parse.ts'],
    seeds: both(
      bombs,
      around(
        [`${FROM}To: `, '"B, C" <b@there.test>, ', 'd@there.test\r\n'],
        [`${FROM}Cc: `, '\\"(', '\r\n'],
        [`${FROM}To: `, '<,', '\r\n'],
        [`${FROM}Subject: `, '=?utf-8?q?=C3=A4?= ', '\r\n'],
        [`${FROM}Subject: `, '=?', '\r\n'],
        [`${FROM}X-Postrider-Agent: `, 'a', '\r\n'],
        ['From: "', '\\"', '" <a@here.test>\r\n'],
        ['From: ', ' ', 'a@here.test\r\n'],
        [`${FROM}DKIM-Signature: `, 'd=here.test; s=s; ', '\r\n'],
      ),
    ),
    parse: (bytes) => readSubmitted(header(bytes)).edited({ messageId: '<m@here.test>', now: 0 }),
    declared: (thrown) => thrown instanceof UnsendableHeader,
  },
  'headers in ASCII': {
    files: ['message/relay.ts'],
    seeds: both(
      bombs,
      around(
        ['From: ', '\xc3\xa4 ', '<a@here.test>\r\n\r\nx\r\n'],
        [`${FROM}To: \xc3\xa4 "`, '\\"', '\r\n\r\nx\r\n'],
        [`${FROM}To: \xc3\xa4 (`, '\\(', '\r\n\r\nx\r\n'],
        [`${FROM}To: \xc3\xa4 `, '(\\)', '\r\n\r\nx\r\n'],
        [`${FROM}To: \xc3\xa4 `, '<', '\r\n\r\nx\r\n'],
        [`${FROM}To: `, '"\xc3\xa4" <b@there.test>, ', 'c@there.test\r\n\r\nx\r\n'],
        [`${FROM}Subject: `, '\xc3\xa4', '\r\n\r\nx\r\n'],
      ),
    ),
    parse: (bytes) => withAsciiHeader(bytes),
  },
  'parts in another encoding': {
    files: ['message/reencode.ts'],
    seeds: bombs,
    parse: (bytes) => [withShortLines(bytes), inSevenBits(bytes)],
  },
  'mail on its way on': {
    files: ['message/relay.ts'],
    seeds: bombs,
    parse: (bytes) =>
      relayed(
        sendable(bytes),
        { tracking: TRACKING, extra: [['X-A', 'b']], sevenBit: true, asciiHeader: true },
        SIGNATURE,
      ),
  },
}
