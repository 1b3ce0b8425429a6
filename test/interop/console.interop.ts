// The console of the executable in a real browser: sign-in by link, password and passkey, an email is found and read, a
// campaign is written, tested, sent and followed.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { seeded } from '../kit/seeded.ts'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

/** The number of contacts of the campaign, and of hostile emails. */
const CONTACTS = 2000
const MAILS = 150

/** Attacks on the reader of an email. THERE is the address of a server that must not receive requests. */
const ATTACKS = [
  '<img src="THERE/1.gif">',
  '<script>window.hacked = 1; parent.hacked = 1; fetch("THERE/2")</script>',
  '<svg onload="window.hacked = 1"><image href="THERE/3"/><use href="THERE/4#a"/></svg>',
  '<style>@import "THERE/5"; body { background: url(THERE/6) }</style>',
  '<iframe src="THERE/7" srcdoc="<script>top.hacked = 1</script>"></iframe>',
  '<form action="THERE/8"><button autofocus>x</button></form>',
  '<link rel=preconnect href="THERE/9"><link rel=stylesheet href="THERE/10"><link rel=prefetch href="THERE/11">',
  '<meta http-equiv=refresh content="0;url=THERE/12">',
  '<p style="background:url(THERE/13);list-style:url(THERE/14)">x</p>',
  '<body background="THERE/15" onload="window.hacked = 1">',
  '<img src=x onerror="window.hacked = 1" srcset="THERE/16 2x" lowsrc="THERE/17">',
  '<video src="THERE/18" poster="THERE/19" autoplay><source src="THERE/20"></video>',
  '<object data="THERE/21"><embed src="THERE/22"></object>',
  '<a href="javascript:window.hacked = 1" ping="THERE/23">x</a>',
  '<math><mtext><table><mglyph><style><img src="THERE/24" onerror="window.hacked = 1"></style></table></mtext></math>',
  '<table background="THERE/25"><td background="THERE/26">x</td></table>',
  '<base href="THERE/"><img src="27.gif"><a href="28">x</a>',
  '<noscript><img src="THERE/29"></noscript><template><img src="THERE/30"></template>',
  '<input type=image src="THERE/31"><details open ontoggle="window.hacked = 1">x</details>',
  '<!--[if mso]><img src="THERE/32"><![endif]--><picture><source srcset="THERE/33"><img src="THERE/34"></picture>',
  '<svg><animate attributeName=href values="THERE/35" begin=0s /><set onbegin="window.hacked = 1" /></svg>',
  '<audio src="THERE/36" autoplay></audio><track src="THERE/37"><bgsound src="THERE/38">',
]

/**
 * Emails with one to four attacks, obfuscated as against filters: letter case, characters inside tags, unclosed tags.
 */
