// Aggregate reports that rspamd and OpenDMARC send automatically about our domain: read with the right sums, and
// attributed to the sender that DMARC authenticates.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { withPrograms } from './rig/need.ts'
import { startPostrider, type RunningPostrider } from './rig/postrider.ts'
import { missingReporter, startOpendmarc, startRspamd, type JudgedMail, type ReportPeer } from './rig/reporters.ts'
import { freePort, until } from './rig/sandbox.ts'

const DOMAIN = 'shop.test'
const TO = `dmarc-reports@bounce.${DOMAIN}`
const OWN = '203.0.113.1'
/** Two mails of ours, one of a stranger in our name, and one of a stranger at another address. */
const MAILS: readonly JudgedMail[] = [
  { address: OWN, from: `ann@${DOMAIN}` },
  { address: OWN, from: `ann@${DOMAIN}` },
  { address: '198.51.100.7', from: `ann@${DOMAIN}` },
  { address: '2001:db8::7', from: `ann@${DOMAIN}` },
]

const PEERS = {
  rspamd: (dnsPort: number, smtpPort: number, email: string) => startRspamd(dnsPort, smtpPort, email),
  opendmarc: (_: number, smtpPort: number, email: string) =>
    startOpendmarc(smtpPort, { email, to: TO, passes: ({ address }) => address === OWN }),
} as const

for (const name of ['rspamd', 'opendmarc'] as const)
  withPrograms(`reports of ${name}`, missingReporter(name), () => {
    let dns: TestDns
    let postrider: RunningPostrider
    let peer: ReportPeer
    const reporter = `${name}.test`

    before(async () => {
      dns = await startTestDns()
      postrider = await startPostrider({ dns, hostname: 'mx.postrider.test', deliveryPort: await freePort() })
      await postrider.sendingDomain(DOMAIN)
      dns.set(`_dmarc.${DOMAIN}`, 'TXT', [`v=DMARC1; p=quarantine; rua=mailto:${TO}`])
      dns.set(DOMAIN, 'TXT', [`v=spf1 ip4:${OWN} -all`])
      // The peer sends from here, without a signature.
      dns.set(reporter, 'TXT', ['v=spf1 ip4:127.0.0.0/8 -all'])
      dns.set(`_dmarc.${reporter}`, 'TXT', ['v=DMARC1; p=reject'])
      peer = await PEERS[name](dns.port, postrider.smtpPort, `noreply@${reporter}`)
    })
    after(async () => {
      await peer?.stop()
      await postrider?.stop()
      await dns?.close()
    })

    test('are read with the right sums, and attributed to their sources', async () => {
      const said = await peer.report(MAILS)
      const [{ id }] = (await postrider.api('GET', `/domains?filter[name]=${DOMAIN}`)).body.data
      // oxlint-disable-next-line typescript/no-explicit-any
      const rows = async (path: string): Promise<any[]> =>
        (await postrider.api('GET', `/domains/${id}/${path}`)).body.data.map(
          ({ attributes }: { attributes: unknown }) => attributes,
        )
      await until(
        async () => (await rows('dmarc-sources')).length > 0,
        20_000,
        () => `no report came: ${said}\n${postrider.log().slice(-3000)}`,
      )
      const reports = await rows('aggregate-reports')
      assert.equal(reports.length, 1)
      assert.partialDeepStrictEqual(reports[0], {
        kind: 'dmarc',
        reporter,
        authenticated: true,
        outcome: 'read',
        format: 'rfc7489',
        messages: 4,
        pass: 2,
        fail: 2,
        skipped_records: 0,
        warnings: [],
      })
      const sources = (await rows('dmarc-sources')).map((each) => [each.address, each.messages, each.pass, each.fail])
      assert.deepEqual(
        new Set(sources.map(String)),
        new Set(['198.51.100.7,1,0,1', '2001:db8::7,1,0,1', `${OWN},2,2,0`]),
      )
    })
  })
