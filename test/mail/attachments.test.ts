// Attachments: which are accepted and rejected, which files are fetched from where, and how they arrive. Specification
// "Attachments", D27, D28. RFC 2045, 2046, 2183, 2231, 2387.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { simpleParser } from 'mailparser'
import { makeCertificate } from '../../src/base/certificate.ts'
import { allowPublicAnd } from '../../src/base/network.ts'
import { parseAddress } from '../../src/message/address.ts'
import { compose } from '../../src/message/compose.ts'
import { encodedSize, MAX_MESSAGE } from '../../src/message/size.ts'
import { fetchFile } from '../../src/net/fetch.ts'
import { typeOf } from '../../src/message/file-type.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { dkimOf, fieldsOf, heardAs, judgeAll, readByPython, shapeOf, withoutPython } from '../delivery/captured.ts'
import { mailsOf } from './mails.ts'

const MEGABYTE = 1024 * 1024

let files: Server
let port: number
let dir: string
let caFile: string
/** Paths that were requested from the file server, and TCP connections to it at any address. */
const asked: string[] = []
let connections = 0
/** Answers that a test ends. */
const holding: ServerResponse[] = []
const { become, post, tryPost } = mailsOf(() => postrider)

/** The responses of the file server, by path. */
const ANSWERS: Record<string, (request: IncomingMessage, response: ServerResponse) => void> = {
  '/report.pdf': (_, response) => response.setHeader('content-type', 'application/pdf').end('%PDF-1.7 fetched'),
  '/picture': (_, response) => response.setHeader('content-type', 'image/png; q=1').end('png'),
  '/bytes': (_, response) => response.setHeader('content-type', 'application/octet-stream').end('bytes'),
  '/program': (_, response) => response.end('MZ\x90\x00'),
  '/secret': (_, response) => response.end('secret'),
  '/empty': (_, response) => response.end(),
  '/to': (request, response) =>
    response.writeHead(302, { location: new URL(request.url!, 'https://x').searchParams.get('u')! }).end(),
  '/relative': (_, response) => response.writeHead(307, { location: 'report.pdf' }).end(),
  '/loop': (_, response) => response.writeHead(301, { location: '/loop' }).end(),
  '/large': (_, response) => response.writeHead(200, { 'content-length': String(30 * MEGABYTE + 1) }).write('x'),
  '/endless': (_, response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024)));
    }
    response.on('drain', more)
    more()
  },
  '/part': (_, response) => response.end(Buffer.alloc(12 * MEGABYTE, 'part')),
  '/held': (_, response) => void holding.push(response),
  '/cut': (_, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('x')
    setImmediate(() => response.destroy())
  },
  '/drip': (_, response) => {
    response.write('x')
    const drip = setInterval(() => response.write('x'), 20)
    response.on('close', () => clearInterval(drip))
  },
  '/silent': () => {},
  '/500': (_, response) => response.writeHead(500).end('no'),
  '/204': (_, response) => response.writeHead(204).end(),
}

setUp(async () => {
  dir = temporaryDirectory('files')
  const certificate = makeCertificate('files.test', Date.now())
  caFile = join(dir, 'ca.pem')
  writeFileSync(caFile, certificate.cert)
  files = createServer(certificate, (request, response) => {
    asked.push(request.url!)
    const answer = ANSWERS[request.url!.split('?')[0]!]
    if (answer) answer(request, response)
    else response.writeHead(404).end()
  })
  files.on('connection', () => connections++)
  files.on('tlsClientError', () => {})
  // On every address of this machine, so that forbidden connections are noticed.
  await new Promise<void>((resolve) => {
    files.once('error', () => files.listen(0, '0.0.0.0', resolve))
    files.listen(0, '::', resolve)
  })
  port = (files.address() as AddressInfo).port
})
const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    config: {
      network: { allow_private: ['127.0.0.1'] },
      webhooks: { ca_file: caFile },
    },
    domains: ['here.test'],
    routes: ['there.test'],
  }),
)
setUp(() => postrider.dns.set('files.test', 'A', ['127.0.0.1']))
after(async () => {
  files.closeAllConnections()
  await new Promise((resolve) => files.close(resolve))
})

