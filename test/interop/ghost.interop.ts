// A real Ghost sends through the built executable, as docs/migrate.md describes it. It takes minutes and a Ghost that
// test/interop/ghost.sh installed, so it runs on request: POSTRIDER_GHOST=DIRECTORY.
import assert from 'node:assert/strict'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { simpleParser, type ParsedMail } from 'mailparser'
import { startTestExchanger, type Heard, type TestExchanger } from '../kit/exchanger.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { missingGhost, startGhost, type Ghost } from './rig/ghost.ts'
import { program } from './rig/machine.ts'
import { withPrograms } from './rig/need.ts'
import { startPostrider, type RunningPostrider } from './rig/postrider.ts'
import { until } from './rig/sandbox.ts'

const MEMBERS = 1200
/** Their server rejects them. */
const GONE = 20
const OPENED = 10
/** Members with a label, who can be reached. */
const FEW = 30
/** An open earlier than 2 seconds after the delivery is that of a machine. */
const READS_AFTER = 2500
const PERSON = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.0'
/** Ghost leaves events alone for a minute, and repeats a batch after 10 seconds. */
const PATIENCE = 240_000
const EVERY = 5000
const MARGIN = 62_000

if (process.env['POSTRIDER_GHOST'] !== undefined)
  withPrograms('Ghost', missingGhost(), () => {
    let dns: TestDns
    let exchanger: TestExchanger
    let postrider: RunningPostrider
    let door: Door
    let ghost: Ghost

    before(async () => {
      dns = await startTestDns()
      exchanger = await startTestExchanger({
        answer: (command) => (/^RCPT TO:<gone/i.test(command) ? '550 5.1.1 No such user here' : undefined),
      })
      dns.set('there.example', 'MX', ['10 mx.there.example'])
      dns.set('mx.there.example', 'A', ['127.0.0.1'])
      postrider = await startPostrider({
        dns,
        hostname: 'mx.postrider.example',
        deliveryPort: exchanger.port,
        more: '[submission]\ntls_listen = ["127.0.0.1:0"]',
        program: program(),
      })
      await postrider.sendingDomain('blog.example')
      const [{ id }] = (await postrider.api('GET', '/domains')).body.data
      const data = { type: 'domains', id, attributes: { open_tracking_enabled: true } }
      assert.equal((await postrider.api('PATCH', `/domains/${id}`, { data })).status, 200)
      const scopes = 'emails:send,emails:read,suppressions:read,suppressions:write'
      const create = ['token', 'create', '--user', 'owner@postrider.example', '--name', 'ghost', '--scopes', scopes]
      const { token } = await postrider.json(...create, '--duration', '1_month')
      door = await openDoor(postrider.origin)
      ghost = await startGhost({
        mailgun: { baseUrl: `${door.url}/v3`, apiKey: token, domain: 'blog.example' },
        smtp: { port: postrider.ports.submissions[0]!, pass: token },
        from: 'The Blog <news@blog.example>',
      })
    })
    after(async () => {
      await ghost?.stop()
      await door?.close()
      await postrider?.stop()
      await exchanger?.close()
      await dns?.close()
    })

    const subjectOf = ({ message }: Heard): string => /^Subject: (.*)\r$/m.exec(message)?.[1] ?? ''
    /** The link of Ghost by which a member unsubscribes. */
    const linkOf = ({ message }: Heard): string => /^List-Unsubscribe:\s*<([^>]+)>/im.exec(message)?.[1] ?? ''
    const heard = (subject: string): Heard[] => exchanger.heard.filter((each) => subjectOf(each) === subject)
    const state = (): string => `${ghost.log().slice(-3000)}\n${postrider.log().slice(-3000)}`
    const arrive = (subject: string, count: number): Promise<void> =>
      until(
        () => heard(subject).length >= count,
        60_000,
        () => `${heard(subject).length} of ${count} emails arrived: ${state()}`,
      )
    const parsed = (message: string): Promise<ParsedMail> => simpleParser(message, { skipHtmlToText: true })

    /** Publishes a post and sends it to a segment. Returns the id of Ghost's email. */
    const publish = async (title: string, segment: string): Promise<string> => {
      const draft = {
        title,
        html: '<p>Hello {first_name, "reader"}.</p><p>Read <a href="https://example.com/">this</a>.</p>',
      }
      const made = await ghost.admin('POST', '/posts/?source=html', { posts: [draft] })
      const { id, updated_at } = made.posts[0]
      const [{ slug }] = (await ghost.admin('GET', '/newsletters/')).newsletters
      const query = `newsletter=${slug}&email_segment=${encodeURIComponent(segment)}`
      const sent = await ghost.admin('PUT', `/posts/${id}/?${query}`, { posts: [{ status: 'published', updated_at }] })
      return sent.posts[0].email.id
    }
    const emailOf = async (id: string) => (await ghost.admin('GET', `/emails/${id}/`)).emails[0]
    const memberOf = async (address: string) =>
      (await ghost.admin('GET', `/members/?filter=${encodeURIComponent(`email:'${address}'`)}`)).members[0]
    /**
     * Asks Ghost to fetch events now and then, until a fact about what it learned is true. It begins when all events
     * are old enough for Ghost. A fetch before that leaves out a second of events, for which Ghost looks half an hour
     * later.
     */
    const learns = async (isSo: () => Promise<boolean>, what: () => string): Promise<void> => {
      let last = performance.now() + MARGIN
      const check = (): Promise<boolean> => {
        if (performance.now() - last > EVERY) {
          last = performance.now()
          ghost.fetchEvents()
        }
        return isSo()
      }
      await until(check, PATIENCE, () => `${what()}: ${state()}`)
    }

    test(`a newsletter reaches ${MEMBERS} members, and Ghost learns of deliveries, failures and opens`, async () => {
      ghost.addMembers(
        Array.from({ length: MEMBERS }, (_, n) => ({
          email: `${n < GONE ? 'gone' : 'm'}${n}@there.example`,
          name: `Member ${n}`,
          // One of them is gone.
          ...(n >= GONE - 1 && n < GONE + FEW && { label: 'few' }),
        })),
      )
      const id = await publish('First issue', 'all')
      await arrive('First issue', MEMBERS - GONE)
      const sent = heard('First issue')
      assert.equal(new Set(sent.map(({ to }) => to.join())).size, MEMBERS - GONE)
      for (const { message, to } of sent) {
        assert.ok(message.includes(`To: ${to[0]}\r\n`) || message.includes(`<${to[0]}>\r\n`), message.slice(0, 1500))
        assert.match(message, /^DKIM-Signature: /m)
        assert.ok(!/%recipient|%tag_unsub/.test(message))
      }
      assert.equal(new Set(sent.map(linkOf)).size, MEMBERS - GONE)

      await pause(READS_AFTER)
      for (const { message } of sent.slice(0, OPENED)) {
        const [, path] = /src="https?:\/\/[^/"]*(\/t\/o\/[^"]+)"/.exec(String((await parsed(message)).html)) ?? []
        assert.ok(path, 'an email has no pixel')
        await fetch(postrider.origin + path, { headers: { 'user-agent': PERSON, connection: 'close' } })
      }
      const opens = async (): Promise<{ attributes: { data: { open: { machine: boolean } } } }[]> =>
        (await postrider.api('GET', '/email-events?filter[event]=email.opened&page[size]=100')).body.data
      await until(async () => (await opens()).length === OPENED, 60_000, state)
      assert.ok((await opens()).every(({ attributes }) => !attributes.data.open.machine))
      let email = await emailOf(id)
      await learns(
        async () => {
          email = await emailOf(id)
          return (
            email.delivered_count === MEMBERS - GONE && email.failed_count === GONE && email.opened_count === OPENED
          )
        },
        () => JSON.stringify(email),
      )
      assert.equal(email.status, 'submitted')
      const { failures } = await ghost.admin('GET', `/emails/${id}/recipient-failures/?limit=100`)
      assert.equal(failures.length, GONE)
      assert.deepEqual(
        [...new Set(failures.map((each: Failure) => `${each.severity} ${each.code} ${each.enhanced_code}`))],
        ['permanent 550 5.1.1'],
      )
    })

    test('a batch whose answer is lost is repeated without a second email', async () => {
      door.cutNext()
      const id = await publish('Second issue', 'label:few')
      await until(
        async () => (await emailOf(id)).status === 'submitted',
        PATIENCE,
        () => `not submitted: ${state()}`,
      )
      assert.equal(door.cuts, 1)
      await arrive('Second issue', FEW)
      // Every email that was accepted has been tried.
      const done = async () => {
        const { body } = await postrider.api('GET', '/outbound-emails?filter[status]=queued,sending,sent&page[size]=1')
        return body.data.length === 0
      }
      await until(done, 60_000, state)
      const to = heard('Second issue').map((each) => each.to.join())
      assert.equal(to.length, FEW, 'a member got the email twice')
      // Its address bounced before, so Postrider did not try it again. Ghost gives it up.
      const gone = `gone${GONE - 1}@there.example`
      await learns(
        async () => (await memberOf(gone)).email_suppression.suppressed,
        () => 'Ghost does not suppress the member',
      )
    })

    test('a member who unsubscribes with the link of the header gets no further newsletter', async () => {
      const [issue = assert.fail('no email')] = heard('Second issue')
      const member = issue.to.join()
      const body = new URLSearchParams({ 'List-Unsubscribe': 'One-Click' })
      const { ok } = await fetch(linkOf(issue), { method: 'POST', body })
      assert.ok(ok)
      assert.deepEqual((await memberOf(member)).newsletters, [])
      await publish('Third issue', 'label:few')
      await arrive('Third issue', FEW - 1)
      assert.ok(!heard('Third issue').some(({ to }) => to.includes(member)))
    })

    test('a new member gets the sign-in link by SMTP and an automation email, whose delivery Ghost learns of', async () => {
      const [{ id }] = (await ghost.admin('GET', '/automations/')).automations.filter((each: { slug: string }) =>
        /free/.test(each.slug),
      )
      const [design] = ghost.query('select id from email_design_settings')
      const mail = { email_subject: 'Glad you are here', email_lexical: lexical('Welcome.') }
      const only = { id: 'a'.repeat(24), type: 'send_email', data: { ...mail, email_design_setting_id: design.id } }
      const changed = { status: 'active', actions: [only], edges: [] }
      await ghost.admin('PUT', `/automations/${id}/`, { automations: [changed] })

      const email = 'newcomer@there.example'
      const integrityToken = await (await fetch(`${ghost.url}/members/api/integrity-token/`)).text()
      const signup = await fetch(`${ghost.url}/members/api/send-magic-link/`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ email, emailType: 'signup', integrityToken }),
      })
      assert.ok(signup.ok, await signup.text())
      const to = () => exchanger.heard.filter((each) => each.to.includes(email))
      await until(() => to().length > 0, PATIENCE, state)
      const { text = '' } = await parsed(to()[0]!.message)
      const [link = assert.fail(text)] = /http:\/\/\S+\/members\/\?token=\S+/.exec(text) ?? []
      await fetch(link)
      await arrive('Glad you are here', 1)
      assert.deepEqual(heard('Glad you are here')[0]!.to, [email])
      const sent = () => ghost.query('select delivered_at, mailgun_message_id from automated_email_recipients')
      await learns(
        async () => sent().some((each) => each.delivered_at !== null),
        () => JSON.stringify(sent()),
      )
    })
  })