function hostileMails(there: string, count: number): string[] {
  const random = seeded(18)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const damages: ((html: string) => string)[] = [
    (html) => html,
    (html) => html.toUpperCase().replaceAll('HTTP://', 'http://'),
    (html) => html.replace(/<(\w)/g, '<\x0b$1'),
    (html) => html.replaceAll(' ', '/'),
    (html) => html.replaceAll(' ', '\t\n'),
    (html) => html.replaceAll('"', ''),
    (html) => html.replaceAll('=', ' = '),
    (html) => html.slice(0, -1 - Math.floor(random() * 12)),
    (html) => `<<${html}`,
    (html) => `<p title="--><${html}">x</p>`,
    (html) => html.replaceAll('http:', '').replaceAll('javascript:', 'java&#10;script:'),
    (html) => html.replace(/(href|src)="/g, '$1="&#32;'),
  ]
  return Array.from({ length: count }, () =>
    Array.from({ length: 1 + Math.floor(random() * 4) }, () =>
      pick(damages)(pick(ATTACKS).replaceAll('THERE', there)),
    ).join(pick(['', ' ', '<p>', '</p>', '<div>', '<select>', '<textarea>', '<title>'])),
  )
}

withPrograms('the console in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  const ids = { mail: '', audience: '', draft: '' }

  const heading = (): Promise<string> => browser.run('return document.querySelector("h1")?.textContent ?? ""')
  const words = (): Promise<string> => browser.run('return document.querySelector("main")?.innerText ?? ""')
  const says = (what: RegExp): Promise<unknown> => until(async () => what.test(await words()), String(what))
  const open = (path: string): Promise<unknown> => browser.open(server.url + path)
  /** Presses the button with this label in its form, and confirms the prompt. */
  const press = (label: string): Promise<unknown> =>
    browser.run(
      `const button = [...document.querySelectorAll('button')].find((each) => each.textContent.trim() === arguments[0])
       if (!button) throw new Error('no button ' + arguments[0])
       button.click()
       document.querySelector('dialog[open] .sure')?.click()`,
      label,
    )
  const set = (selector: string, value: string): Promise<unknown> =>
    browser.run('document.querySelector(arguments[0]).value = arguments[1]', selector, value)

  before(async () => {
    server = await startBuiltConsole()
    await server.withoutAudience()
    browser = await startBrowser()
    const post = (to: string) => {
      const text = { html: '<h1>Hello</h1><p>Thank you.</p>', text: 'Thank you.', subject: `Receipt for ${to}` }
      const attributes = { ...text, from: 'Shop <hello@sandbox.example>', to, agent_id: 'shop' }
      return server.api('POST', '/outbound-emails', 'outbound-emails', attributes)
    }
    for (const to of ['reply@friend.example', 'defer@slow.example', 'ada@example.net', 'complain@mail.example'])
      await post(to)
    ids.mail = (await post('refuse@corp.example')).id
    const [domain] = await server.api('GET', '/domains')
    const relationships = { domain: { data: { type: 'domains', id: domain.id } } }
    ids.audience = (await server.api('POST', '/audiences', 'audiences', { name: 'Readers' }, { relationships })).id
    for (let from = 0; from < CONTACTS; from += 500) {
      const contacts = Array.from({ length: 500 }, (_, at) => ({
        email:
          (from + at) % 50 === 7
            ? `refuse+${from + at}@friend${at % 5}.example`
            : `reader${from + at}@friend${at % 5}.example`,
        name: `Reader ${from + at}`,
        custom_fields: { city: 'Bergen' },
      }))
      await server.api('POST', `/audiences/${ids.audience}/contacts/import`, 'contacts', { contacts })
    }
    await server.api(
      'POST',
      '/webhooks',
      'webhooks',
      { name: 'CRM', url: `${server.receiver}/`, events: ['*'] },
      { relationships },
    )
    await browser.open(server.console)
    assert.equal(await heading(), 'Overview')
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  test('the search finds an email by its address, and its page shows the SMTP transcript', async () => {
    await open('/mail')
    await browser.type('#find', 'refuse@corp.example\uE007')
    await until(async () => (await heading()) === 'Receipt for refuse@corp.example')
    await says(/550 5\.1\.1 This mailbox rejects on purpose/)
    await browser.click('.timeline summary')
    assert.match(
      await browser.run('return document.querySelector(".timeline pre").textContent'),
      /RCPT TO:<refuse@corp\.example>/,
    )
  })

  test('a user writes a campaign, sends a test and the campaign, follows it live and exports its recipients', async () => {
    await open('/campaigns/new')
    await browser.type('#name', 'September')
    await browser.type('#subject', 'News for {{name}}')
    await press('Create draft')
    await until(async () => (await heading()) === 'September')
    ids.draft = /campaigns\/([^/]+)/.exec(await browser.at())![1]!
    await browser.run('document.querySelector(".ProseMirror").focus()')
    await browser.click('.toolbar [aria-label="Bold"]')
    await browser.type('.ProseMirror', 'Good morning from {{city}}')
    await press('Save draft')
    await says(/Saved “September”\./)
    const { body_html } = (await server.api('GET', `/campaigns/${ids.draft}`)).attributes
    assert.match(body_html, /<strong>Good morning from \{\{city\}\}/)
    await open(`/campaigns/${ids.draft}/send`)
    await set('#email', 'me@there.example')
    await press('Send test')
    await says(/Test email queued for me@there\.example/)
    await says(/Type 2,000/)
    await set('#typed', '2,000')
    await press('Send now')
    await says(/Started: 2,000 recipients\./)
    // The page follows by itself; nothing is reloaded.
    await browser.run('window.untouched = true')
    await until(
      async () => (await browser.run('return document.querySelector("#live .badge")?.textContent.trim()')) === 'sent',
      'the page says that it was sent',
    )
    assert.equal(await browser.run('return window.untouched'), true)
    await open(`/campaigns/${ids.draft}/recipients?status=bounced`)
    await says(/refuse\+\d+@friend/)
    const csv: string = await browser.later(
      `const done = arguments[1]; fetch(arguments[0]).then((answer) => answer.text()).then(done)`,
      `/campaigns/${ids.draft}/recipients.csv?status=bounced`,
    )
    assert.match(csv, /^email,name,status,.*\r\nrefuse\+\d+@friend\d\.example,Reader \d+,bounced,/)
    assert.equal(csv.trim().split('\r\n').length, 1 + CONTACTS / 50)
  })

  test('the search box opens the email if it is the only result', async () => {
    await browser.emulate('light', 1280)
    await open('/')
    // The script of the page may not have run yet.
    await until(async () => {
      if ((await browser.run('return document.activeElement?.id')) === 'find') return true
      await browser.press('/')
      return false
    }, 'the key "/" leads to the search box')
    await browser.type('#find', 'receipt refuse@corp\uE007')
    await until(async () => (await heading()) === 'Receipt for refuse@corp.example')
  })

  test('keyboard shortcuts open an audience by name, move through a list, open a page and show the help', async () => {
    await open('/mail')
    const press = (key: string, more: object = {}) =>
      browser.run(
        `(document.activeElement ?? document).dispatchEvent(
          new KeyboardEvent('keydown', { key: arguments[0], bubbles: true, cancelable: true, ...arguments[1] }))`,
        key,
        more,
      )
    await press('k', { ctrlKey: true })
    await browser.type('dialog input', 'reade')
    await until(
      async () => /Readers/.test(await browser.run('return document.querySelector("dialog .found").textContent')),
      'what is found',
    )
    await browser.type('dialog input', '\uE007')
    await until(async () => (await heading()) === 'Readers', 'the audience')
    await open('/mail')
    await press('j')
    await press('j')
    assert.equal(
      await browser.run('return document.activeElement === document.querySelector("tbody tr:nth-child(2) td a")'),
      true,
    )
    await press('?')
    await until(() => browser.run('return /Pages/.test(document.querySelector("dialog")?.textContent)'), 'the keys')
    await browser.run('document.querySelector("dialog").close()')
    await press('g')
    await press('c')
    await until(async () => (await heading()) === 'Campaigns')
  })

  test('a campaign is scheduled in the time zone of the browser', async () => {
    const relationships = { audience: { data: { type: 'audiences', id: ids.audience } } }
    const text = { name: 'Winter', subject: 'Snow', body_html: '<p>Snow</p>' }
    const { id } = await server.api('POST', '/campaigns', 'campaigns', text, { relationships })
    await browser.cdp('Emulation.setTimezoneOverride', { timezoneId: 'America/New_York' })
    const give = async (value: string): Promise<void> => {
      await browser.run(
        `const field = document.querySelector('#at')
         field.value = arguments[0]
         field.dispatchEvent(new Event('input', { bubbles: true }))`,
        value,
      )
      for (const name of ['#typed', '#typed-later'])
        await browser.run(
          `const field = document.querySelector(arguments[0])
           if (field) field.value = document.querySelector(arguments[0] + '-hint').textContent.match(/Type ([\\d,]+)/)[1]`,
          name,
        )
    }
    await open(`/campaigns/${id}/send`)
    await browser.click('summary.button')
    await says(/Your time \(America\/New_York\)/)
    await give('2040-01-15T10:00')
    await press('Schedule')
    await says(
      /Scheduled for 15 Jan 2040 10:00\.[^]*Starts\s+Jan 15, 2040|Starts\s+Jan 15, 2040[^]*Scheduled for 15 Jan 2040 10:00\./,
    )
    // It stands in the same zone where it is changed.
    await open(`/campaigns/${id}/send`)
    assert.equal(await browser.run('return document.querySelector("#at").value'), '2040-01-15T10:00')
    await give('2040-01-15T09:00')
    await press('Reschedule')
    await says(/Scheduled for 15 Jan 2040 09:00\./)
    const { attributes } = await server.api('GET', `/campaigns/${id}`)
    assert.equal(attributes.scheduled_at, '2040-01-15T14:00:00.000Z')
    await browser.cdp('Emulation.setTimezoneOverride', { timezoneId: '' })
  })

  test('a user adds a passkey and signs in with it', async () => {
    await browser.cdp('WebAuthn.enable', {})
    const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true }
    await browser.cdp('WebAuthn.addVirtualAuthenticator', {
      options: { ...options, isUserVerified: true, automaticPresenceSimulation: true },
    })
    await open('/account')
    const ready = () => browser.run('return document.querySelector("[data-passkey][data-ready]") !== null')
    await until(ready, 'the script')
    await browser.type('#passkey', 'laptop')
    await press('Add passkey')
    await says(/Passkey added/)
    await press('Sign out')
    await until(async () => (await heading()) === 'Sign in to Postrider')
    await until(ready, 'the script')
    await press('Sign in with a passkey')
    await until(
      async () => (await heading()) === 'Overview',
      `signed in: ${String(await browser.run('return document.body.innerText'))}`,
    )
  })

  test('a user sets a password and signs in with it', async () => {
    await open('/account')
    await browser.type('#new', 'a long enough password')
    await press('Set password')
    await says(/Password set\./)
    await press('Sign out')
    await until(async () => (await heading()) === 'Sign in to Postrider')
    await browser.type('#email', server.user)
    await browser.type('#password', 'a long enough password')
    await press('Sign in')
    await until(async () => (await heading()) === 'Overview', 'signed in')
  })

  test('the buttons hold and release the queue for a recipient domain', async () => {
    await open('/queue')
    await says(/slow\.example/)
    await press('Hold')
    await says(/Held: email for \S+ stays in the queue until you release it/)
    await press('Release')
    await says(/Released: delivery to \S+ resumes/)
  })

  test('hostile emails load no resources and run no scripts', async () => {
    const asked: string[] = []
    const stranger = createServer((request, response) => {
      // The browser looks for an icon of the page that it was server.
      if (request.url !== '/favicon.ico') asked.push(request.url!)
      response
        .setHeader('Content-Type', 'text/html')
        .end(request.url === '/page' ? ATTACKS[0]!.replace('THERE', '') : '')
    })
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve))
    const there = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`
    try {
      await browser.cdp('Network.enable', {})
      // The server hears of a page that is not made harmless.
      await browser.open(`${there}/page`)
      await until(() => asked.includes('/1.gif'))
      asked.length = 0
      for (const [at, html] of hostileMails(there, MAILS).entries()) {
        const attributes = { from: 'hello@sandbox.example', to: 'ada@example.net', subject: `x ${at}`, html }
        const { id } = await server.api('POST', '/outbound-emails', 'outbound-emails', attributes)
        await open(`/mail/${id}/html`)
        const [loaded, hacked] = (await browser.run(
          'return [performance.getEntriesByType("resource").map((each) => each.name), typeof window.hacked]',
        )) as [string[], string]
        assert.deepEqual(
          loaded.filter((url) => !/\/assets\/frame\.[\w-]+\.css$/.test(url)),
          [],
          html,
        )
        assert.equal(hacked, 'undefined', html)
        assert.match(await browser.at(), new RegExp(`/mail/${id}/html$`), html)
        if (at % 5 > 0) continue
        // In the page the frame has the page's origin.
        await open(`/mail/${id}`)
        await until(() => browser.run('return Boolean(document.querySelector("iframe")?.style.height)'), 'the frame')
        assert.equal(await browser.run('return typeof window.hacked'), 'undefined', html)
        assert.match(await browser.at(), new RegExp(`/mail/${id}$`), html)
      }
      assert.deepEqual(asked, [])
    } finally {
      stranger.close()
    }
  })

  test('a new domain becomes active on its page', async () => {
    await open('/domains/new')
    await browser.type('#name', 'shop.example')
    await press('Add domain')
    await until(async () => (await heading()) === 'shop.example')
    await press('Check now')
    await says(/active\s+All required records are verified\. You can send\./)
  })

  test('pages of another account are not found', async () => {
    await open('/people/new')
    await browser.type('#email', 'bob@there.example')
    await browser.run('document.querySelector("input[value=owner]").click()')
    await press('Send invitation')
    await says(/bob@there\.example was invited/)
    await press('View account')
    await says(/You are viewing the account of bob@there\.example/)
    for (const path of [`/mail/${ids.mail}`, `/campaigns/${ids.draft}`, `/audiences/${ids.audience}`]) {
      await open(path)
      await says(/Page not found/)
    }
    await press('Back to your account')
    await open(`/mail/${ids.mail}`)
    await says(/Receipt for refuse@corp\.example|RCPT|550 5\.1\.1/)
  })

  test('the images of an email are loaded via this server, and only on request', async () => {
    const html = '<p>Look:</p><img src="https://localhost:1/pixel.gif" alt="A pixel">'
    const attributes = { from: 'hello@sandbox.example', to: 'ada@example.net', subject: 'Pictures', html }
    const { id } = await server.api('POST', '/outbound-emails', 'outbound-emails', attributes)
    await open(`/mail/${id}`)
    await browser.run('[...document.querySelectorAll("a")].find((each) => each.textContent === "Show images").click()')
    await until(
      () => browser.run('return document.querySelector("iframe")?.src.endsWith("?pictures=yes")'),
      'the frame',
    )
    await open(`/mail/${id}/html?pictures=yes`)
    const entries: string[] = await until(async () => {
      const names: string[] = await browser.run(
        'return performance.getEntriesByType("resource").map((each) => each.name)',
      )
      return names.some((url) => url.includes('/picture?')) ? names : undefined
    }, 'the picture')
    for (const url of entries) assert.ok(url.startsWith(`${server.url}/`), url)
    // Nothing listens at the picture's place, but the frame's policy let the browser ask us for it.
    await until(
      async () =>
        /http_requests_total\{[^}]*"\/picture"[^}]*"404"\} [1-9]/.test(
          await (await fetch(`${server.url}/metrics`)).text(),
        ),
      'our answer',
    )
  })

  test('the checks of a draft show its SpamAssassin score and test its links', async () => {
    const relationships = { audience: { data: { type: 'audiences', id: ids.audience } } }
    const letter = { name: 'October', subject: 'October', body_html: '<p>Hello {{name}}</p>' }
    const { id } = await server.api('POST', '/campaigns', 'campaigns', letter, { relationships })
    await open(`/campaigns/${id}/send?look=closer`)
    await says(/SpamAssassin score: -?[\d.]+\. Emails with 5 or more count as spam/)
    await says(/Every link and image loads|There are no links to check/)
  })
})
