// A team in two real browsers: an owner invites a Marketer, who writes a newsletter up to its report without seeing a
// token, a webhook or a transactional email, switches between two accounts, gets another role, and is removed.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

const PASSWORD = 'a long enough password'
const MIA = 'mia@there.example'
const OTHER = 'zoe@other.example'
const SUBJECT = 'Reset your password'
const CONTACTS = ['ada@example.net', 'ben@example.net', 'refuse@corp.example']

/** One user with a browser. */
interface Seat {
  browser: Browser
  open(path: string): Promise<unknown>
  /** Clicks a visible link, button or summary by its text. */
  click(label: string): Promise<void>
  /** Confirms the open question and returns its text. */
  sure(): Promise<string>
  says(words: RegExp): Promise<unknown>
  /** The status, the heading and the text of the open page. */
  shown(): Promise<{ status: number; heading: string; text: string }>
}

async function seat(url: string): Promise<Seat> {
  const browser = await startBrowser()
  await browser.emulate('light', 1280)
  const shown = (): Promise<{ status: number; heading: string; text: string }> =>
    browser.run(
      `return { status: performance.getEntriesByType('navigation')[0].responseStatus,
         heading: document.querySelector('h1')?.textContent ?? '', text: document.querySelector('main')?.innerText ?? '' }`,
    )
  return {
    browser,
    shown,
    open: (path) => browser.open(new URL(path, url).href),
    async click(label) {
      const found = `const all = document.querySelectorAll('dialog[open] button, a, button, summary, label')
        const it = [...all].find((each) => each.textContent.trim() === arguments[0] && each.checkVisibility())
        it?.setAttribute('data-clicked', '')
        return it !== undefined`
      await until(() => browser.run(found, label), `something to click: ${label}`)
      await browser.click('[data-clicked]')
      await browser.run(
        `for (const each of document.querySelectorAll('[data-clicked]')) each.removeAttribute('data-clicked')`,
      )
    },
    async sure() {
      const asked = () => browser.run('return document.querySelector("dialog[open]")?.innerText ?? ""')
      const question: string = await until(asked, 'the question')
      await browser.click('dialog[open] .sure')
      return question
    },
    says: (words) => until(async () => words.test((await shown()).text), String(words), shown),
  }
}

