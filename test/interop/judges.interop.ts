// SpamAssassin and rspamd evaluate 500 diverse emails: from the API and campaigns, in 22 languages, with attachments,
// replies, tracking and long lines. Each rule with a penalty is listed with its reason. None is about the structure of
// our emails.
import assert from 'node:assert/strict'
import { after, before, test, type TestContext } from 'node:test'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'
import { campaigns, DOMAINS, FROM, posts, TRACKING } from './rig/diverse.ts'
import { withPrograms } from './rig/need.ts'
import { missingRspamd, startRspamdJudge, type Arrived, type Judgement } from './rig/rspamd.ts'
import { judgedBySpamassassin, missingSpamassassin } from './rig/spamassassin.ts'

const MAILS = 500
/** Where the mail comes from in the world (see outbound.interop.ts). */
const CLIENT = { name: 'mx.example.com', address: '192.88.99.7' }

const FEW_WORDS = 'the customer shows a picture beside few words, or asked for a pixel that counts opens'
const SPAMASSASSIN = {
  /** The score from which a mail counts as spam. */
  limit: 5,
  /** A rule, or the beginning of its name, and why it fires. */
  reasons: {
    HTML_MESSAGE: 'there is HTML',
    HTML_IMAGE_ONLY_: FEW_WORDS,
    T_REMOTE_IMAGE: FEW_WORDS,
  },
}
const RSPAMD = {
  limit: 6,
  reasons: {
    FORGED_SENDER: 'the envelope has an address of its own for each recipient, in a subdomain (DMARC passes)',
    ONCE_RECEIVED: 'mail goes to its exchanger without a stop',
    MANY_INVISIBLE_PARTS: 'the preview text of a campaign is not shown in the mail itself',
    URI_COUNT_ODD: 'a picture has an address in the HTML, and none in the plain text',
    MIME_BASE64_TEXT: 'an attached text arrives octet for octet',
    SUBJECT_HAS_: 'the customer wrote a question or a price in the subject',
    LONG_SUBJ: 'the customer wrote a long subject',
    R_MIXED_CHARSET: 'names and subjects of different scripts in one mail, or a script with signs above its letters',
  },
}

withPrograms('spam filters on 500 emails', [...missingSpamassassin(), ...missingRspamd()], () => {
  const exchanger = testExchanger()
  let postrider: TestAppliance
  let letters: Arrived[]

  before(async () => {
    postrider = await startTestAppliance({
      exchanger,
      // The judges compare the date of a mail with their own clock.
      clock: new ManualClock(Date.now()),
      domains: [FROM],
      routes: DOMAINS,
      config: { hostname: CLIENT.name, http: { public_url: `https://${CLIENT.name}` } },
    })
    postrider.dns.set(CLIENT.name, 'A', [CLIENT.address])
    await sent(postrider)
    const byId = new Map<string, Arrived>()
    await until(
      () => {
        // A mail to two domains comes twice.
        for (const { from, message, to } of exchanger.heard) {
          const [, id = ''] = /^Message-ID: (.*)\r$/m.exec(message) ?? []
          byId.set(id, { from, to, letter: received(message, postrider.clock.now()) })
        }
        return byId.size === MAILS
      },
      `${MAILS} mails`,
      () => byId.size,
    )
    letters = [...byId.values()]
  })
  after(() => postrider?.stop())

  test('SpamAssassin finds no problem in their structure', async (t) => {
    report(t, SPAMASSASSIN, await judgedBySpamassassin(letters.map(({ letter }) => letter)), letters)
  })

  test('rspamd finds no problem in their structure', async (t) => {
    const judge = await startRspamdJudge(postrider.dns.port, CLIENT)
    try {
      const judged: Judgement[] = []
      for (const each of letters) judged.push(await judge.judge(each))
      report(t, RSPAMD, judged, letters)
      for (const good of ['R_DKIM_ALLOW', 'R_SPF_ALLOW', 'DMARC_POLICY_ALLOW', 'MIME_GOOD'])
        assert.ok(
          judged.every(({ rules }) => rules.some(({ name }) => name === good)),
          good,
        )
    } finally {
      await judge.stop()
    }
  })
})

/** Posts the mails and starts the campaigns. */
async function sent(postrider: TestAppliance): Promise<void> {
  const mails = mailsOf(() => postrider)
  const kit = campaignKit(() => postrider)
  const domain = await postrider.activeDomain(TRACKING)
  const tracking = { open_tracking_enabled: true, click_tracking_enabled: true }
  const { status } = await postrider.api(
    'PATCH',
    `/domains/${domain.id}`,
    document('domains', tracking, { id: domain.id }),
  )
  assert.equal(status, 200)
  for (const each of posts()) await mails.post(each)
  for (const { attributes, contacts } of campaigns()) {
    const audience = await kit.audience(domain, String(attributes['name']))
    await kit.fill(audience, contacts)
    const scheduled = await kit.patch(await kit.draft(audience, attributes), { status: 'scheduled' })
    assert.equal(scheduled.status, 200, JSON.stringify(scheduled.body))
  }
}

/** A letter with what the exchanger of a stranger writes above it. */
const received = (message: string, now: number): Buffer =>
  Buffer.from(
    `Received: from ${CLIENT.name} (${CLIENT.name} [${CLIENT.address}])\r\n\tby mx.example.org (Postfix) with ESMTPS id 4XyZ12;\r\n\t${new Date(now).toUTCString().replace('GMT', '+0000')}\r\n${message}`,
  )

/** Says which rules fired, and how often; fails for one without a reason, a reason without a rule, or a score. */
function report(
  t: TestContext,
  { limit, reasons }: { limit: number; reasons: Readonly<Record<string, string>> },
  judged: readonly Judgement[],
  letters: readonly Arrived[],
): void {
  const fired = new Map<string, { times: number; against: boolean; first: number }>()
  for (const [at, { rules }] of judged.entries())
    for (const { name, score } of rules) {
      const { against = false, first = at, times = 0 } = fired.get(name) ?? {}
      fired.set(name, { times: times + 1, against: against || score > 0, first })
    }
  const reasonOf = (rule: string): string | undefined =>
    Object.keys(reasons).find((name) => rule === name || (name.endsWith('_') && rule.startsWith(name)))
  for (const [rule, { against, times }] of [...fired].toSorted(([, one], [, other]) => other.times - one.times)) {
    const reason = against ? reasons[reasonOf(rule) ?? ''] : 'does not speak against the mail'
    t.diagnostic(`${rule}: ${times} (${reason ?? 'NO REASON'})`)
  }
  const against = [...fired].filter(([, { against: speaks }]) => speaks)
  const found = against.find(([rule]) => reasonOf(rule) === undefined)
  assert.equal(
    found?.[0],
    undefined,
    `without a reason, in:\n${letters[found?.[1].first ?? 0]!.letter.subarray(0, 6000).toString()}`,
  )
  const named = new Set(against.map(([rule]) => reasonOf(rule)))
  assert.deepEqual(
    Object.keys(reasons).filter((name) => !named.has(name)),
    [],
    'reasons of rules that fired nowhere',
  )
  const highest = Math.max(...judged.map(({ score }) => score))
  t.diagnostic(`highest score ${highest} of ${limit}`)
  assert.ok(highest < limit, `a mail scores ${highest}`)
}
