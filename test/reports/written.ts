// Aggregate reports for tests, and archives of them with any mistake.
import { crc32, deflateRawSync, gzipSync } from 'node:zlib'
import { LIMITS } from '../../src/reports/reading/report.ts'

/** 2026-09-21, a day of UTC. */
export const BEGIN = 1_789_948_800
export const END = BEGIN + 86_399
/** When the tests read, in ms: the day after. */
export const TIMES = { now: (END + 86_400) * 1000, oldest: null }

interface Parts {
  /** The text before the element, its attributes, and the text after it. */
  before?: string
  attributes?: string
  behind?: string
  metadata?: string
  id?: string
  range?: string
  published?: string
  records?: string
}

export const record = ({
  address = '192.0.2.10',
  count = '3',
  evaluated = '<disposition>none</disposition><dkim>pass</dkim><spf>fail</spf>',
  results = '<dkim><domain>example.com</domain><result>pass</result></dkim><spf><domain>a.example</domain><result>fail</result></spf>',
  more = '',
} = {}): string =>
  `<record><row><source_ip>${address}</source_ip><count>${count}</count>` +
  `<policy_evaluated>${evaluated}</policy_evaluated></row>${more}` +
  `<identifiers><header_from>example.com</header_from></identifiers><auth_results>${results}</auth_results></record>`

export const dmarc = ({
  attributes = '',
  before = '<?xml version="1.0" encoding="UTF-8"?>\n',
  behind = '\n',
  id = '<report_id>one</report_id>',
  metadata = '<org_name>Reporter</org_name><email>dmarc@reporter.example</email>',
  published = '<domain>example.com</domain><p>none</p>',
  range = `<begin>${BEGIN}</begin><end>${END}</end>`,
  records = record(),
}: Parts = {}): string =>
  `${before}<feedback${attributes}><report_metadata>${metadata}${id}<date_range>${range}</date_range></report_metadata>` +
  `<policy_published>${published}</policy_published>${records}</feedback>${behind}`

export const policy = (type = 'sts', more: object = {}): object => ({
  policy: { 'policy-type': type, 'policy-domain': 'example.com' },
  summary: { 'total-successful-session-count': 10, 'total-failure-session-count': 2 },
  'failure-details': [{ 'result-type': 'certificate-expired', 'failed-session-count': 2 }],
  ...more,
})

export const tls = (more: object = {}): object => ({
  'organization-name': 'Reporter',
  'date-range': { 'start-datetime': '2026-09-21T00:00:00Z', 'end-datetime': '2026-09-21T23:59:59Z' },
  'contact-info': 'tls@reporter.example',
  'report-id': 'one',
  policies: [policy()],
  ...more,
})

export interface ZipFileOf {
  name?: string
  content: Buffer | string
  /** 0: stored, 8: deflated. */
  method?: number
  flags?: number
  /** A wrong checksum in the headers. */
  sum?: number
  packed?: number
  unpacked?: number
  /** The offset of the file in the directory. */
  at?: number
}

/** A zip archive of files, with any values in its headers. */
export function zip(files: readonly ZipFileOf[], { comment = '' } = {}): Buffer {
  const local: Buffer[] = []
  const central: Buffer[] = []
  let at = 0
  for (const { content, flags = 0, method = 8, name = 'report.xml', ...said } of files) {
    const bytes = Buffer.from(content)
    const data = method === 8 ? deflateRawSync(bytes) : bytes
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(flags, 2)
    common.writeUInt16LE(method, 4)
    common.writeUInt32LE(said.sum ?? crc32(bytes), 10)
    common.writeUInt32LE(said.packed ?? data.length, 14)
    common.writeUInt32LE(said.unpacked ?? bytes.length, 18)
    common.writeUInt16LE(name.length, 22)
    const place = Buffer.alloc(14)
    place.writeUInt32LE(said.at ?? at, 10)
    const made = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), data])
    local.push(made)
    central.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\0', 'latin1'), common, place, Buffer.from(name)]))
    at += made.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(files.length, 4)
  end.writeUInt16LE(files.length, 6)
  end.writeUInt32LE(directory.length, 8)
  end.writeUInt32LE(at, 12)
  end.writeUInt16LE(comment.length, 16)
  return Buffer.concat([...local, directory, Buffer.from('PK\x05\x06'), end, Buffer.from(comment)])
}

export const gzip = (content: Buffer | string): Buffer => gzipSync(content)

export const utf16 = (text: string, bigEndian = false): Buffer => {
  const bytes = Buffer.from(`\ufeff${text}`, 'utf16le')
  return bigEndian ? bytes.swap16() : bytes
}

/** A part of a message: its header fields, and its bytes in an encoding. */
export function part(
  content: Buffer | string,
  encoding = 'base64',
  fields = 'Content-Type: application/octet-stream',
): Buffer {
  const bytes = Buffer.from(content)
  const encoded =
    encoding === 'base64'
      ? bytes.toString('base64').replace(/.{76}/g, '$&\r\n')
      : encoding === 'quoted-printable'
        ? bytes
            .toString('latin1')
            .replace(/[^ -<>-~]/g, (c) => `=${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
            .replace(/(?:=..|[^=]){60}(?=.)/g, '$&=\r\n')
        : bytes.toString('latin1')
  return Buffer.from(`${fields}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${encoded}`, 'latin1')
}

const FIELDS = 'From: dmarc@reporter.example\r\nSubject: Report\r\nMIME-Version: 1.0\r\n'

/** A message of one part. */
export const mail = (one: Buffer): Buffer => Buffer.concat([Buffer.from(FIELDS), one])

/** A message with parts, `deep` multiparts inside each other. */
export function multipart(parts: readonly Buffer[], deep = 1): Buffer {
  const begin: Buffer[] = parts.flatMap((each) => [Buffer.from('\r\n--b0\r\n'), each])
  let inside = Buffer.concat([
    Buffer.from('Content-Type: multipart/mixed; boundary=b0\r\n\r\n'),
    ...begin,
    Buffer.from('\r\n--b0--\r\n'),
  ])
  for (let level = 1; level < deep; level++)
    inside = Buffer.concat([
      Buffer.from(`Content-Type: multipart/related; boundary=b${level}\r\n\r\n--b${level}\r\n`),
      inside,
      Buffer.from(`\r\n--b${level}--\r\n`),
    ])
  return mail(inside)
}

/** A piece, repeated between two texts until they have as many bytes as a report may have. */
export function filled(begin: string, piece: string, end: string): Buffer {
  const times = Math.floor((LIMITS.unpacked - Buffer.byteLength(begin + end)) / Buffer.byteLength(piece))
  return Buffer.concat([Buffer.from(begin), Buffer.alloc(times * Buffer.byteLength(piece), piece), Buffer.from(end)])
}

/** As large as a report may be, its records as wide: no two are summed into one row. */
export function widest(): Buffer {
  const names = (n: number): string =>
    Array.from(
      { length: 7 },
      (_, at) => `<dkim><domain>s${n}-${at}.a-long-name.example</domain><result>pass</result></dkim>`,
    ).join('')
  return Buffer.from(
    dmarc({
      records: Array.from({ length: LIMITS.records }, (_, n) =>
        record({ address: `10.0.${n >> 8}.${n & 255}`, results: names(n) }),
      ).join(''),
    }),
  )
}