interface Problem {
  code: string
  detail: string
  source: { pointer: string }
}
const base64 = (content: string | Buffer): string => Buffer.from(content as string).toString('base64')
const file = (more: Record<string, unknown> = {}) => ({ filename: 'a.txt', content: 'aGVsbG8=', ...more })
const told = (errors: Problem[]): string[] =>
  // One value may break two rules.
  [
    ...new Set(
      errors.map(({ code, source }) => `${code} ${source?.pointer.replace('/data/attributes/attachments', '')}`.trim()),
    ),
  ].toSorted()

async function refused(attachments: unknown, ...expected: string[]): Promise<Problem[]> {
  const { status, body } = await tryPost({ attachments })
  const at = `${JSON.stringify(attachments).slice(0, 300)}: ${JSON.stringify(body).slice(0, 1500)}`
  assert.equal(status, 422, at)
  assert.deepEqual(told(body.errors), expected.toSorted(), at)
  return body.errors
}
async function deliver(attributes: Record<string, unknown>) {
  const shown = await become(await post(attributes), 'delivered')
  const { message } = heardAs(exchanger, shown['message_id']!)
  return { shown, message, parsed: await simpleParser(message, { skipImageLinks: true }) }
}
const url = (path: string): string => `https://files.test:${port}${path}`

// ---- The members

test('requires either content or path, and rejects unknown members', async () => {
  await refused([{ filename: 'a.txt' }], 'invalid /0')
  await refused([file({ path: url('/report.pdf') })], 'invalid /0')
  await refused([file(), { content: 'aGVsbG8=' }], 'required /1')
  await refused([file({ colour: 'red' })], 'invalid /0/colour')
  await refused([file(), 7], 'invalid /1')
  await refused({ filename: 'a.txt' }, 'invalid')
  for (const name of ['content', 'path', 'filename', 'content_type', 'content_id'])
    await refused([{ ...file(name === 'path' ? { content: undefined } : {}), [name]: 7 }], `invalid /0/${name}`)
})

test('content is strict base64 (RFC 4648 §4)', async () => {
  for (const good of ['aGk=', 'aGVsbG8=', 'aGVs', '+/+/', '']) await post({ attachments: [file({ content: good })] })
  for (const bad of [
    'a',
    'aGk',
    'aGk==',
    'aG k=',
    'aGk=\n',
    '-_-_',
    'aGVs\r\naGVs',
    'data:,x',
    'aGk=aGk=',
    '=aGk',
    '====',
    'üüüü',
    'aGVsbG8*',
    'aGVs....',
    'aGVs\u0000AAA',
  ])
    await refused([file({ content: bad })], 'invalid /0/content')
})

test('limits: 20 attachments, filename 255, content_id 78, each on both sides (D27)', async () => {
  const { shown } = await deliver({ attachments: Array.from({ length: 20 }, (_, n) => file({ filename: `${n}.txt` })) })
  assert.equal((shown as unknown as { attachments: unknown[] }).attachments.length, 20)
  await refused(
    Array.from({ length: 21 }, () => file()),
    'too_long',
  )
  await post({ attachments: [file({ filename: `${'n'.repeat(251)}.txt`, content_id: 'c'.repeat(78) })] })
  await refused([file({ filename: `${'n'.repeat(252)}.txt` })], 'too_long /0/filename')
  await refused([file({ content_id: 'c'.repeat(79) })], 'too_long /0/content_id')
  await refused([file({ filename: '' })], 'invalid /0/filename')
  await refused([file({ content_id: '' })], 'invalid /0/content_id')
})

test('rejects CR, LF, NUL and other line ends in every member that becomes a header field', async () => {
  for (const evil of ['\r', '\n', '\r\n', '\0', '\r\nBcc: eve@evil.test', '\u2028']) {
    await refused([file({ filename: `a${evil}.txt` })], 'invalid /0/filename')
    await refused([file(), file({ content_id: `a${evil}b` })], 'invalid /1/content_id')
    await refused([file({ content_type: `text/plain${evil}` })], 'invalid /0/content_type')
  }
  for (const bad of ['<a@b>', 'a b', 'a"b', 'ü']) await refused([file({ content_id: bad })], 'invalid /0/content_id')
  for (const bad of [
    'text',
    'text/',
    '/plain',
    'text/plain; name=x',
    'text/plain;',
    'text/x; a',
    'text/x; a=b c',
    'text/x; a="\\"',
    'text plain/x',
    'a/b/c',
  ])
    await refused([file({ content_type: bad })], 'invalid /0/content_type')
  await refused([file({ disposition: 'sideways' })], 'invalid /0/disposition')
  for (const bad of ['../a.txt', 'a/b.txt', 'a\\b.txt']) await refused([file({ filename: bad })], 'invalid /0/filename')
})

