// Messages that cost more than their size, each as a function of its size in bytes. Line ends are CRLF. The hostile run
// sends them, and the tests of parsers measure them by doubling.

export interface Bomb {
  /** Of about so many bytes. */
  (octets: number): Buffer
}

const HEAD = 'From: Ann <ann@there.test>\r\nTo: box@here.test\r\nSubject: bomb\r\nMIME-Version: 1.0\r\n'

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')
const fill = (piece: string, octets: number): string => piece.repeat(Math.max(1, Math.floor(octets / piece.length)))
/** Numbered pieces, as many as fit. */
const series = (piece: (n: number) => string, octets: number): string => {
  const pieces: string[] = []
  for (let n = 0, length = 0; length < octets; n++) {
    const next = piece(n)
    pieces.push(next)
    length += next.length
  }
  return pieces.join('')
}

/** A header field that is made of a repeated piece. Headers end at 256 KB. */
const field =
  (begin: string, piece: string, end = ''): Bomb =>
  (octets) =>
    latin1(`${begin}${fill(piece, octets)}${end}\r\n${HEAD}\r\nx\r\n`)
const fields =
  (piece: (n: number) => string): Bomb =>
  (octets) =>
    latin1(`${series(piece, octets)}${HEAD}\r\nx\r\n`)
const body =
  (type: string, piece: string, encoding = '8bit'): Bomb =>
  (octets) =>
    latin1(`${HEAD}Content-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${fill(piece, octets)}\r\n`)
const multipart =
  (piece: string, boundary = 'b'): Bomb =>
  (octets) =>
    latin1(
      `${HEAD}Content-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n--${boundary}\r\n\r\nx\r\n${fill(piece, octets)}\r\n--${boundary}--\r\n`,
    )
const signature = (more: string): string =>
  `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=there.test; s=k; h=from; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; ${more}b=AAAA\r\n`
const arcSet = (n: number): string =>
  `ARC-Seal: i=${n}; a=rsa-sha256; t=1; cv=${n === 1 ? 'none' : 'pass'}; d=there.test; s=s${n}; b=AAAA\r\n` +
  `ARC-Message-Signature: i=${n}; a=rsa-sha256; c=relaxed/relaxed; d=there.test; s=s${n}; h=from; bh=AAAA; b=AAAA\r\n` +
  `ARC-Authentication-Results: i=${n}; there.test; spf=pass\r\n`
const signedBody =
  (signatures: string, piece: string): Bomb =>
  (octets) =>
    latin1(`${signatures}${HEAD}\r\n${fill(piece, octets)}\r\n`)
const report =
  (type: string, part: (octets: number) => string): Bomb =>
  (octets) =>
    latin1(
      `From: MAILER-DAEMON@there.test\r\nTo: box@here.test\r\nSubject: Undelivered Mail Returned to Sender\r\nContent-Type: multipart/report; report-type=x; boundary=b\r\n\r\n--b\r\n\r\nwords\r\n--b\r\nContent-Type: ${type}\r\n\r\n${part(octets)}\r\n--b--\r\n`,
    )
const bounceText =
  (piece: string): Bomb =>
  (octets) =>
    latin1(
      `From: MAILER-DAEMON@there.test\r\nTo: box@here.test\r\nSubject: failure notice\r\n\r\nHi. This is the qmail-send program.\r\nThis is a permanent error.\r\n\r\n${fill(piece, octets)}\r\n`,
    )
const nested =
  (level: (n: number) => string): Bomb =>
  (octets) =>
    latin1(`${HEAD}${series(level, octets)}\r\nx\r\n`)

