// DANE between real servers: zones signed by BIND's tools, served by NSD and BIND, a validating Unbound, and Postfix as
// the MX hosts. Postrider and a Postfix that also sends with DANE each send an email to each domain of the table
// (kit/dane-cases.ts). Both must have the result in the table.

import assert from 'node:assert/strict'
import { accessSync, chownSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { after, before, test } from 'node:test'
import { createTransport } from 'nodemailer'
import { EXCHANGERS, daneCases, makeMaterial, type DaneCase } from '../kit/dane-cases.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { inOwnNetwork } from './guide/network.ts'
import { NOBODY, runPostfix, type Running } from './rig/instance.ts'
import { withPrograms } from './rig/need.ts'
import { startPostrider, type RunningPostrider } from './rig/postrider.ts'
import { missing, Sandbox, until } from './rig/sandbox.ts'
import { DNS_PROGRAMS, SignedWorld } from './rig/signed-dns.ts'

const absent = [
  ...missing(),
  ...[...DNS_PROGRAMS, '/usr/bin/tcpdump', '/usr/bin/unshare'].filter((path) => {
    try {
      accessSync(path)
      return false
    } catch {
      return true
    }
  }),
]

const material = makeMaterial()
const cases = daneCases(material)
const addressOf = (kind: string): string => `127.0.1.${EXCHANGERS.indexOf(kind as (typeof EXCHANGERS)[number]) + 1}`
const ORACLE = '127.0.0.2'
const FROM = 'here.example'

/** What one sender did with a mail. */
interface Outcome {
  result: string
  at: string | undefined
  tls: boolean | undefined
}

const recipientOf = ({ label }: DaneCase): string => `a@${label}.test`

/** The exchangers but the one whose handshake breaks: one Postfix with a listener for each. */
async function startExchangers(box: Sandbox): Promise<Running> {
  mkdirSync(box.path('store'))
  chownSync(box.path('store'), NOBODY, NOBODY)
  const services = EXCHANGERS.filter((kind) => kind !== 'broken').map((kind) => {
    const shown = material.shown[kind]
    const tls = shown
      ? `-o smtpd_tls_security_level=may -o smtpd_tls_chain_files=${box.write(`${kind}.pem`, shown.key + shown.cert)}`
      : '-o smtpd_tls_security_level=none'
    return `${addressOf(kind)}:25 inet n - n - - smtpd -o myhostname=${kind}.exchanger.test ${tls}\n`
  })
  const settings = {
    virtual_mailbox_domains: cases.map(({ label }) => `${label}.test`).join(' '),
    virtual_mailbox_base: box.path('store'),
    virtual_mailbox_maps: 'static:box/',
    virtual_uid_maps: `static:${NOBODY}`,
    virtual_gid_maps: `static:${NOBODY}`,
    mynetworks: '192.0.2.1/32',
    smtpd_relay_restrictions: 'reject_unauth_destination',
    smtpd_tls_received_header: 'yes',
    smtpd_client_connection_count_limit: 0,
    inet_interfaces: 'all',
  }
  return runPostfix(box, 'exchanger.test', settings, { services: services.join('') })
}

/** It says that it takes TLS, and breaks the handshake. */
const startBroken = (): Promise<Server> =>
  new Promise((resolve) => {
    const server = createServer((socket) => {
      socket.on('error', () => {}).write('220 broken.exchanger.test ESMTP\r\n')
      socket.on('data', (chunk: Buffer) => {
        const line = chunk.toString('latin1')
        if (/^EHLO/i.test(line)) socket.write('250-broken.exchanger.test\r\n250 STARTTLS\r\n')
        else if (/^STARTTLS/i.test(line)) socket.write('220 2.0.0 Ready to start TLS\r\n')
        // The ClientHello, or whatever comes in its place.
        else socket.end(line.startsWith('\x16') ? 'this is not TLS\r\n' : '221 2.0.0 Bye\r\n')
      })
    })
    server.listen(25, addressOf('broken'), () => resolve(server))
  })

/** A Postfix that sends by DANE. Its resolver library must be told to believe AD. */
function startOracle(box: Sandbox): Promise<Running> {
  const resolv = box.write('resolv.conf', 'nameserver 127.0.0.1\noptions trust-ad timeout:5 attempts:1\n')
  const under = [
    '/usr/bin/unshare',
    '--mount',
    '/bin/sh',
    '-c',
    'mount --bind "$0" /etc/resolv.conf && exec "$@"',
    resolv,
  ]
  const settings = {
    smtp_tls_security_level: 'dane',
    smtp_dns_support_level: 'dnssec',
    smtp_host_lookup: 'dns',
    smtp_tls_loglevel: 1,
    smtpd_relay_restrictions: 'permit_mynetworks, reject',
    inet_interfaces: 'all',
    smtp_tls_connection_reuse: 'no',
    smtp_connection_cache_on_demand: 'no',
    minimal_backoff_time: '3600s',
    queue_run_delay: '3600s',
  }
  return runPostfix(box, 'oracle.here.example', settings, { address: ORACLE, port: 2525, under })
}

if (absent.length > 0 || (await inOwnNetwork(import.meta.filename, async () => {})))
  withPrograms('DANE between real peers', absent, () => {
    const boxes = [new Sandbox('exchangers'), new Sandbox('oracle'), new Sandbox('wire')]
    const [exchangerBox, oracleBox, wireBox] = boxes as [Sandbox, Sandbox, Sandbox]
    let dns: TestDns
    let world: SignedWorld
    let broken: Server
    let oracle: Running
    let postrider: RunningPostrider
    const ours = new Map<string, Outcome>()
    const theirs = new Map<string, Outcome>()
    const proofs = new Map<string, string | undefined>()
    /** The mails that the exchangers have: "SUBJECT RECIPIENT" to where and how. */
    const arrived = new Map<string, { kind: string; tls: boolean }>()

    before(
      async () => {
        dns = await startTestDns()
        world = await SignedWorld.serve(cases, addressOf, { domain: FROM, port: dns.port })
        broken = await startBroken()
        await startExchangers(exchangerBox)
        oracle = await startOracle(oracleBox)
        const capture = wireBox.daemon(
          '/usr/bin/tcpdump',
          ['-i', 'lo', '-U', '-s', '0', '-Z', 'root', '-w', wireBox.path('wire'), 'tcp', 'port', '25'],
          'tcpdump.log',
        )
        await until(
          () => wireBox.read('tcpdump.log').includes('listening on'),
          10_000,
          () => wireBox.read('tcpdump.log'),
        )
        postrider = await startPostrider({ dns: { ...dns, port: 53 }, hostname: 'mx.here.example', deliveryPort: 25 })
        // The resolver remembers for some seconds that the records were not there yet.
        const active = async (): Promise<boolean> =>
          (await postrider.json('domain', 'check', FROM).catch(() => ({ status: '' }))).status === 'active'
        await postrider.sendingDomain(FROM).catch(() => until(active, 30_000, () => `${FROM} is not active`))
        await Promise.all([sendByPostrider(), sendByOracle()])
        await capture.stop()
        readArrived()
      },
      { timeout: 240_000 },
    )
    after(async () => {
      await postrider?.stop()
      await world?.[Symbol.asyncDispose]()
      broken?.close()
      await dns?.close()
      for (const box of boxes) await box.close()
    })

    async function sendByPostrider(): Promise<void> {
      const sent = await Promise.all(
        cases.map(async (one) => ({
          one,
          mail: await postrider.post({ from: `me@${FROM}`, to: recipientOf(one), subject: 'ours', html: '<p>x</p>' }),
        })),
      )
      for (const { mail, one } of sent) {
        const { recipients } = await postrider.settled(
          mail.id,
          ({ response, status }) => status !== 'active' && response !== null,
          90_000,
        )
        const [to] = recipients
        const { body } = await postrider.api('GET', `/outbound-emails/${mail.id}/attempts`)
        const { tls } = body.data[0].attributes
        proofs.set(one.label, tls?.verified_by)
        ours.set(one.label, {
          result: to!.status === 'delivered' ? 'delivered' : (to!.enhanced_code ?? '').slice(2),
          at: to!.status === 'delivered' ? (to!.remote_mta ?? undefined) : undefined,
          tls: to!.status === 'delivered' ? tls.protocol !== null : undefined,
        })
      }
    }

    async function sendByOracle(): Promise<void> {
      const transport = createTransport({ host: ORACLE, port: 2525, secure: false, ignoreTLS: true, pool: true })
      for (const one of cases)
        await transport.sendMail({ from: `me@${FROM}`, to: recipientOf(one), subject: 'oracle', text: 'x' })
      transport.close()
      const line = (one: DaneCase): RegExpExecArray | null =>
        new RegExp(`to=<${recipientOf(one)}>, relay=([^,[]+).*?, dsn=([\\d.]+), status=(\\w+)`).exec(oracle.log())
      await until(
        () => cases.every((one) => line(one) !== null),
        90_000,
        () =>
          `no word of ${cases
            .filter((one) => line(one) === null)
            .map(({ label }) => label)
            .join()}: ${oracle.log()}`,
      )
      for (const one of cases) {
        const [, relay, dsn = '', status] = line(one)!
        const sent = status === 'sent'
        theirs.set(one.label, {
          result: sent ? 'delivered' : dsn.slice(2),
          at: sent ? relay : undefined,
          tls: undefined,
        })
      }
    }

    function readArrived(): void {
      const folder = exchangerBox.path('store/box/new')
      for (const name of readdirSync(folder)) {
        const text = readFileSync(`${folder}/${name}`, 'utf8')
        const [, subject = ''] = /^Subject: (.*)$/m.exec(text) ?? []
        const [, recipient = ''] = /^X-Original-To: (.*)$/m.exec(text) ?? []
        const received = /^Received: [^]*?(?=^\S)/m.exec(text.slice(text.indexOf('\nReceived:') + 1))?.[0] ?? ''
        const [, kind = ''] = /by (\w+)\.exchanger\.test/.exec(received) ?? []
        arrived.set(`${subject} ${recipient}`, { kind, tls: /with ESMTPS/.test(received) })
      }
    }

    for (let row = 1; row <= 30; row++)
      for (const one of cases.filter((each) => each.row === row))
        test(`row ${row}: ${one.title} (${one.label})`, () => {
          const { at, proof, result } = one.expect
          const [mine, other] = [ours.get(one.label)!, theirs.get(one.label)!]
          const said = JSON.stringify({ mine, other })
          assert.equal(mine.result.startsWith(result), true, `ours: ${said}`)
          if (one.oracle === undefined) assert.equal(other.result.startsWith(result), true, `Postfix: ${said}`)
          if (result !== 'delivered') {
            for (const sender of ['ours', 'oracle'])
              assert.ok(!arrived.has(`${sender} ${recipientOf(one)}`), `${sender} arrived`)
            return
          }
          assert.equal(mine.at, at)
          assert.equal(mine.tls, true)
          assert.equal(proofs.get(one.label), proof)
          const [here, there] = [arrived.get(`ours ${recipientOf(one)}`), arrived.get(`oracle ${recipientOf(one)}`)]
          assert.equal(here?.tls, true)
          // To the same exchanger, as encrypted.
          if (one.oracle === undefined) assert.deepEqual(here, there)
        })

    test('the emails of rows 7 to 9 are never sent in clear text', () => {
      const wire = readFileSync(wireBox.path('wire')).toString('latin1')
      assert.match(wire, /EHLO mx\.here\.example/)
      assert.match(wire, /EHLO oracle\.here\.example/)
      for (const label of ['r7', 'r8', 'r9']) assert.ok(!wire.includes(`a@${label}.test`), label)
    })

    test('doctor reports that the resolver validates', async () => {
      const { stdout } = await postrider.command(
        '--json',
        'doctor',
        '--probe',
        'r2.test',
        '--time-server',
        '127.0.0.1:1',
      )
      const found = (JSON.parse(stdout) as { check: string; detail: string }[]).find(({ check }) => check === 'DANE')
      assert.equal(found?.detail, 'validating: 127.0.0.1:53')
    })
  })
