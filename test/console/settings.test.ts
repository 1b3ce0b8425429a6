// The settings that the console can change: the configuration file keeps its other lines, and an invalid change leaves
// it as it was.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { belongTo } from '../../src/base/named-instance.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import type { Guest } from '../kit/guest.ts'
import { asPerson } from '../kit/person.ts'
import { signedIn } from '../kit/signed-in.ts'

const folder = temporaryDirectory('settings')

interface Served extends AsyncDisposable {
  postrider: TestAppliance
  ann: Guest
  text: () => string
  change: (action: string, fields: Record<string, string>) => ReturnType<Guest['send']>
}

/** A server with a configuration file, and a signed-in operator. */
async function served(name: string, more = '', environment: Record<string, string> = {}): Promise<Served> {
  const dataDir = temporaryDirectory(`settings-${name}`)
  const file = join(folder, `${name}.toml`)
  writeFileSync(
    file,
    `# Ours.\nhostname = "mx.here.example" # The old one.\ndata_dir = ${JSON.stringify(dataDir)}\n${more}`,
  )
  const postrider = await startTestAppliance({ source: { file, environment } })
  const ann = await signedIn(postrider)
  return {
    postrider,
    ann,
    text: () => readFileSync(file, 'utf8'),
    change: async (action, fields) => ann.send(await ann.open('/server/settings'), action, fields),
    [Symbol.asyncDispose]: () => postrider.stop(),
  }
}

describe('the settings page', () => {
  test('changes the hostname and keeps the other lines and comments', async () => {
    await using here = await served('hostname', '\n[http]\n# A port.\nlisten = "127.0.0.1:0"\n')
    const changed = await here.change('hostname', { hostname: 'MX.new.org' })
    assert.match(changed.text, /The hostname was saved. Restart the server/)
    assert.match(
      here.text(),
      /^# Ours\.\nhostname = "mx\.new\.org" # The old one\.\ndata_dir = .*\n\n\[http\]\n# A port\.\n/,
    )
    assert.ok(here.postrider.appliance.deps.restart.has('hostname'), 'the finding names the restart')
    belongTo('shop')
    try {
      const again = await here.change('hostname', { hostname: 'mx.newer.org' })
      assert.match(again.text, /systemctl restart postrider@shop/)
    } finally {
      belongTo(undefined)
    }
  })

  test('adds a backup destination, which the running server uses', async () => {
    await using here = await served('backup', '[backup]\nto = ["/mnt/one"] # First.\n')
    here.postrider.config.backup.to = ['/mnt/one']
    assert.match((await here.change('backup', { backup_destination: '/mnt/two' })).text, /The destination was added/)
    assert.match(here.text(), /\[backup\]\nto = \["\/mnt\/one","\/mnt\/two"\]/)
    assert.deepEqual(here.postrider.config.backup.to, ['/mnt/one', '/mnt/two'])
  })

  test('turns on automatic certificates and accepts the terms', async () => {
    await using here = await served('acme')
    assert.match((await here.change('acme', { acme_email: 'ops@here.test' })).text, /Automatic certificates are on/)
    assert.match(here.text(), /\n\[acme\]\nemail = "ops@here\.test"\naccept_terms = true\nenabled = true\n/)
  })

  test('rejects invalid values and commands, and leaves the file as it was', async () => {
    await using here = await served('invalid', '[backup]\nto = [\n  "/mnt/one",\n]\n')
    const before = here.text()
    for (const [action, name, value] of [
      ['hostname', 'hostname', 'mx'],
      ['hostname', 'hostname', 'mx.here.test"\ndata_dir = "/'],
      ['backup', 'backup_destination', 'exec:sh -c {action} {name}'],
      ['backup', 'backup_destination', 'mnt/relative'],
      ['backup', 'backup_destination', 's3://bucket'],
      // A list of several lines is not replaced, because the result would not be valid.
      ['backup', 'backup_destination', '/mnt/two'],
    ] as const) {
      assert.equal((await here.change(action, { [name]: value })).status, 422, value)
      assert.equal(here.text(), before, value)
    }
  })

  test('names the lines to change if the file cannot be written, and a variable that overrides it', async () => {
    await using here = await served('locked')
    const before = here.text()
    // It is in the place of the new file.
    mkdirSync(join(folder, 'locked.toml.new'))
    const said = (await here.change('backup', { backup_destination: '/mnt/two' })).text
    assert.match(said, /As root, set to = \[&quot;\/mnt\/two&quot;\] in the section \[backup\] of [^ ]*locked\.toml/)
    assert.equal(here.text(), before)
    await using other = await served('variable', '', { POSTRIDER_HOSTNAME: 'mx.variable.org' })
    assert.match(
      (await other.change('hostname', { hostname: 'mx.new.org' })).text,
      /An environment variable of the server/,
    )
  })

  test('is only for operators who are signed in, and findings lead to it', async () => {
    await using here = await served('access')
    const { ann, postrider } = here
    assert.match((await ann.open('/server')).text, /href="\/server\/settings#hostname"[^]*?Set hostname/)
    assert.match((await ann.open('/server')).text, /href="\/server\/settings#backup"/)
    assert.doesNotMatch((await ann.open('/server')).text, /docs\/backup\.md|Set "backup\.to"/)
    const bob = await signedIn(postrider, postrider.other.email)
    assert.equal((await bob.open('/server/settings')).status, 404)
    const path = '/server/settings/server'
    assert.equal((await asPerson(postrider, postrider.user, path)).status, 200)
    assert.equal((await postrider.api('GET', path)).status, 404, 'not with a token')
    const data = { type: 'server-settings', id: 'server', attributes: { hostname: 'mx.stolen.org' } }
    assert.equal((await postrider.api('PATCH', path, { data })).status, 404)
  })
})