withPrograms('a team in Chromium', missing, () => {
  let server: BuiltConsole
  let owner: Seat
  let mia: Seat
  const ids = { secret: '', webhook: '', campaign: '', audience: '' }
  /** Texts that a Marketer must not receive. */
  const hidden: string[] = [SUBJECT, 'CRM hook', 'whsec_', 'customer@example.net']

  /** Requests every page that a link of the Marketer's pages leads to. None contains a hidden text. */
  async function crawl(): Promise<string[]> {
    const found: Record<string, string[]> = await mia.browser.later(
      `const [hidden, done] = arguments
       const seen = {}, kinds = new Set(), open = ['/', location.pathname]
       const walk = async () => {
         for (let path = open.shift(); path; path = open.shift()) {
           const kind = path.split('?')[0].replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID')
           if (kinds.has(kind) || kind.startsWith('/docs')) continue
           kinds.add(kind)
           const html = await (await fetch(path)).text()
           seen[path] = hidden.filter((each) => html.includes(each))
           for (const [, to] of html.matchAll(/<a\\b[^>]*\\shref="(\\/[^"\\/][^"]*|\\/)"/g))
             open.push(to.replaceAll('&amp;', '&').split('#')[0])
         }
       }
       walk().then(() => done(seen), (thrown) => done({ [String(thrown)]: ['failed'] }))`,
      hidden,
    )
    assert.deepEqual(
      Object.entries(found).filter(([, texts]) => texts.length > 0),
      [],
    )
    return Object.keys(found)
  }

  before(async () => {
    server = await startBuiltConsole()
    const [domain] = await server.api('GET', '/domains')
    const relationships = { domain: { data: { type: 'domains', id: domain.id } } }
    const hook = { name: 'CRM hook', url: `${server.receiver}/`, events: ['*'] }
    const made = await server.api('POST', '/webhooks', 'webhooks', hook, { relationships })
    ids.webhook = made.id
    const mail = {
      from: 'hello@sandbox.example',
      to: 'customer@example.net',
      subject: SUBJECT,
      html: '<p>The link</p>',
    }
    ids.secret = (await server.api('POST', '/outbound-emails', 'outbound-emails', mail)).id
    const [token] = await server.api('GET', '/personal-access-tokens')
    hidden.push(made.attributes.secret, server.token, token.id, ids.webhook, ids.secret)
    await server.command('user', 'add', OTHER, '--invite')
    owner = await seat(server.url)
    mia = await seat(server.url)
    await owner.browser.open(server.console)
    await owner.browser.headed('Overview')
  })
  after(async () => {
    await owner?.browser.stop()
    await mia?.browser.stop()
    await server?.stop()
  })

  test('an owner invites a Marketer, who accepts with the link of the invitation', async () => {
    await owner.click('Members')
    await owner.click('Invite member')
    await owner.browser.headed('Invite a member')
    await owner.browser.type('#email', MIA)
    await owner.browser.click('input[name=role][value=marketer]')
    await owner.click('Send invitation')
    await owner.says(/mia@there\.example was invited as Marketer\./)
    // Only the email and the operator's page contain the link.
    await owner.open('/people')
    const link: string = await owner.browser.run(
      `return [...document.querySelectorAll('tr')].find((each) => each.innerText.includes(arguments[0]))
         .querySelector('[id^=link-]').textContent`,
      MIA,
    )
    await mia.browser.open(link)
    await mia.browser.headed('Welcome to Postrider')
    await mia.says(new RegExp(`invited as ${MIA}. Your role: Marketer of ${server.user}\\.`))
    await mia.browser.type('#password', `${PASSWORD}\uE007`)
    await mia.browser.headed('Campaigns')
    const menu: string = await mia.browser.run('return document.querySelector("nav[aria-label=Main]").innerText')
    assert.match(menu, /Campaigns[^]*Audiences/)
    assert.doesNotMatch(menu, /Overview|Tokens|Webhooks|Domains|Inboxes|Members|Users|Audit|Privacy|Queue|Server/)
  })

  test('the Marketer writes a newsletter, schedules it and reads its report, and no page shows a secret', async () => {
    await mia.click('Audiences')
    await mia.browser.headed('Audiences')
    await mia.open('/audiences/new')
    await mia.browser.type('#name', 'Readers')
    await mia.click('Create audience')
    await mia.browser.headed('Readers')
    ids.audience = /audiences\/([^/?]+)/.exec(await mia.browser.at())![1]!
    for (const email of CONTACTS) {
      await mia.click('Add contact')
      await mia.browser.headed('Add contact')
      await mia.browser.type('#email', `${email}\uE007`)
      await mia.says(new RegExp(`Added ${email}\\.`))
    }
    await mia.click('New campaign')
    await mia.browser.headed('New campaign')
    await mia.browser.type('#name', 'Spring')
    await mia.browser.type('#subject', 'News for {{name}}')
    await mia.click('Create draft')
    await mia.browser.headed('Spring')
    ids.campaign = /campaigns\/([^/]+)/.exec(await mia.browser.at())![1]!
    await until(() => mia.browser.run('return document.querySelector(".ProseMirror") !== null'), 'the editor')
    await mia.browser.click('.ProseMirror')
    await mia.browser.type('.ProseMirror', 'The farm shop opens on Friday.')
    await mia.click('Review and send')
    await mia.browser.headed('Review and send')
    await mia.says(/Recipients\s*3/)
    await mia.click('Send test')
    await mia.says(/Test email queued for mia@there\.example/)
    await mia.click('Schedule…')
    // The field has the time zone of the browser, and the next minute begins soon.
    await mia.browser.run(
      `const at = new Date(Date.now() + 60_000)
       const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000)
       const field = document.querySelector('#at')
       field.value = local.toISOString().slice(0, 16)
       field.dispatchEvent(new Event('input', { bubbles: true }))`,
    )
    await mia.click('Schedule')
    assert.match(await mia.sure(), /will be sent to “Readers”\. 3 recipients/)
    await mia.says(/Scheduled for \d+ \w+ \d\d:\d\d\./)
    const badge = () => mia.browser.run('return document.querySelector("#live .badge")?.textContent.trim()')
    await until(async () => (await badge()) === 'sent', 'the campaign was sent', badge)
    await mia.says(/Delivered\s*2\s*66\.7%[^]*Bounced\s*1/)
    await mia.open(`/campaigns/${ids.campaign}/recipients?status=bounced`)
    await mia.says(/refuse@corp\.example/)
    await mia.open('/mail')
    await mia.says(/News for/)
    const pages = await crawl()
    assert.ok(pages.length > 15, pages.join(' '))
    await mia.open('/find?q=password')
    assert.ok(!(await mia.shown()).text.includes(SUBJECT))
  })

  test('pages of tokens, webhooks, domains and the like answer in the design of the console', async () => {
    const refused = [
      '/tokens',
      '/tokens/new',
      '/webhooks',
      `/webhooks/${ids.webhook}`,
      '/domains',
      '/domains/sandbox.example',
    ]
    const more = ['/inboxes', '/members', '/members/new', '/audit', '/privacy']
    const absent = [
      '/people',
      '/queue',
      '/server',
      '/server/log',
      `/mail/${ids.secret}`,
      `/mail/${ids.secret}?show=source`,
    ]
    for (const path of [...refused, ...more, ...absent]) {
      await mia.open(path)
      const { heading, status, text } = await mia.shown()
      const gone = absent.includes(path)
      assert.equal(status, gone ? 404 : 403, path)
      assert.equal(heading, gone ? 'Page not found' : 'Something went wrong', path)
      if (!gone) assert.match(text, /Your role in the account of \S+ \(Marketer\) does not allow this/, path)
      const html: string = await mia.browser.run('return document.documentElement.outerHTML')
      // The address of the page itself is in its forms.
      for (const each of hidden) assert.ok(path.includes(each) || !html.includes(each), `${path}: ${each}`)
      await mia.browser.judge(`marketer ${path}`)
    }
    for (const path of [`/mail/${ids.secret}/html`, `/mail/${ids.secret}/raw`]) {
      await mia.open(path)
      assert.equal((await mia.shown()).status, 404, path)
    }
  })

  test('a member of two accounts switches in the account menu', async () => {
    await server.command('user', 'role', MIA, 'developer', '--account', OTHER)
    const openMenu = async (entry: RegExp): Promise<void> => {
      await mia.open('/')
      await mia.browser.click('.avatar')
      const words: string = await mia.browser.run('return document.querySelector("#person").innerText')
      assert.match(words, entry)
      await mia.browser.click('#person a[href="/accounts"]')
      await mia.browser.headed('Your accounts')
    }
    await openMenu(new RegExp(`${server.user} · Marketer`))
    await mia.browser.judge('two accounts')
    await mia.click('Switch')
    await mia.says(/You are working in the account of zoe@other\.example as Developer\./)
    await mia.open(`/campaigns/${ids.campaign}`)
    assert.equal((await mia.shown()).status, 404)
    await mia.open('/tokens')
    assert.equal((await mia.shown()).status, 200)
    await openMenu(/zoe@other\.example · Developer/)
    await mia.click('Switch')
    await mia.says(new RegExp(`You are working in the account of ${server.user} as Marketer\\.`))
  })

  test('a form of a member who became a Reader in the meantime is refused with the reason', async () => {
    await mia.open(`/audiences/${ids.audience}/add`)
    await mia.browser.type('#email', 'late@example.net')
    await owner.open('/members')
    await owner.click(MIA)
    await owner.browser.click('input[name=role][value=reader]')
    await owner.click('Change role')
    await owner.says(/mia@there\.example is now Reader\./)
    await mia.click('Add contact')
    await mia.says(/\(Reader\) does not allow this\. Ask an owner of the account\./)
    await mia.open(`/audiences/${ids.audience}`)
    await mia.says(/All\s*3/)
    assert.doesNotMatch((await mia.shown()).text, /Add contact|New campaign|Delete audience/)
    // A Reader sees all email.
    await mia.open('/mail')
    await mia.says(new RegExp(SUBJECT))
  })

  test('a member who is removed loses the session and the live stream within a second', async () => {
    await server.command('user', 'role', MIA, 'none', '--account', OTHER)
    await mia.open('/mail')
    // The stream ends, the browser connects again, and the server refuses: readyState 2 is "closed".
    await mia.browser.run(
      `const stream = new EventSource('/live')
       stream.addEventListener('error', () => { window.ended ??= Date.now() })
       stream.addEventListener('open', () => { window.opened = true })`,
    )
    await until(() => mia.browser.run('return window.opened === true'), 'the stream')
    await owner.open('/members')
    await owner.click(MIA)
    await owner.click('Remove member')
    await until(() => owner.browser.run('return document.querySelector("dialog[open]") !== null'), 'the question')
    const removed: number = await owner.browser.run(
      'document.querySelector("dialog[open] .sure").click(); return Date.now()',
    )
    const ended: number = await until(() => mia.browser.run('return window.ended'), 'the end of the stream')
    assert.ok(ended - removed < 1000, `${ended - removed} ms`)
    await owner.says(/mia@there\.example is no longer a member\./)
    await mia.open('/mail')
    await mia.browser.headed('Sign in to Postrider')
    await mia.browser.type('#email', MIA)
    await mia.browser.type('#password', `${PASSWORD}\uE007`)
    await mia.says(/email or password|wrong|incorrect/i)
    await owner.open('/audit')
    await owner.says(/members\.delete/)
    assert.ok(!(await owner.shown()).text.includes(MIA), 'a removed user is a hash in the audit log')
    await owner.browser.judge('audit after removal')
  })
})
