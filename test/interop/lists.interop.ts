// Lists in the console of the executable, in a real browser: 2,000 contacts from a Mailchimp export and one of
// listmonk, a mapped column, an unknown status value, the rejected lines, and a bounced address that is reactivated. No
// step needs a shell. The duration of each step is printed, on an idle machine less than a second.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { until } from '../kit/until.ts'
import { LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

const CONTACTS = 2000
/** The maximum duration of a step in ms on a busy machine. */
const MOST = 5000

const numbers = Array.from({ length: CONTACTS }, (_, n) => n)

/** An export of Mailchimp with a column of status: 10 left, 10 bounced, one pending, and a line that is wrong. */
const MAILCHIMP = [
  'Email Address,First Name,Last Name,Stadt,Status,MEMBER_RATING,OPTIN_TIME,OPTIN_IP,CONFIRM_TIME,CONFIRM_IP,NOTES',
  ...numbers.map((n) => {
    const status = n === 7 ? 'pending' : n % 200 === 1 ? 'unsubscribed' : n % 200 === 2 ? 'cleaned' : 'subscribed'
    return `mc${n}@mailchimp.example,Reader,${n},"Köln, am Rhein",${status},2,2024-05-06 07:08:09,192.0.2.1,2024-05-06 07:08:09,192.0.2.1,`
  }),
  'not an address,Bad,Row,Bonn,subscribed,2,,,,,',
  '',
].join('\r\n')

const LISTMONK = [
  'uuid,email,name,attributes,status,created_at,updated_at',
  ...numbers.map(
    (n) =>
      `00000000-0000-4000-8000-${String(n).padStart(12, '0')},lm${n}@listmonk.example,Person ${n},"{""city"": ""Bergen""}",${n % 500 === 3 ? 'blocklisted' : 'enabled'},2024-05-06T07:08:09Z,2024-05-06T07:08:09Z`,
  ),
  '',
].join('\n')

withPrograms('lists in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  const folder = mkdtempSync(join(tmpdir(), 'postrider-lists-'))

  const words = (): Promise<string> => browser.run('return document.querySelector("main")?.innerText ?? ""')
  const says = (what: RegExp): Promise<unknown> => until(async () => what.test(await words()), String(what))
  /** Presses the button or follows the link with this label, and confirms the prompt. */
  const press = (label: string): Promise<unknown> =>
    browser.run(
      `const one = [...document.querySelectorAll('main button, main a')].find((each) => each.textContent.trim() === arguments[0])
       if (!one) throw new Error('nothing says ' + arguments[0])
       one.click()
       document.querySelector('dialog[open] .sure')?.click()`,
      label,
    )
  const choose = (name: string, value: string): Promise<unknown> =>
    browser.run('document.getElementsByName(arguments[0])[0].value = arguments[1]', name, value)
  /** Presses, and tells the time until the answer was there, as the browser measures its navigation. */
  async function timed(t: TestContext, label: string, what: RegExp): Promise<void> {
    await press(label)
    await says(what)
    const took: number = await browser.run('return performance.getEntriesByType("navigation")[0].responseEnd')
    t.diagnostic(`"${label}": ${Math.round(took)} ms`)
    assert.ok(took < MOST, `"${label}" took ${Math.round(took)} ms`)
  }
  async function axe(name: string): Promise<void> {
    for (const [scheme, width] of LOOKS) {
      await browser.emulate(scheme, width)
      await browser.judge(`lists ${name}, ${scheme}, ${width}`)
    }
    await browser.emulate('light', 1280)
  }

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    await browser.open(server.console)
  })
  after(async () => {
    await browser.stop()
    await server?.stop()
    rmSync(folder, { recursive: true })
  })

  test('a Mailchimp export is imported into a new audience', async (t) => {
    writeFileSync(join(folder, 'subscribed.csv'), MAILCHIMP)
    await browser.open(`${server.url}/audiences`)
    await press('New audience')
    await browser.type('#name', 'Readers')
    await press('Create audience')
    await says(/Now import its contacts/)
    await press('Import contacts')
    await says(/Step 1 of 3/)
    await browser.type('#file', join(folder, 'subscribed.csv'))
    await timed(t, 'Next', /2,001 rows, in the format of Mailchimp/)
    assert.match(await words(), /unsubscribed\s+Status\s+10\s+Unsubscribed/)
    // The name of a new field shows with its choice.
    const seen = 'return getComputedStyle(document.getElementsByName("new:3")[0]).display'
    assert.equal(await browser.run(seen), 'none')
    await choose('use:3', 'new')
    assert.notEqual(await browser.run(seen), 'none')
    await choose('new:3', 'city')
    await choose('word:pending', 'unconfirmed')
    await axe('columns')
    await timed(t, 'Next', /Step 3 of 3/)
    assert.match(await words(), /New\s+1,979\s+Updated\s+0\s+Kept as unsubscribed\s+10\s+Suppressed\s+10/)
    assert.match(await words(), /Line 2002: "not an address" is not an email address/)
    assert.match(await words(), /city: Köln, am Rhein/)
    await axe('preview')
    await timed(t, 'Import 2,000 rows', /1,979 added, 10 unsubscribed, 10 suppressed\./)
    await axe('result')
    const refused: string = await browser.later(
      `fetch([...document.querySelectorAll('a')].find((each) => each.textContent === 'Rejected rows').href)
         .then((answer) => answer.text()).then(arguments[0])`,
    )
    assert.match(refused, /2002,"""not an address"" is not an email address",not an address,Bad,Row,Bonn/)
    await press('View audience')
    await says(/Subscribed 1,979/)
    assert.match(await words(), /All 1,999[^]*Unsubscribed 10[^]*Bounced 10[^]*Complained 0/)
  })

  test('a listmonk export is imported into the same audience without mapping, and the history shows both', async (t) => {
    writeFileSync(join(folder, 'listmonk.csv'), LISTMONK)
    await press('Import contacts')
    await says(/Step 1 of 3/)
    await browser.type('#file', join(folder, 'listmonk.csv'))
    await timed(t, 'Next', /2,000 rows, in the format of listmonk/)
    await timed(t, 'Next', /New\s+1,996[^]*Suppressed\s+4/)
    await timed(t, 'Import 2,000 rows', /1,996 added, 4 suppressed\./)
    await press('Import history')
    await says(/listmonk\.csv[^]*subscribed\.csv/)
  })

  test('an operator reactivates a bounced address in the console', async () => {
    await browser.open(`${server.url}/suppressions?q=mc2@`)
    await says(/mc2@mailchimp\.example[^]*bounced/)
    await press('Reactivate')
    await says(/mc2@mailchimp\.example can receive your email again\./)
    await browser.open(`${server.url}/suppressions?q=mc2@`)
    await says(/No addresses match/)
  })
})
