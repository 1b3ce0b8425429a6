// Other mail software submits emails by SMTP on both ports, and they arrive at a Postfix whose OpenDKIM verifies that
// their bytes are unchanged.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { accessSync, chownSync, constants, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createTransport } from 'nodemailer'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { runPostfix } from './rig/instance.ts'
import { withPrograms } from './rig/need.ts'
import { missing, receivingPostfix, type ReceivingPostfix } from './rig/postfix.ts'
import { startPostrider, type RunningPostrider } from './rig/postrider.ts'
import { Sandbox, until } from './rig/sandbox.ts'

const EXIM = join(process.env['POSTRIDER_EXIM'] ?? '/var/tmp/postrider-exim', 'usr/sbin/exim4')
const NEEDED = [
  '/usr/bin/swaks',
  '/usr/bin/msmtp',
  '/usr/bin/php',
  '/usr/share/php/libphp-phpmailer/autoload.php',
  EXIM,
]
const absent = (): string[] => [
  ...missing(),
  ...NEEDED.filter((path) => {
    try {
      accessSync(path, constants.R_OK)
      return false
    } catch {
      return true
    }
  }),
]
const LIMIT = 60_000

withPrograms('submission with other mail software', absent(), () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-submission-'))
  let dns: TestDns
  let postrider: RunningPostrider
  let receiver: ReceivingPostfix
  let token: string

  before(async () => {
    dns = await startTestDns()
    dns.set('mx.postrider.example', 'A', ['127.0.0.1'])
    receiver = await receivingPostfix({ domains: ['there.example'], opendkimVerify: true }).start()
    dns.set('there.example', 'MX', ['10 mx.there.example'])
    dns.set('mx.there.example', 'A', ['127.0.0.1'])
    postrider = await startPostrider({
      dns,
      hostname: 'mx.postrider.example',
      deliveryPort: receiver.port,
      more: '[submission]\nlisten = ["127.0.0.1:0"]\ntls_listen = ["127.0.0.1:0"]',
    })
    await postrider.sendingDomain('shop.example')
    const { records } = (await postrider.json('domain', 'records', 'shop.example')) as {
      records: { record_type: string; name: string; value: string; required: boolean }[]
    }
    const { name, value } = records.find(({ record_type, required }) => record_type === 'DKIM' && required)!
    await receiver.setKeys([{ selector: name.split('.')[0]!, domain: 'shop.example', record: value }])
    token = postrider.token
  })
  after(async () => {
    await postrider?.stop()
    await receiver?.stop()
    await dns?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const run = (program: string, args: string[], input = '', env: Record<string, string> = {}): Promise<string> =>
    new Promise((resolve, reject) => {
      const child = execFile(
        program,
        args,
        { cwd: folder, timeout: LIMIT, env: { PATH: process.env['PATH'], HOME: folder, ...env } },
        (error, stdout, stderr) =>
          error ? reject(new Error(`${program}: ${stdout}${stderr}`)) : resolve(stdout + stderr),
      )
      child.stdin!.on('error', () => {}).end(input)
    })
  const file = (name: string, text: string, mode = 0o600): string => {
    writeFileSync(join(folder, name), text, { mode })
    return join(folder, name)
  }

  /**
   * The received message with this subject and CRLF line ends, verified by the receiver's OpenDKIM and listed in the
   * API.
   */
  async function arrived(subject: string): Promise<string> {
    let letter = ''
    await until(
      async () =>
        (letter =
          (await receiver.maildir())
            .map((each) => each.toString('latin1').replace(/\r?\n/g, '\r\n'))
            .find((each) => each.includes(`\r\nSubject: ${subject}\r\n`)) ?? '') !== '',
      LIMIT,
      () => `"${subject}" did not arrive:\n${receiver.log().slice(-2000)}\n${postrider.log().slice(-3000)}`,
    )
    assert.match(letter, /Authentication-Results:[^\r]*(?:\r\n\s[^\r]*)*dkim=pass/, letter)
    const { body } = await postrider.api('GET', '/outbound-emails?page[size]=50&sort=-created_at')
    assert.ok(
      body.data.some((each: { attributes: { subject: string } }) => each.attributes.subject === subject),
      `${subject} in the API`,
    )
    return letter
  }
  /** Checks that the received message contains the fields and the body as sent. */
  function assertKept(letter: string, fields: string, body: string): void {
    assert.ok(letter.includes(fields), `${JSON.stringify(fields)} in ${letter}`)
    assert.ok(letter.endsWith(`\r\n\r\n${body}`), `${JSON.stringify(body)} at the end of ${letter}`)
  }

  test('swaks on both ports', async () => {
    const { submission, submissions } = postrider.ports
    for (const [subject, more] of [
      ['By swaks 587', ['--port', String(submission[0]), '--tls']],
      ['By swaks 465', ['--port', String(submissions[0]), '--tlsc']],
    ] as const) {
      const fields = `From: Shop <a@shop.example>\r\nTo: b@there.example\r\nSubject: ${subject}\r\nX-Folded: one\r\n  two\r\n`
      const data = `${fields}\r\nLine one\r\n.dot\r\n`
      const said = await run('/usr/bin/swaks', [
        '--server',
        '127.0.0.1',
        ...more,
        '--auth',
        'PLAIN',
        '--auth-user',
        'x',
        '--auth-password',
        token,
        '--from',
        'a@shop.example',
        '--to',
        'b@there.example',
        '--data',
        file('swaks.eml', data),
      ])
      assert.match(said, /250 2\.0\.0 Ok: queued as [0-9a-f-]{36}/)
      assertKept(await arrived(subject), fields, 'Line one\r\n.dot\r\n\r\n')
    }
    await assert.rejects(
      run('/usr/bin/swaks', [
        '--server',
        '127.0.0.1',
        '--port',
        String(submissions[0]),
        '--tlsc',
        '--auth',
        'PLAIN',
        '--auth-user',
        'x',
        '--auth-password',
        'pr_wrong',
        '--from',
        'a@shop.example',
        '--to',
        'b@there.example',
      ]),
      /535 5\.7\.8/,
    )
  })

  test('msmtp', async () => {
    const config = file(
      'msmtprc',
      `account default\nhost 127.0.0.1\nport ${postrider.ports.submissions[0]}\ntls on\ntls_starttls off\ntls_certcheck off\nauth plain\nuser postrider\npassword ${token}\nfrom a@shop.example\n`,
    )
    const fields = 'From: a@shop.example\r\nTo: Bob <b@there.example>\r\nBcc: c@there.example\r\nSubject: By msmtp\r\n'
    await run('/usr/bin/msmtp', ['-C', config, '-t'], `${fields}\r\nHello\r\n`.replaceAll('\r\n', '\n'))
    const letter = await arrived('By msmtp')
    assert.doesNotMatch(letter, /^Bcc:/im)
    assertKept(letter, 'To: Bob <b@there.example>\r\n', 'Hello\r\n')
  })

  test('Python, 8 bits and SMTPUTF8', async () => {
    await run(
      '/usr/bin/python3',
      ['-'],
      `
import smtplib, ssl
context = ssl._create_unverified_context()
with smtplib.SMTP("127.0.0.1", ${postrider.ports.submission[0]}) as smtp:
    smtp.starttls(context=context)
    smtp.login("anybody", "${token}")
    smtp.sendmail("a@shop.example", ["b@there.example"], "From: J\\u00f6rg <a@shop.example>\\r\\nTo: b@there.example\\r\\nSubject: By Python\\r\\nMIME-Version: 1.0\\r\\nContent-Type: text/plain; charset=utf-8\\r\\nContent-Transfer-Encoding: 8bit\\r\\n\\r\\nGr\\u00fc\\u00dfe \\u20ac\\r\\n".encode(), mail_options=["SMTPUTF8", "BODY=8BITMIME"])
`,
    )
    assertKept(
      await arrived('By Python'),
      'Content-Transfer-Encoding: 8bit\r\n',
      Buffer.from('Grüße €\r\n').toString('latin1'),
    )
  })

  test('nodemailer', async () => {
    const transport = createTransport({
      host: '127.0.0.1',
      port: postrider.ports.submission[0]!,
      requireTLS: true,
      tls: { rejectUnauthorized: false },
      auth: { user: 'postrider', pass: token },
    })
    const { response } = await transport.sendMail({
      from: 'a@shop.example',
      to: 'b@there.example',
      subject: 'By nodemailer',
      html: '<p>Hello</p>',
      text: 'Hello',
      attachments: [{ filename: 'ü.txt', content: 'ü' }],
    })
    transport.close()
    assert.match(response, /queued as/)
    await arrived('By nodemailer')
  })

  test('PHPMailer', async () => {
    await run(
      '/usr/bin/php',
      [],
      `<?php require '/usr/share/php/libphp-phpmailer/autoload.php';
$mail = new PHPMailer\\PHPMailer\\PHPMailer(true);
$mail->isSMTP(); $mail->Host = '127.0.0.1'; $mail->Port = ${postrider.ports.submissions[0]}; $mail->SMTPSecure = 'ssl';
$mail->SMTPAuth = true; $mail->Username = 'wordpress'; $mail->Password = '${token}'; $mail->CharSet = 'UTF-8';
$mail->SMTPOptions = ['ssl' => ['verify_peer' => false, 'verify_peer_name' => false, 'allow_self_signed' => true]];
$mail->setFrom('a@shop.example', 'Grüße'); $mail->addAddress('b@there.example'); $mail->Subject = 'By PHPMailer';
$mail->isHTML(true); $mail->Body = '<p>Hällo</p>'; $mail->AltBody = 'Hällo'; $mail->send(); echo 'sent';`,
    )
    await arrived('By PHPMailer')
  })

  test('git send-email', async () => {
    const patch = file(
      '0001-one.patch',
      'From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: Ann <a@shop.example>\nDate: Mon, 16 Nov 2026 10:00:00 +0000\nSubject: By git\n\nOne.\n---\n a | 1 +\n',
    )
    await run('git', ['init', '-q'])
    await run(
      'git',
      [
        '-c',
        'sendemail.smtpsslcertpath=',
        'send-email',
        '--quiet',
        '--confirm=never',
        '--suppress-cc=all',
        '--from=a@shop.example',
        '--to=b@there.example',
        '--smtp-server=127.0.0.1',
        `--smtp-server-port=${postrider.ports.submissions[0]}`,
        '--smtp-encryption=ssl',
        '--smtp-user=git',
        `--smtp-pass=${token}`,
        patch,
      ],
      '',
      {
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_COMMITTER_NAME: 'Ann',
        GIT_COMMITTER_EMAIL: 'a@shop.example',
        GIT_AUTHOR_NAME: 'Ann',
        GIT_AUTHOR_EMAIL: 'a@shop.example',
      },
    )
    assertKept(await arrived('By git'), 'Subject: By git\r\n', 'One.\r\n---\r\n a | 1 +\r\n')
  })

  test('Postfix with Postrider as its relay host', async () => {
    const box = new Sandbox('relayhost')
    const port = postrider.ports.submission[0]!
    const relay = await runPostfix(box, 'app.shop.example', {
      mynetworks: '127.0.0.0/8',
      smtpd_relay_restrictions: 'permit_mynetworks, reject',
      relayhost: `[127.0.0.1]:${port}`,
      smtp_tls_security_level: 'encrypt',
      smtp_sasl_auth_enable: 'yes',
      smtp_sasl_security_options: 'noanonymous',
      smtp_sasl_password_maps: `inline:{ [127.0.0.1]:${port}=postrider:${token} }`,
    })
    try {
      await run('/usr/bin/swaks', [
        '--server',
        '127.0.0.1',
        '--port',
        String(relay.port),
        '--from',
        'root@app.shop.example',
        '--to',
        'b@there.example',
        '--header',
        'From: a@shop.example',
        '--header',
        'Subject: By Postfix',
        '--body',
        'Hello',
      ])
      await arrived('By Postfix')
    } finally {
      await box.close()
    }
  })

  test('Exim with Postrider as its smarthost', async () => {
    const spool = mkdtempSync(join(tmpdir(), 'postrider-exim-'))
    chownSync(spool, Number(await run('/usr/bin/id', ['-u', 'Debian-exim'])), 0)
    const config = join(spool, 'exim.conf')
    writeFileSync(
      config,
      `spool_directory = ${spool}
exim_path = ${EXIM}
log_file_path = ${spool}/%slog
primary_hostname = app.shop.example
exim_user = Debian-exim
exim_group = Debian-exim
keep_environment =
begin routers
smarthost:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = smarthost
begin transports
smarthost:
  driver = smtp
  port = ${postrider.ports.submissions[0]}
  protocol = smtps
  hosts_require_auth = *
  tls_verify_certificates =
begin authenticators
postrider:
  driver = plaintext
  public_name = PLAIN
  client_send = ^postrider^${token}
`,
      { mode: 0o644 },
    )
    const fields = 'From: a@shop.example\nTo: b@there.example\nSubject: By Exim\n'
    await run(
      EXIM,
      ['-C', config, '-odf', '-oi', '-f', 'root@app.shop.example', 'b@there.example'],
      `${fields}\nHello\n`,
    )
    try {
      await arrived('By Exim')
    } catch (thrown) {
      throw new Error(readFileSync(join(spool, 'mainlog'), 'utf8'), { cause: thrown })
    } finally {
      rmSync(spool, { recursive: true, force: true })
    }
  })
})