/** Bombs in the header, which has 256 KB. */
export const HEADER_BOMBS: Record<string, Bomb> = {
  'a field of folds': field('X-Fold: a', '\r\n b'),
  'From of folds': field('From: a', '\r\n b', ' <ann@there.test>'),
  'a signed field of folds, relaxed': (octets) =>
    latin1(`${signature('')}From: a${fill('\r\n b', octets)} <ann@there.test>\r\nTo: x\r\n\r\nx\r\n`),
  'a signed field of folds, simple': (octets) =>
    latin1(
      `${signature('').replace('c=relaxed/relaxed', 'c=simple/simple')}From: a${fill('\r\n b', octets)} <ann@there.test>\r\n\r\nx\r\n`,
    ),
  'a signature of folds': (octets) => latin1(`${signature(`x=${fill('\r\n 1', octets)}; `)}${HEAD}\r\nx\r\n`),
  'a signature of spaces': (octets) => latin1(`${signature(`n=a${fill(' ', octets)}b; `)}${HEAD}\r\nx\r\n`),
  'a signature of semicolons': (octets) => latin1(`${signature(fill(';', octets))}${HEAD}\r\nx\r\n`),
  'a signature that lists many names': (octets) =>
    latin1(`${signature('').replace('h=from', `h=from${fill(':x', octets)}`)}${HEAD}\r\nx\r\n`),
  'many signatures': fields((n) => signature(`i=@s${n}.there.test; `)),
  'signatures of many lengths': fields((n) => signature(`l=${n}; `)),
  'many fields': fields((n) => `X-${n}: y\r\n`),
  'empty fields': fields(() => 'X:\r\n'),
  'a long field': field('X-Long: ', 'x'),
  'fields of white space': field('X-Space: a', ' ', 'b'),
  'Received without end': fields((n) => `Received: from a${n} ([192.0.2.1]) by b with SMTP id ${n}; now\r\n`),
  'Received of comments': field('Received: from a ', '(', ''),
  'lines that are not fields': fields(() => 'no field at all\r\n'),
  'names without a colon': fields(() => 'Name\r\n'),
  'encoded words': field('Subject: ', '=?utf-8?q?=C3=A9?= '),
  'encoded words without an end': field('Subject: ', '=?utf-8?q?a'),
  'encoded words of base64': field('Subject: ', '=?utf-8?B?w7w=?= '),
  'encoded words of ISO-2022-JP': field('Subject: ', '=?iso-2022-jp?B?GyRCJDMbKEI=?= '),
  'encoded words of UTF-7': field('Subject: ', '=?utf-7?q?+AAAA-?= '),
  'question marks': field('Subject: =', '?='),
  'encoded words in the sender': field('From: ', '=?utf-8?q?a?= ', '<ann@there.test>'),
  addresses: field('To: ', 'a@b.test, '),
  groups: field('To: ', 'g:a@b.test;, '),
  'comments in comments': field('To: ', '(', ''),
  comments: field('To: ', '(a)', ' a@b.test'),
  quotes: field('To: ', '"', ''),
  brackets: field('To: ', '<', ''),
  commas: field('Cc: ', ','),
  'at signs': field('From: ', '@'),
  'at signs in quotes': field('From: "', '@\\"', '" <ann@there.test>'),
  'senders of comments': field('From: ', '(a)', ' a@b.test'),
  'senders of nested comments': field('From: ', '(', ''),
  'senders of brackets': field('From: ', '<a@b>', ''),
  senders: field('From: ', 'a@b.test, '),
  backslashes: field('From: "', '\\', ''),
  dots: field('From: ', 'a.', '@there.test'),
  References: field('References: ', '<1@a.test> '),
  'References without an end': field('References: ', '<'),
  'Message-IDs': field('Message-ID: ', '<a@b>'),
  'In-Reply-To of words': field('In-Reply-To: ', 'Your message of Monday '),
  'continuations (RFC 2231)': (octets) =>
    latin1(`${HEAD}Content-Type: application/pdf${series((n) => `; name*${n}=a`, octets)}\r\n\r\nx\r\n`),
  'encoded continuations (RFC 2231)': (octets) =>
    latin1(
      `${HEAD}Content-Type: application/pdf; name*0*=utf-8''a${series((n) => `; name*${n + 1}*=%C3%BC`, octets)}\r\n\r\nx\r\n`,
    ),
  parameters: (octets) => latin1(`${HEAD}Content-Type: text/plain${series((n) => `; p${n}=v`, octets)}\r\n\r\nx\r\n`),
  'parameters of quotes': (octets) => latin1(`${HEAD}Content-Type: text/plain; a="${fill('\\"', octets)}\r\n\r\nx\r\n`),
  'percent signs': (octets) => latin1(`${HEAD}Content-Type: a/b; name*=utf-8''${fill('%', octets)}\r\n\r\nx\r\n`),
  'ARC sets': (octets) => latin1(`${series((n) => arcSet(n + 1), octets)}${HEAD}\r\nx\r\n`),
  'fifty ARC sets': () => latin1(`${Array.from({ length: 50 }, (_, n) => arcSet(n + 1)).join('')}${HEAD}\r\nx\r\n`),
  'authentication results of comments': field('Authentication-Results: ', '(', ''),
  'authentication results': field('ARC-Authentication-Results: i=1; a', '; dkim=pass (b)'),
  dates: field('Date: ', 'Mon, 1 Jan 2026 00:00:00 +0000 (UTC) '),
  'an automatic answer of spaces': field('Auto-Submitted: no', ' ', 'x'),
  'list fields': field('List-Unsubscribe: ', '<mailto:a@b>, '),
}

