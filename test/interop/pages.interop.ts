// Every page of the console of the executable in a real browser: axe-core finds no problem in two schemes and two
// widths, no page scrolls sideways, and every control and text has a name in the accessibility tree. Pages of partly
// filled forms are checked in the tests that create them: composer, lists, people. POSTRIDER_SHOTS is the directory for
// screenshots.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createConsole } from '../../src/console/app.ts'
import { apiInside } from '../../src/http/server.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { until } from '../kit/until.ts'
import { newPicture } from '../images/pictures.ts'
import { LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

/** Pages whose address needs no name of anything. */
const FIXED =
  '/ /find /keys /mail /receivers /queue /campaigns /campaigns/new /pictures /audiences /audiences/new /inboxes /inboxes/new /suppressions /suppressions/new /domains /domains/new /webhooks /webhooks/new /tokens /tokens/new /agents /privacy /server /server/load /server/watch /server/warmup /server/log /people /people/new /account /nonsense /members /members/new /forms /forms/new /accounts /audit /brand /server/settings'
/** Console URLs that this test skips: files, frames, form targets, and pages of other tests. */
const LEFT_OUT = [
  /\.csv$/,
  /^\/assets\//,
  /^\/picture/,
  /^\/(?:live|sign-out|look|\*)$/,
  /\/(?:html|raw|text|preview|attachments\/:file)$/,
  // reference.interop.ts and people.interop.ts.
  /^\/docs/,
  /^\/(?:join|sign-in)/,
]

const FORM = {
  name: 'Website',
  title: 'Old Trees News',
  consent_text: 'I would like to receive Old Trees News once a month.',
  controller: 'Old Trees Ltd, Ghent',
  privacy_url: 'https://sandbox.example/privacy',
  opt_in: 'single',
  single_reason: 'Customers are signed in.',
  language: 'en',
  fields: [
    { key: 'name', label: null, required: true },
    { key: 'city', label: 'City', required: false },
  ],
  translations: { de: { title: 'Alte Bäume', consent_text: 'Ja gern.', labels: { city: 'Ort' } } },
}

withPrograms('every page in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  const places: string[] = FIXED.split(' ')

  async function makeCampaigns(audience: string): Promise<void> {
    const relationships = { audience: { data: { type: 'audiences', id: audience } } }
    const make = (name: string) => {
      const attributes = {
        name,
        subject: 'News for {{name}}',
        body_html: '<p>Hello {{name}}: <a href="https://sandbox.example/">more</a></p>',
      }
      return server.api('POST', '/campaigns', 'campaigns', attributes, { relationships })
    }
    const [draft, sent] = [await make('October'), await make('September')]
    await server.api('PATCH', `/campaigns/${sent.id}`, 'campaigns', { status: 'scheduled' }, { id: sent.id })
    await until(
      async () =>
        (await server.api('GET', '/campaigns')).find(({ id }: { id: string }) => id === sent.id)?.attributes.status ===
        'sent',
      'a campaign that was sent',
    )
    places.push(...['', '/edit', '/send', '/content', '/settings'].map((part) => `/campaigns/${draft.id}${part}`))
    places.push(
      ...['', '/recipients', '/recipients?status=bounced', '/content', '/settings'].map(
        (part) => `/campaigns/${sent.id}${part}`,
      ),
    )
  }

  async function makeAudience(domain: string): Promise<string> {
    const relationships = { domain: { data: { type: 'domains', id: domain } } }
    const attributes = { name: 'Readers' }
    const { id } = await server.api('POST', '/audiences', 'audiences', attributes, { relationships })
    const contacts = Array.from({ length: 200 }, (_, at) => ({
      email: at % 50 === 7 ? `refuse@friend${at}.example` : `reader${at}@friend${at % 5}.example`,
      name: `Reader ${at}`,
      custom_fields: { city: 'Bergen' },
    }))
    const list = {
      contacts: [...contacts, { email: 'left@friend.example', status: 'blocked' }],
    }
    await server.api('POST', `/audiences/${id}/list-imports`, 'contacts', list)
    const [contact] = await server.api('GET', `/audiences/${id}/contacts`)
    const [past] = await server.api('GET', `/audiences/${id}/list-imports`)
    const parts = ['', '/suppressed', '/add', '/import', '/imports', `/imports/${past!.id}`, `/contacts/${contact!.id}`]
    places.push(...parts.map((part) => `/audiences/${id}${part}`))
    const [consent] = await server.api('GET', `/contacts/${contact!.id}/consents`)
    places.push(`/audiences/${id}/consents`, `/audiences/${id}/contacts/${contact!.id}/consents/${consent!.id}`)
    const [, gone] = await server.api('GET', `/audiences/${id}/contacts`)
    const headers = { authorization: `Bearer ${server.token}` }
    await fetch(`${server.url}/api/v1/contacts/${gone!.id}`, { method: 'DELETE', headers })
    const [withdrawn] = await server.api('GET', `/audiences/${id}/consents?filter[state]=withdrawn`)
    places.push(`/audiences/${id}/consents/${withdrawn!.id}`)
    const rules = [
      { field: 'city', op: 'is', value: 'Bergen' },
      { event: 'delivered', op: 'did', days: 30 },
    ]
    const segment = await server.api('POST', `/audiences/${id}/segments`, 'segments', { name: 'Bergen', rules })
    places.push(`/audiences/${id}/segments`, `/audiences/${id}/segments/new`, `/segments/${segment.id}`)
    return id
  }

  async function makeForm(audience: string): Promise<void> {
    const relationships = { audience: { data: { type: 'audiences', id: audience } } }
    const { id } = await server.api('POST', '/forms', 'forms', FORM, { relationships })
    await server.api('PATCH', `/forms/${id}`, 'forms', { status: 'open' }, { id })
    await server.api('PATCH', `/forms/${id}`, 'forms', { intro: 'Once a month.' }, { id })
    places.push(`/forms/${id}`, `/forms/${id}?lang=de`, `/forms/${id}/versions`)
  }

  async function makeMail(domain: string): Promise<void> {
    const relationships = { domain: { data: { type: 'domains', id: domain } } }
    const hook = { name: 'CRM', url: `${server.receiver}/`, events: ['*'] }
    const webhook = await server.api('POST', '/webhooks', 'webhooks', hook, { relationships })
    const ids: Record<string, string> = {}
    for (const to of ['reply@friend.example', 'defer@slow.example', 'complain@mail.example', 'refuse@corp.example']) {
      const attributes = {
        from: 'Shop <hello@sandbox.example>',
        to,
        subject: `Receipt for ${to}`,
        html: '<h1>Hello</h1><p>Thank you.</p>',
        agent_id: 'shop',
      }
      ids[to] = (await server.api('POST', '/outbound-emails', 'outbound-emails', attributes)).id
    }
    const [message] = await until(async () => {
      const all = await server.api('GET', '/inbound-emails')
      return all.length > 0 ? all : undefined
    }, 'an answer')
    const [inbox] = await server.api('GET', '/inboxes')
    const [delivery] = await until(async () => {
      const all = await server.api('GET', `/webhooks/${webhook.id}/deliveries`)
      return all.length > 0 ? all : undefined
    }, 'a delivery to the webhook')
    const mail = ids['refuse@corp.example']!
    places.push(`/mail/${mail}`, `/mail/${mail}?show=headers`, `/mail/${mail}?show=source`, '/mail?q=status%3Abounced')
    places.push(`/mail/${ids['defer@slow.example']!}`, '/find?q=read', '/privacy?q=refuse@corp.example')
    places.push(`/why/${mail}`, '/why/sandbox.example')
    places.push(`/webhooks/${webhook.id}`, `/webhooks/deliveries/${delivery!.id}`)
    const [receiver] = await server.api('GET', '/statistics/receivers')
    places.push(`/receivers/${encodeURIComponent(receiver!.id)}`, `/why/${encodeURIComponent(receiver!.id)}`)
    const at = `/inboxes/${inbox!.id}/mail/${message!.id}`
    places.push(`/inboxes/${inbox!.id}`, at, `${at}/reply`, `${at}/forward`, '/domains/sandbox.example')
    places.push(...['', '/received', '/tls'].map((tab) => `/domains/sandbox.example/reports${tab}`))
  }

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    const [domain] = await server.api('GET', '/domains')
    // The sandbox has no warm-up by itself.
    await server.command('warmup', 'set', 'Google', '--daily-limit', '50')
    const [pair] = await server.api('GET', '/warmups')
    places.push(`/server/warmup/${pair!.id}`)
    await makeMail(domain!.id)
    const audience = await makeAudience(domain!.id)
    await makeCampaigns(audience)
    await makeForm(audience)
    await browser.open(server.console)
    await browser.headed('Overview')
    // A picture, a person who is invited, and a domain that is not set up yet.
    await browser.open(`${server.url}/pictures`)
    await browser.later(
      `const [text, done] = arguments
       const data = new FormData()
       data.set('proof', document.querySelector('input[name=proof]').value)
       data.set('action', 'upload')
       data.set('file', new File([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], 'logo.png'))
       fetch('/pictures', { method: 'POST', body: data }).then(done)`,
      newPicture(600, 200).toString('base64'),
    )
    await browser.open(`${server.url}/people/new`)
    await browser.type('#email', 'maria@there.example\uE007')
    await until(async () => /\/people\/(?!new)/.test(await browser.at()), 'the page of a person')
    places.push(new URL(await browser.at()).pathname)
    await browser.open(`${server.url}/members/new`)
    await browser.type('#email', 'mia@there.example\uE007')
    await until(async () => /\/members\/(?!new)/.test(await browser.at()), 'the page of a member')
    places.push(new URL(await browser.at()).pathname)
    const [token] = await server.api('GET', '/personal-access-tokens')
    places.push(`/tokens/${token!.id}`)
    await server.api('POST', '/domains', 'domains', { name: 'shop.example', purpose: 'both' })
    places.push('/domains/shop.example')
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  test('every page of the console is tested', async () => {
    await using postrider = await startTestAppliance()
    const { deps } = postrider.appliance
    const ours = createConsole(deps, apiInside(deps))
    ours.close()
    const routes = [...new Set(ours.app.routes.filter(({ method }) => method === 'GET').map(({ path }) => path))]
    assert.ok(routes.length > 50)
    const paths = places.map((place) => place.replace(/\?.*/, ''))
    const forgotten = routes
      .filter((route) => !LEFT_OUT.some((each) => each.test(route)))
      .filter((route) => {
        const shape = new RegExp(`^${route.replaceAll(/:\w+/g, '[^/]+')}$`)
        return !paths.some((path) => shape.test(path))
      })
    assert.deepEqual(forgotten, [])
  })

  test('the bar and the page are aligned on wide screens, and the server page does not contain the log', async () => {
    await browser.emulate('light', 1920)
    await browser.open(`${server.url}/server`)
    const [bar, page, height]: number[] = await browser.run(
      `const right = (selector) => document.querySelector(selector).getBoundingClientRect().right
       return [right('.avatar'), right('main > .head'), document.documentElement.scrollHeight]`,
    )
    assert.ok(Math.abs(bar! - page!) <= 1, `${bar} and ${page}`)
    assert.ok(height! < 4000, `${height} pixels`)
  })

  for (const [at, [scheme, width]] of LOOKS.entries())
    test(`axe-core finds no problem on any page, ${scheme}, ${width} wide, and no page scrolls sideways`, async () => {
      await browser.emulate(scheme, width)
      const faults: string[] = []
      for (const path of places) {
        await browser.open(server.url + path)
        const name = `${path}, ${scheme}, ${width}`
        await browser.judge(name).catch((thrown: unknown) => faults.push(String(thrown)))
        if (at === 0) faults.push(...(await browser.nameless()).map((each) => `${name}: ${each} has no name`))
      }
      assert.deepEqual(faults, [])
    })
})