/** The editor's document with one paragraph. */
const lexical = (text: string): string => {
  const piece = { detail: 0, format: 0, mode: 'normal', style: '', text, type: 'extended-text', version: 1 }
  const block = { direction: 'ltr', format: '', indent: 0, version: 1 }
  const paragraph = { ...block, children: [piece], type: 'paragraph' }
  return JSON.stringify({ root: { ...block, children: [paragraph], type: 'root' } })
}

interface Failure {
  severity: string
  code: number
  enhanced_code: string
}

/** A way to Postrider that can lose an answer. */
interface Door {
  url: string
  cuts: number
  /** Cuts the next request for sending after its last byte, so that the answer finds no client. */
  cutNext: () => void
  close: () => Promise<void>
}

async function openDoor(origin: string): Promise<Door> {
  let cutting = false
  const server: Server = createServer((from, to) => {
    const onward = request(`${origin}${from.url}`, { method: from.method, headers: from.headers })
    onward.on('error', () => to.destroy())
    onward.on('response', (answer) => {
      to.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(to)
    })
    const cut = cutting && from.method === 'POST' && from.url?.endsWith('/messages')
    from.pipe(onward)
    if (!cut) return
    cutting = false
    door.cuts++
    // The last byte has left for Postrider.
    onward.on('finish', () => onward.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const door: Door = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cuts: 0,
    cutNext: () => void (cutting = true),
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
  return door
}