// ---- Forbidden types

test('rejects executable and script files by any of their extensions (D28)', async () => {
  const endings = 'exe com scr pif bat cmd msi cpl dll js jse vbs vbe wsf hta ps1 lnk reg jar sh app dmg iso'.split(' ')
  for (const ending of endings)
    await refused([file({ filename: `report.${ending}` })], 'forbidden_attachment /0/filename')
  for (const filename of [
    'report.pdf.exe',
    'report.exe.pdf',
    'REPORT.ExE',
    'report.exe.',
    'report.exe ',
    'report.exe. .',
    '.exe',
    'a.b.c.js.d.txt',
    'report.pdf                                        .exe',
    'report. exe',
  ])
    await refused([file(), file({ filename })], 'forbidden_attachment /1/filename')
  for (const filename of ['exe', 'report.pdf', 'my.example.docx', 'a.tar.gz', 'photo.JPG', 'no ending', 'exeter.txt'])
    await post({ attachments: [file({ filename })] })
})

test('rejects names with bidirectional control characters', async () => {
  for (const mark of ['\u202e', '\u202d', '\u202a', '\u202b', '\u2066', '\u2067', '\u2068'])
    await refused([file({ filename: `annual${mark}fdp.txt` })], 'forbidden_attachment /0/filename')
  // Right-to-left script does not need these characters.
  await post({ attachments: [file({ filename: 'דוח.pdf' })] })
})

test('rejects executables by their first bytes under any name, but not similar files', async () => {
  const hex = (text: string): string => Buffer.from(text, 'hex').toString('base64')
  for (const magic of ['4d5a', '4d5a9000', '7f454c46', 'feedface', 'feedfacf', 'cefaedfe', 'cffaedfe', 'cafebabe'])
    await refused([file({ filename: 'photo.jpg', content: hex(magic) })], 'forbidden_attachment /0/content')
  await refused([file(), file({ content: base64('#!/bin/sh\n') })], 'forbidden_attachment /1/content')
  for (const fine of [
    base64('M'),
    base64('mz'),
    hex('7f454c'),
    base64('#'),
    base64(' #!'),
    base64('%PDF'),
    hex('feedfa'),
  ])
    await post({ attachments: [file({ content: fine })] })
})

test('reports all problems of all attachments at once, each with its pointer', async () => {
  await refused(
    [file(), file({ filename: 'a.exe' }), file(), file({ content: base64('MZ') })],
    'forbidden_attachment /1/filename',
    'forbidden_attachment /3/content',
  )
  await refused([file({ content: '*' }), file({ content_id: ' ' })], 'invalid /0/content', 'invalid /1/content_id')
})

// ---- Size

test('rejects 40 MB or more after encoding at submission, and accepts one byte less', async () => {
  // 57 bytes become a line of 78 bytes.
  const parts = (encoded: number) => {
    const each = Buffer.alloc(Math.floor((encoded / 16 / 78) * 57)).toString('base64')
    return Array.from({ length: 16 }, (_, n) => ({ filename: `${n}.dat`, content: each }))
  }
  const { status, body } = await tryPost({ attachments: parts(40 * MEGABYTE) })
  assert.equal(status, 422)
  assert.deepEqual(told(body.errors), ['message_too_large'])
  assert.equal(body.errors[0].source.pointer, '/data/attributes/attachments')
  const id = await post({ attachments: parts(39.8 * MEGABYTE) })
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
})

