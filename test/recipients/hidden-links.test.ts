// Links that only the recipient of an email may use: what is sent has them, and what the account shows has no tokens.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import { confirmUrl } from '../../src/forms/tokens.ts'
import { recordsAbout } from '../../src/privacy/bundle.ts'
import { exportUrl } from '../../src/privacy/requests.ts'
import { dataUrl } from '../../src/recipients/data-link.ts'
import { sendToRecipient } from '../../src/recipients/email.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { letIn } from '../kit/oauth-client.ts'
import { ofFile } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'], open: true }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const TO = 'eve@there.test'

/** One link of each kind, at a host of this server's past. */
const links = ofFile(async () => {
  const { clock, config, keyring } = postrider.appliance.deps
  const [url, now] = [config.http.public_url, clock.now()]
  return {
    confirm: confirmUrl(keyring, url, { consent: 1, form: 1, email: 'e@x.test', until: now }),
    data: dataUrl(keyring, url, { domain, email: 'e@x.test' }, now),
    export: exportUrl(keyring, url, '0197a2f0-0000-7000-8000-000000000000', now),
    unsubscribe: unsubscribeUrl(keyring, 'https://old.here.test', {
      delivery: 0,
      domain: 1,
      audience: 1,
      email: 'a@b.c',
    }),
    // The first format: a signature and JSON.
    readable: `https://old.here.test/u/${Buffer.concat([Buffer.alloc(12, 255), Buffer.from('[1,1,1,"a@b.c"]')]).toString('base64url')}`,
  }
})
/** The part of each link without which it has no effect. */
const tokens = (): string[] => Object.values(links).map((link) => link.slice(-22))
const hides = (shown: string, where: string): void => {
  for (const token of tokens()) assert.ok(!shown.includes(token), `${where}: ${shown}`)
  assert.match(shown, /known-to-the-recipient/, where)
}

/** The text of a message without its transfer encoding and folds. */
const decoded = (message: string): string =>
  message
    .replaceAll(/=\r\n|\r\n(?=[ \t])/g, '')
    .replaceAll(/=([\dA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

async function sent(): Promise<string> {
  const { bells, clock, store, ...deps } = postrider.appliance.deps
  const email = {
    domain,
    to: TO,
    lang: 'en' as const,
    subject: 'Your links',
    text: [`A page that asks first: https://www.here.test/?next=${encodeURIComponent(links.data)}`],
    button: { label: 'Confirm', url: links.confirm },
    after: [
      { label: 'Data', url: links.data },
      { label: 'Copy', url: links.export },
      { label: 'Unsubscribe', url: links.unsubscribe },
      { label: 'Unsubscribe', url: links.readable },
    ],
    tag: 'confirmation',
    unsubscribe: { uris: [links.unsubscribe], one_click: true, mail: false },
  }
  const { id } = await store.write((tx) => sendToRecipient(tx, { ...deps, ring: bells.deliveries }, email, clock.now()))
  assert.ok(id)
  return id
}

test('the recipient gets the links of an email, and each reader of the account sees it without their tokens', async () => {
  const id = await sent()
  const heard = await until(() => exchanger.heard.find(({ to }) => to.includes(TO))?.message, 'the email')
  const { html, text } = await simpleParser(heard)
  for (const link of Object.values(links)) assert.ok(text?.includes(link) && String(html).includes(link), link)
  assert.ok(decoded(heard).includes(`List-Unsubscribe: <${links.unsubscribe}>`))

  const shown = await postrider.api('GET', `/outbound-emails/${id}`)
  hides(JSON.stringify(shown.body), 'the API')
  assert.match(shown.body.data.attributes.unsubscribe.uris[0], /^https:\/\/old\.here\.test\/u\/known-to-the-recipient$/)
  const headers = { authorization: `Bearer ${postrider.token}` }
  const source = await (await postrider.page(`/api/v1/outbound-emails/${id}/raw`, { headers })).text()
  hides(decoded(source), 'the source')
  const guest = await signedIn(postrider)
  const { text: page } = await guest.open(`/mail/${id}`)
  for (const token of tokens()) assert.ok(!page.includes(token), 'the console')
  // A copy would have links that do not work.
  assert.match(page, /cannot resend an email that has links that only its recipient sees/)
  const { access_token } = await letIn(postrider, postrider.user)
  const called = await fetch(`${postrider.url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${access_token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'get_email', arguments: { id } },
    }),
  })
  hides(await called.text(), 'MCP')
  hides(JSON.stringify(recordsAbout(postrider.appliance.deps, domain.user_key, TO)), 'the data export')
})

test('an email of a user that contains such a link is shown without its token, and other links stay', async () => {
  const other = `https://shop.test/u/${'a'.repeat(40)} https://shop.test/c/summer https://shop.test/exports/2026/01/a`
  const given = { from: 'me@here.test', to: 'bob@there.test', subject: 'x', text: `${links.data} ${other}`, html: 'x' }
  const made = await postrider.api('POST', '/outbound-emails', document('outbound-emails', given))
  const { text } = made.body.data.attributes
  assert.equal(text, `${links.data.replace(/[\w-]+$/, 'known-to-the-recipient')} ${other}`)
  const again = await postrider.api('GET', `/outbound-emails/${made.body.data.id}`)
  assert.equal(again.body.data.attributes.text, text)
})