/** Bombs in the body. */
export const BODY_BOMBS: Record<string, Bomb> = {
  'plain text': body('text/plain', 'Hello, this is a line of text for a person.\r\n'),
  'one line': body('text/plain', 'a'),
  'line ends': body('text/plain', '\r\n'),
  'quoted-printable': body('text/plain', '=41', 'quoted-printable'),
  'quoted-printable soft ends': body('text/plain', '=\r\n', 'quoted-printable'),
  'quoted-printable spaces': body('text/plain', ' ', 'quoted-printable'),
  'invalid quoted-printable': body('text/plain', '=', 'quoted-printable'),
  base64: body('text/plain', 'QUFB', 'base64'),
  'invalid base64': body('text/plain', '!', 'base64'),
  'base64 of line ends': body('text/plain', '\r\n', 'base64'),
  uuencode: body('text/plain', 'begin 644 a\r\n#0V%T\r\n`\r\nend\r\n'),
  'uuencode as an encoding': body('text/plain', 'begin 644 a\r\n', 'x-uuencode'),
  'UTF-7': body('text/plain; charset=utf-7', '+AAAA-'),
  'UTF-7 without an end': body('text/plain; charset=utf-7', '+AAAA'),
  'ISO-2022-JP': body('text/plain; charset=iso-2022-jp', '\x1b$B$3\x1b(B'),
  'ISO-2022-JP escapes': body('text/plain; charset=iso-2022-jp', '\x1b'),
  'GB 18030': body('text/plain; charset=gb18030', '\x81\x30\x81\x30'),
  'UTF-16': body('text/plain; charset=utf-16', '\xff\xfe'),
  'an unknown charset': body(`text/plain; charset=${'x'.repeat(1000)}`, '\xe9'),
  'format flowed': body('text/plain; format=flowed; delsp=yes', '> a \r\n'),
  'flowed quotes': body('text/plain; format=flowed', '>'),
  'HTML nesting': body('text/html', '<div>'),
  'HTML tables': body('text/html', '<table><tr><td>'),
  'HTML entities': body('text/html', '&amp;'),
  'invalid HTML entities': body('text/html', '&'),
  'HTML tags without an end': body('text/html', '<a '),
  'HTML comments': body('text/html', '<!--'),
  'HTML attributes': (octets) =>
    latin1(`${HEAD}Content-Type: text/html\r\n\r\n<p ${series((n) => `a${n}=b `, octets)}>\r\n`),
  boundaries: multipart('--b\r\n\r\ny\r\n'),
  'boundaries without a part': multipart('--bb\r\n'),
  dashes: multipart('-', '-'),
  'boundaries without line ends': multipart('--b'),
  'boundaries of spaces': multipart('--b     \r\n'),
  'closing boundaries': multipart('--b--\r\n'),
  'parts of headers': multipart('--b\r\nContent-Type: text/plain; charset=utf-7\r\nX-A: b\r\n\r\n'),
  'attachments without names': multipart(
    '--b\r\nContent-Type: application/zip\r\nContent-Transfer-Encoding: base64\r\n\r\nUEsDBA==\r\n',
  ),
  TNEF: multipart(
    '--b\r\nContent-Type: application/ms-tnef; name=winmail.dat\r\nContent-Transfer-Encoding: base64\r\n\r\neJ8+Ig==\r\n',
  ),
  'multiparts in multiparts': nested((n) => `Content-Type: multipart/mixed; boundary="b${n}"\r\n\r\n--b${n}\r\n`),
  'alternatives in alternatives': nested(() => 'Content-Type: multipart/alternative; boundary="b"\r\n\r\n--b\r\n'),
  'messages in messages': nested(() => 'Content-Type: message/rfc822\r\n\r\n'),
  'messages in a digest': (octets) =>
    latin1(
      `${HEAD}Content-Type: multipart/digest; boundary=b\r\n\r\n${fill('--b\r\n\r\nSubject: x\r\n\r\ny\r\n', octets)}--b--\r\n`,
    ),
  'a partial message': body('message/partial; id=a; number=1; total=1000000', 'x\r\n'),
  'an external body': body('message/external-body; access-type=url; url="http://there.test/"', 'x\r\n'),
  'a signed line without end': signedBody(signature(''), 'a'),
  'signed spaces': signedBody(signature(''), ' '),
  'signed line ends': signedBody(signature(''), '\r\n'),
  'a body hashed in many ways': signedBody(
    Array.from({ length: 10 }, (_, n) => signature(`l=${n}; `)).join(''),
    'Hello.\r\n',
  ),
  'a simple signature over lines': signedBody(signature('').replace('c=relaxed/relaxed', 'c=simple/simple'), ' a \r\n'),
  'a report of many recipients': report('message/delivery-status', (octets) =>
    series((n) => `Final-Recipient: rfc822; a${n}@there.test\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n`, octets),
  ),
  'a report without empty lines': report('message/delivery-status', (octets) =>
    series((n) => `Final-Recipient: rfc822; a${n}@there.test\r\n`, octets),
  ),
  'a report of empty lines': report('message/delivery-status', (octets) => fill('\r\n \t', octets)),
  'a report of spaces': report('message/delivery-status', (octets) => `Diagnostic-Code: smtp;${fill(' ', octets)}x`),
  'a report of digits': report(
    'message/delivery-status',
    (octets) => `Diagnostic-Code: smtp; ${fill('5.1.1', octets)}`,
  ),
  'a complaint of fields': report('message/feedback-report', (octets) =>
    series((n) => `Original-Rcpt-To: a${n}@there.test\r\n`, octets),
  ),
  'a complaint in complaints': report(
    'message/feedback-report',
    (octets) =>
      `Feedback-Type: abuse\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n${fill('Content-Type: message/rfc822\r\n\r\n', Math.min(octets, 700))}`,
  ),
  'a complaint of copies': report(
    'message/feedback-report',
    (octets) =>
      `Feedback-Type: abuse\r\n${fill('\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nReturn-Path: <a@b>\r\n', octets)}`,
  ),
  'a bounce of addresses': bounceText('<a@there.test>: 550 5.1.1 no\r\n'),
  'a bounce of one line': bounceText('<a@there.test>: 550 '),
  'a bounce of at signs': bounceText('@'),
  'a bounce of spaces': bounceText(' '),
  'a bounce of recipients and empty lines': bounceText('<a@there.test>:\r\n\r\n'),
  'a bounce of digits': bounceText('5.1.1 '),
}