test('the size estimate is at least the actual size, and close to it', () => {
  const ann = parseAddress('ann@here.test')!
  for (const [html, text, sizes] of [
    ['<p>Hello</p>', 'Hello', [1_000_000]],
    ['ü'.repeat(1_500_000), 'ü'.repeat(1_500_000), [300_000, 1, 0, 57, 58]],
    ['=\n'.repeat(1_500_000), 'x \n'.repeat(1_000_000), [400_000]],
    // The text part is made from the html.
    ['ü'.repeat(1_500_000), null, [200_000]],
    [`<p>${'a long line of words '.repeat(200_000)}</p>`, null, []],
  ] as [string, string | null, number[]][]) {
    const attachments = sizes.map((size, n) => ({
      filename: `${n}.dat`,
      contentType: 'application/octet-stream',
      contentId: null,
      disposition: 'attachment' as const,
      size,
      bytes: () => Buffer.alloc(size),
    }))
    const mail = {
      from: ann,
      to: [ann],
      cc: [],
      replyTo: [],
      subject: 's',
      html,
      text,
      attachments,
      extra: [],
      tracking: null,
      messageId: '<0190a5c0-0000-7000-8000-000000000001@here.test>',
      date: 0,
    }
    let truth = 0
    for (const piece of compose(mail)) truth += Buffer.byteLength(piece)
    // Padded with an attachment up to the limit, where the estimate must be exact.
    const room = 37 * MEGABYTE - truth
    const padding = { size: Math.floor((room / 78) * 57) }
    const told = encodedSize({ html, text, headers: [], attachments: [...attachments, padding] })
    const whole = truth + Math.ceil(padding.size / 57) * 78
    assert.ok(told >= whole, `told ${told}, true ${whole}`)
    // Below the limit it need not be near.
    assert.ok(told < Math.max(whole + 64 * 1024, MAX_MESSAGE) || text === null, `told ${told}, true ${whole}`)
  }
})

