// Sign-ups and confirmations while the server is killed (AU108): an answered sign-up has its email, and an answered
// confirmation has its contact and one welcome email. Unanswered ones happened as a whole, or not at all.
//
// The servers are separate processes, `postrider serve`.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openInstance } from '../../src/store/instance.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { formKit } from '../kit/forms.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { linkTo, SITE } from '../kit/signups.ts'

const ROUNDS = Number(process.env['POSTRIDER_CRASH_ROUNDS'] ?? 4)
const AT_ONCE = 6
const LIMITS = `[signup]
check_mx = false
per_client = 100000
per_client_day = 100000
per_form = 100000
`

test('a server killed during sign-ups loses no answered one, and welcomes no subscriber twice (AU108)', async () => {
  const dataDir = temporaryDirectory('signups-crash')
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()), routes: ['there.test'] })
  const audience = await campaignKit(() => setUp).audience(await setUp.activeDomain('here.test'))
  const welcome = { welcome_subject: 'Welcome', welcome_html: '<p>Welcome.</p>' }
  const { slug } = await formKit(() => setUp).open({ audience }, { origins: [SITE], ...welcome })
  await setUp.appliance.stop()
  const config = configFor(dataDir, setUp.dns, LIMITS)
  const signedUp: string[] = []
  const confirmed: string[] = []
  let sent = 0
  let server: Server | undefined

  const post = (url: string, fields: Record<string, string>) =>
    fetch(url, { method: 'POST', body: new URLSearchParams(fields), headers: { origin: SITE } })
  const join = async (url: string): Promise<void> => {
    const email = `v${++sent}@there.test`
    const answer = await post(`${url}/f/${slug}`, { email, version: '1' })
    assert.equal(answer.status, 200)
    assert.match(await answer.text(), /Check your inbox/)
    signedUp.push(email)
    const press = await post(url + linkTo(dataDir, email), { action: 'confirm' })
    assert.match(await press.text(), /You are subscribed/)
    confirmed.push(email)
  }
  try {
    for (let round = 1; round <= ROUNDS; round++) {
      server = await startServer(config)
      const { ended, process, url } = server
      const enough = confirmed.length + 2 + round
      const visitors = Array.from({ length: AT_ONCE }, async () => {
        for (;;) {
          await join(url)
          if (confirmed.length >= enough) process.kill('SIGKILL')
        }
      })
      const ends = await Promise.allSettled(visitors)
      assert.equal(await ended, 'SIGKILL')
      for (const each of ends)
        assert.match(String(each.status === 'rejected' && each.reason), /fetch failed|terminated/)
    }
    const { store } = openInstance(dataDir)
    try {
      const emails = new Map<string, string[]>()
      for (const { tags, to } of store.all(raw<{ to: string; tags: string }>('select "to", tags from outbound_emails')))
        emails.set(to, [...(emails.get(to) ?? []), ...(JSON.parse(tags) as string[])])
      const states = new Map(
        store
          .all(
            raw<{ email: string; status: string; state: string }>(
              'select p.email, p.status, c.state from contacts p join consents c on c.contact_key = p.key',
            ),
          )
          .map(({ email, state, status }) => [email, `${status} ${state}`]),
      )
      assert.ok(confirmed.length > ROUNDS)
      for (const email of confirmed) assert.equal(states.get(email), 'subscribed confirmed', email)
      for (const email of signedUp) assert.equal(emails.get(email)?.[0], 'confirmation', email)
      for (const [email, state] of states) {
        assert.match(state, /^(?:pending requested|subscribed confirmed)$/, email)
        const expected = state.startsWith('pending') ? ['confirmation'] : ['confirmation', 'welcome']
        assert.deepEqual(emails.get(email), expected, email)
      }
      assert.equal(emails.size, states.size)
    } finally {
      store.close()
    }
  } finally {
    server?.process.kill('SIGKILL')
    await server?.ended
    await setUp[Symbol.asyncDispose]()
  }
})