test('detects a missing media type from the first bytes, otherwise from the name (D28)', async () => {
  for (const [filename, head, type] of [
    ['pic', '\x89PNG\r\n\x1a\n', 'image/png'],
    ['photo.dat', '\xff\xd8\xff\xe0', 'image/jpeg'],
    ['report.xyz', '%PDF-1.4', 'application/pdf'],
    ['doc', 'words', 'application/octet-stream'],
    ['html', '<p>', 'application/octet-stream'],
    ['.txt', 'words', 'application/octet-stream'],
    ['list.csv', 'ID3;a,b', 'text/csv'],
    ['a..txt', 'words', 'text/plain'],
    ['archive', 'PK\x03\x04', 'application/zip'],
    ['page.docx', 'PK\x03\x04', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'],
    ['clip.mov', '\0\0\0\x18ftypisom', 'video/mp4'],
    ['', '', 'application/octet-stream'],
  ] as const)
    assert.equal(typeOf(filename, Buffer.from(head, 'latin1')), type, filename)
})

// ---- Fetching

test('path: fetches the file over https before the 201, with its media type, and follows allowed redirects', async () => {
  const { message, parsed, shown } = await deliver({
    attachments: [
      { filename: 'a.pdf', path: url('/report.pdf') },
      { filename: 'picture', path: url('/picture') },
      { filename: 'table.csv', path: url('/bytes') },
      { filename: 'b.pdf', path: url('/relative') },
      {
        filename: 'c.pdf',
        path: url(`/to?u=${encodeURIComponent(url('/report.pdf'))}`),
        content_type: 'application/x-own',
      },
      { filename: 'empty.txt', path: url('/empty') },
    ],
  })
  assert.deepEqual(
    parsed.attachments.map(({ content, contentType, filename }) => [filename, contentType, content.toString()]),
    [
      ['a.pdf', 'application/pdf', '%PDF-1.7 fetched'],
      ['picture', 'image/png', 'png'],
      ['table.csv', 'text/csv', 'bytes'],
      ['b.pdf', 'application/pdf', '%PDF-1.7 fetched'],
      ['c.pdf', 'application/x-own', '%PDF-1.7 fetched'],
      ['empty.txt', 'text/plain', ''],
    ],
  )
  assert.match(shapeOf(message), /^mixed\(alternative\(plain, html\)/)
  assert.ok(!JSON.stringify(shown).includes('files.test'), 'where it came from is nobody’s to read')
})

/** Every URL is refused with the exact pointer, and the file server sees no connection. */
async function unreachable(urls: readonly string[], why: RegExp): Promise<void> {
  const before = connections
  for (let at = 0; at < urls.length; at += 20) {
    const some = urls.slice(at, at + 20)
    const errors = await refused(
      some.map((path) => ({ filename: 'a.txt', path })),
      ...some.map((_, index) => `attachment_unavailable /${index}/path`),
    )
    for (const [index, { detail }] of errors.entries()) assert.match(detail, why, some[index]!)
  }
  assert.equal(connections, before, 'nothing was connected')
}
const NOT_FETCHED = /is not a public address/

test('path: loopback, private, link-local, CGNAT, metadata and other special addresses, in every spelling', async () => {
  await unreachable(
    [
      '127.0.0.2',
      '2130706434',
      '0x7f000002',
      '017700000002',
      '0177.0.0.2',
      '0x7f.0.0.0x2',
      '127.2',
      '127.0.2',
      '１２７.０.０.２',
      '127。0。0。2',
      '①②⑦.0.0.2',
      '%31%32%37.0.0.2',
      '127.0.0.2.',
      '0',
      '0.0.0.0',
      '[::1]',
      '[0:0:0:0:0:0:0:1]',
      '[::]',
      '[::ffff:127.0.0.2]',
      '[::ffff:7f00:2]',
      '[::127.0.0.2]',

      '[64:ff9b::7f00:2]',
      '[2002:7f00:2::]',
      '10.0.0.1',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.0.1',
      '100.64.0.1',

      '100.127.255.255',
      '169.254.169.254',
      '100.100.100.200',
      '[fd00:ec2::254]',
      '[fc00::1]',
      '[fe80::1]',
      '[fec0::1]',
      '[ff02::1]',
      '224.0.0.1',
      '255.255.255.255',
      '240.0.0.1',
      '192.0.0.192',
      '198.18.0.1',
      '[::ffff:10.0.0.1]',
      '2852039166',
      '0xa9fea9fe',
      '0251.0376.0251.0376',
    ].map((host) => `https://${host}:${port}/secret`),
    NOT_FETCHED,
  )
  assert.ok(!asked.includes('/secret'))
})

test('the address check rejects the same addresses and accepts the public neighbours of each network', () => {
  const check = allowPublicAnd([])
  for (const bad of ['::127.0.0.1', '::10.0.0.1', '::1', '::', '168.63.129.16', '::ffff:127.0.0.1', '::ffff:a00:1'])
    assert.equal(check(bad), false, bad)
  for (const good of [
    '9.255.255.255',
    '11.0.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '126.255.255.255',
    '128.0.0.1',
    '169.253.255.255',

    '172.15.255.255',
    '172.32.0.0',
    '192.167.255.255',
    '192.169.0.0',
    '223.255.255.255',
    '2a00:1450::1',
    '::ffff:8.8.8.8',
  ])
    assert.equal(check(good), true, good)
})

test('path: rejects names that resolve to such addresses', async () => {
  const { dns } = postrider
  const names: [string, string, string][] = [
    ['loop4.test', 'A', '127.0.0.2'],
    ['loop6.test', 'AAAA', '::1'],
    ['mapped.test', 'AAAA', '::ffff:127.0.0.2'],
    ['private.test', 'A', '10.1.2.3'],
    ['private6.test', 'AAAA', 'fd00::1'],
    ['local.test', 'A', '169.254.1.1'],
    ['local6.test', 'AAAA', 'fe80::1'],
    ['cgnat.test', 'A', '100.64.1.1'],
    ['meta.test', 'A', '169.254.169.254'],
    ['zero.test', 'A', '0.0.0.0'],
  ]
  for (const [name, type, address] of names) dns.set(name, type, [address])
  await unreachable(
    names.map(([name]) => `https://${name}:${port}/secret`),
    NOT_FETCHED,
  )
  await unreachable(
    ['localhost', 'localhost.', 'a.localhost', 'nowhere.test'].map((name) => `https://${name}:${port}/secret`),
    /./,
  )
})

test('path: does not follow redirects to forbidden URLs', async () => {
  const targets = [
    `https://127.0.0.2:${port}/secret`,
    `https://2130706434:${port}/secret`,
    `https://[::1]:${port}/secret`,
    `https://loop4.test:${port}/secret`,
    `//loop4.test:${port}/secret`,
    `http://files.test:${port}/secret`,

    `https://user:pass@files.test:${port}/secret`,
    'file:///etc/passwd',
    'data:,x',
    'https://169.254.169.254/',
    '//',
    'https://',
  ]
  postrider.dns.set('loop4.test', 'A', ['127.0.0.2'])
  await refused(
    targets.map((to) => ({ filename: 'a.txt', path: url(`/to?u=${encodeURIComponent(to)}`) })),
    ...targets.map((_, index) => `attachment_unavailable /${index}/path`),
  )
  await refused([{ filename: 'a.txt', path: url('/loop') }], 'attachment_unavailable /0/path')
  assert.ok(!asked.includes('/secret'))
})

test('path: rejects other schemes, credentials and invalid URLs', async () => {
  const bad = [
    `http://files.test:${port}/secret`,
    `HTTP://files.test:${port}/secret`,
    `ftp://files.test/secret`,
    'file:///etc/passwd',

    'data:text/plain,x',
    'javascript:1',
    '/secret',
    'files.test/secret',
    '',
    ' ',
    'https://',
    'https:///',
    'https://a b/',

    `https://user@files.test:${port}/secret`,
    `https://user:pass@files.test:${port}/secret`,
    'https://files.test:99999/',
  ]
  const before = connections
  await refused(
    bad.map((path) => ({ filename: 'a.txt', path })),
    ...bad.map((_, index) => `attachment_unavailable /${index}/path`),
  )
  assert.equal(connections, before)
})

test('path: rejects files that exceed the limit together while they are downloaded, a few at a time (D112)', async () => {
  const { bodies } = postrider.appliance.deps
  const before = asked.length
  const many = Array.from({ length: 20 }, () => ({ filename: 'a.txt', path: `https://files.test:${port}/part` }))
  const { status, body } = await tryPost({ attachments: many })
  assert.equal(status, 422)
  assert.equal(body.errors[0].code, 'message_too_large')
  assert.ok(asked.length - before <= 8, `${asked.length - before} files were fetched`)
  assert.equal(bodies.taken, 0)
})

test('path: an account fetches four files at once, and received bytes count towards the budget (D112)', async () => {
  const { bodies } = postrider.appliance.deps
  const held = { filename: 'a.txt', path: `https://files.test:${port}/held` }
  const posts = [tryPost({ attachments: Array(3).fill(held) }), tryPost({ attachments: Array(3).fill(held) })]
  await until(() => holding.length === 4)
  const before = bodies.taken
  holding[0]!.write('x'.repeat(50_000))
  await until(() => bodies.taken >= before + 100_000)
  for (let ended = 0; ended < 6; ended++) {
    await until(() => holding.length > ended)
    assert.ok(holding.length <= ended + 4)
    holding[ended]!.end('y')
  }
  for (const { status } of await Promise.all(posts)) assert.equal(status, 201)
  assert.equal(bodies.taken, 0)
})

test('path: rejects missing, truncated and oversized files and wrong certificates', async () => {
  postrider.dns.set('wrong.test', 'A', ['127.0.0.1'])
  for (const path of [
    ...['/404', '/500', '/204', '/cut', '/large', '/endless'].map(url),
    `https://wrong.test:${port}/report.pdf`,
    'https://files.test:1/report.pdf',
  ]) {
    const [error] = await refused([file(), { filename: 'a.txt', path }], 'attachment_unavailable /1/path')
    assert.doesNotMatch(error!.detail, /127\.0\.0\.1|node:|at \w+ \(/, 'nothing of our network is told')
  }
  const before = asked.length
  await refused([{ filename: 'a.exe', path: url('/report.pdf') }], 'forbidden_attachment /0/filename')
  assert.equal(asked.length, before, 'what will be refused is not fetched')
  await refused([{ filename: 'a.txt', path: url('/program') }], 'forbidden_attachment /0/path')
})

test('path: times out on a silent and on a dripping server', async () => {
  const { deps } = postrider.appliance
  for (const path of ['/silent', '/drip']) {
    const rules = { timeout: 150, maxBytes: MEGABYTE, redirects: 3 }
    const result = await fetchFile(deps.fetching, url(path), rules)
    assert.match('refused' in result ? result.refused : '', /did not arrive within 0\.15 s/, path)
  }
})

// ---- On the wire

test('uses multipart/related only for inline files, and multipart/mixed only for attachments', async () => {
  const shown = file({ filename: 'i.png', content_type: 'image/png', content_id: 'logo@here.test' })
  const attached = file({ filename: 'a.pdf', content_type: 'application/pdf' })
  for (const [attachments, shape] of [
    [[], 'alternative(plain, html)'],
    [[shown], 'alternative(plain, related(html, png))'],
    [[attached], 'mixed(alternative(plain, html), pdf)'],
    [[attached, shown, attached], 'mixed(alternative(plain, related(html, png)), pdf, pdf)'],
    [[{ ...shown, disposition: 'attachment' }], 'mixed(alternative(plain, html), png)'],
  ] as const) {
    const { message } = await deliver({ attachments, html: '<img src="cid:logo@here.test">' })
    assert.equal(shapeOf(message), shape)
  }
  const { message, parsed } = await deliver({ attachments: [attached, shown], html: '<img src="cid:logo@here.test">' })
  const image = parsed.attachments.find(({ cid }) => cid === 'logo@here.test')!
  assert.equal(image.contentDisposition, 'inline')
  assert.ok(image.related)
  assert.equal(parsed.attachments.find(({ filename }) => filename === 'a.pdf')!.contentDisposition, 'attachment')
  // RFC 2387 §3.1: the type of the root is named.
  assert.match(message.replace(/\r\n[ \t]+/g, ' '), /Content-Type: multipart\/related;[^\r]*type="text\/html"/)
})

const NAMES = [
  'plain.pdf',
  'with space.pdf',
  'quo"te.pdf',
  'semi;colon,comma.pdf',
  "it's 100% *.pdf",
  'per%20cent.pdf',
  'ünï.pdf',
  '日本語のとても長いファイル名.pdf',
  '😀👩‍👩‍👧.png',
  'דוח.pdf',
  'a=b.pdf',
  '(round) [square] <x>@y.pdf',
  ...[56, 57, 60, 61, 62, 75, 76, 78, 120, 251].map((length) => `${'n'.repeat(length)}.txt`),

  `${'word '.repeat(30)}.txt`,
  `${'ü'.repeat(125)}.txt`,
  `${'日'.repeat(80)}.txt`,
  'two  spaces.txt',
  'ends.in.dots...txt',
]

test('two parsers read file names of every kind unchanged (RFC 2231)', async () => {
  const heard: string[] = []
  for (let at = 0; at < NAMES.length; at += 20) {
    const some = NAMES.slice(at, at + 20)
    const { message, parsed, shown } = await deliver({ attachments: some.map((filename) => file({ filename })) })
    assert.deepEqual(
      parsed.attachments.map(({ filename }) => filename),
      some,
    )
    const stored = (shown as unknown as { attachments: { filename: string }[] }).attachments
    assert.deepEqual(
      stored.map(({ filename }) => filename),
      some,
    )
    heard.push(message)
  }
  if (withoutPython) return
  // The other reader decodes this one twice.
  const lookAlike = '=?utf-8?q?x?=.pdf'
  heard.push((await deliver({ attachments: [file({ filename: lookAlike })] })).message)
  const read = readByPython(heard).flatMap(({ root }) => root.parts.slice(1).map(({ filename }) => filename))
  assert.deepEqual(read, [...NAMES, lookAlike])
})

test('files of every size around a line and a chunk arrive unchanged', async () => {
  const bytes = (size: number): Buffer => Buffer.from(Array.from({ length: size }, (_, n) => (n * 7 + (n >> 8)) & 0xff))
  const sizes = [0, 1, 2, 3, 56, 57, 58, 113, 114, 115, 16_384, 16_385, 57 * 4096 - 1, 57 * 4096, 57 * 4096 + 1]
  const { message, parsed, shown } = await deliver({
    attachments: sizes.map((size) => ({ filename: `${size}.dat`, content: base64(bytes(size)) })),
  })
  const hash = (content: Buffer): string => createHash('sha256').update(content).digest('hex')
  const wanted = sizes.map((size) => hash(bytes(size)))
  assert.deepEqual(
    parsed.attachments.map(({ content }) => hash(content)),
    wanted,
  )
  if (!withoutPython)
    assert.deepEqual(
      readByPython([message])[0]!
        .root.parts.slice(1)
        .map(({ sha256 }) => sha256),
      wanted,
    )
  // The owner sees names and sizes, not the bytes.
  assert.deepEqual(
    (shown as unknown as { attachments: Record<string, unknown>[] }).attachments.map(({ filename, size }) => [
      filename,
      size,
    ]),
    sizes.map((size) => [`${size}.dat`, size]),
  )
})

test('media types are as given, otherwise by the name, and a disguised message or multipart cannot break the email', async () => {
  const { parsed } = await deliver({
    attachments: [
      file({ content_type: 'application/x-own' }),
      file({ filename: 'a.png' }),
      file({ filename: 'a.unheard-of' }),
      file({ filename: 'mail.eml', content_type: 'message/rfc822', content: base64('Subject: x\r\n\r\n--\r\n.\r\n') }),
      file({ filename: 'b.txt', content_type: 'multipart/mixed' }),
      file({ filename: 'invite.ics', content_type: 'text/calendar;  method=REQUEST ; charset="utf-8"' }),
    ],
  })
  // An invitation is one by its method (RFC 5546).
  const invitation = parsed.attachments.at(-1)! as unknown as {
    headers: Map<string, { params: Record<string, string> }>
  }
  assert.deepEqual(invitation.headers.get('content-type')!.params, {
    method: 'REQUEST',
    charset: 'utf-8',
    name: 'invite.ics',
  })
  assert.deepEqual(
    parsed.attachments.slice(0, 3).map(({ contentType }) => contentType),
    ['application/x-own', 'image/png', 'application/octet-stream'],
  )
  assert.equal(parsed.attachments.length, 6)
  assert.equal(parsed.attachments[3]!.content.toString(), 'Subject: x\r\n\r\n--\r\n.\r\n')
})

test('an email over 1 MB with dots at the start of header lines arrives complete and signed', async () => {
  const content = base64(Buffer.alloc(1_200_000, 'some bytes, not all alike; '))
  const headers = { '.Dot': '.value', '..': '..', 'X-After': 'the signature covers what follows' }
  const { message, parsed } = await deliver({ attachments: [{ filename: 'big.dat', content }], headers })
  assert.ok(message.length > 1.6e6)
  assert.equal(parsed.attachments[0]!.content.toString('base64'), content)
  for (const [name, value] of Object.entries(headers))
    assert.deepEqual(
      fieldsOf(message).filter(([each]) => each === name),
      [[name, value]],
    )
  assert.equal(await dkimOf(postrider, message), 'pass')
  // And only with a large HTML.
  const html = `<p>${'Größe. '.repeat(200_000)}</p>`
  const second = await deliver({ html, text: 'short' })
  assert.equal(String(second.parsed.html).trimEnd(), html)
  assert.equal(await dkimOf(postrider, second.message), 'pass')
})

test('generates a missing text part from the html (html-to-text)', async () => {
  const html =
    '<h1>Title</h1><p>One &amp; <b>two</b> &lt;3&gt;</p><ul><li>first</li></ul><a href="https://x.test/y">link</a>' +
    '<style>p{}</style><script>no()</script><img src="cid:a" alt="">'
  const { parsed, shown } = await deliver({ html })
  assert.match(parsed.text!, /title/i)
  assert.match(parsed.text!, /One & two <3>/)
  assert.match(parsed.text!, /first/)
  assert.match(parsed.text!, /link.*https:\/\/x\.test\/y/s)
  assert.doesNotMatch(parsed.text!, /no\(\)|p\{\}|<b>|cid:/)
  assert.equal(shown['text'], null, 'the record keeps what was sent')
  for (const text of ['', ' \r\n\t']) {
    const blank = await deliver({ html, text })
    assert.equal(blank.parsed.text, parsed.text)
    assert.equal(blank.shown['text'], text, 'the record keeps what was sent')
  }
  const given = await deliver({ html, text: 'own words' })
  assert.equal(given.parsed.text?.trimEnd(), 'own words')
})

test('deleting an email deletes its files, and a rejected one leaves no files', async () => {
  const { deps } = postrider.appliance
  // The directory is there from the first file on.
  await post({ attachments: [file({ content: base64(Buffer.alloc(100_000)) })] })
  const spooled = (): string[] => readdirSync(deps.spool.path('')).toSorted()
  const before = spooled()
  const large = base64(Buffer.alloc(100_000, 'x'))
  const shown = await become(
    await post({ attachments: [file({ content: large }), file({ content: large })] }),
    'delivered',
  )
  assert.ok(spooled().length > before.length)
  const id = shown['message_id']!.slice(1, 37)
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  assert.deepEqual(spooled(), before)
  await refused([file({ content: large }), { filename: 'a.txt', path: url('/404') }], 'attachment_unavailable /1/path')
  assert.deepEqual(spooled(), before)
})

test('every email of this file is signed and valid for every parser', async () => {
  await become(await post({ attachments: [file()] }), 'delivered')
  await judgeAll(postrider, exchanger.heard)
})
