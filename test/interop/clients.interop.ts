// The OpenAPI document with other tools: Spectral and redocly check it, and the clients that openapi-typescript,
// hey-api and orval generate are compiled with applications that create, list, page and update each resource on a
// running server.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { build } from 'esbuild'
import { SCOPES } from '../../src/jsonapi/scopes.ts'
import { addUser } from '../../src/users/users.ts'
import { openApi, resourcesOf } from '../../src/http/server.ts'
import { loadParts } from '../../src/server/parts.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { withPrograms } from './rig/need.ts'

const resources = resourcesOf(await loadParts())

/** Where setup.sh puts the tools. */
const TOOLS = process.env['POSTRIDER_CLIENTS'] ?? '/var/tmp/postrider-clients'
const MODULES = join(TOOLS, 'node_modules')
const SOURCES = join(import.meta.dirname, 'clients')
const TIMEOUT = 240_000
const absent = existsSync(join(MODULES, 'orval')) ? [] : [`the tools of test/interop/clients in ${TOOLS}`]

/** What each program prints when everything went as it should. */
const STORY = {
  policy: 'Require',
  records: true,
  second: 'pending',
  inboxes: ['one', 'two', 'three'],
  sizes: [2, 1],
  inbox: 'first',
  refusal: ['invalid', '/data/attributes/address'],
  secret: 'whsec_',
  webhook: 'Renamed',
  listed: true,
  included: true,
  deliveries: false,
  contact: ['Ann', 'Ghent'],
  brought: [1, 1],
  contacts: 2,
  stats: [null, null],
  mail: ['to', '<p>Hello</p>', []],
  figures: 0,
  suppressions: 0,
  inbound: 0,
  token: ['pr_', 204],
}

withPrograms('clients generated from the OpenAPI document', absent, () => {
  let postrider: TestAppliance
  let dir: string

  before(async () => {
    postrider = await startTestAppliance()
    postrider.config.http.public_url = `http://127.0.0.1:${postrider.appliance.http.port}`
    dir = mkdtempSync(join(tmpdir(), 'postrider-clients-'))
    cpSync(SOURCES, dir, { recursive: true })
    symlinkSync(MODULES, join(dir, 'node_modules'))
    writeFileSync(
      join(dir, 'openapi.json'),
      JSON.stringify(openApi(resources, postrider.config.http.public_url), null, 1),
    )
  })
  after(async () => {
    await postrider.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  const run = (script: string, ...args: string[]): Promise<{ code: number; output: string }> =>
    new Promise((resolve) => {
      const env = { PATH: process.env['PATH'], HOME: dir, TMPDIR: dir, REDOCLY_TELEMETRY: 'off', CI: '1' }
      const options = { cwd: dir, env, timeout: TIMEOUT, killSignal: 'SIGKILL', maxBuffer: 1 << 26 } as const
      execFile(process.execPath, [join(dir, script), ...args], options, (error, stdout, stderr) =>
        resolve({
          code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1,
          output: stdout + (error ? stderr : ''),
        }),
      )
    })
  const well = async (script: string, ...args: string[]): Promise<string> => {
    const { code, output } = await run(script, ...args)
    assert.equal(code, 0, `${script}: ${output.slice(0, 20_000)}`)
    return output
  }

  test('Spectral finds no problem in the OpenAPI document', async () => {
    const spectral = 'node_modules/@stoplight/spectral-cli/dist/index.js'
    await well(spectral, 'lint', 'openapi.json', '--ruleset', '.spectral.yaml', '--fail-severity', 'hint')
  })

  test('redocly finds no problem in the OpenAPI document', async () => {
    const output = await well('node_modules/@redocly/cli/bin/cli.js', 'lint', 'openapi.json', '--format', 'json')
    const { problems } = JSON.parse(output.slice(output.indexOf('{'))) as { problems: unknown[] }
    assert.deepEqual(problems, [])
  })

  test('generated clients compile with the applications that use them', async () => {
    const typescript = ['openapi.json', '--output', 'gen/openapi-typescript.ts']
    await well('node_modules/openapi-typescript/bin/cli.js', ...typescript)
    await well('node_modules/@hey-api/openapi-ts/bin/run.js', '--input', 'openapi.json', '--output', 'gen/hey-api')
    await well('node_modules/orval/dist/bin/orval.mjs', '--config', 'orval.config.mjs')
    await well('node_modules/typescript/bin/tsc', '--project', 'tsconfig.json')
  })

  for (const name of ['openapi-fetch', 'hey-api', 'orval'])
    test(`${name}: the compiled application works with a server`, async () => {
      const owner = await addUser(postrider.appliance.deps, { email: `${name}@owner.test` })
      const domain = (await postrider.activeDomain(`${name}.test`, owner)).name
      const outfile = join(dir, `${name}.mjs`)
      await build({ entryPoints: [join(dir, `${name}.ts`)], bundle: true, format: 'esm', platform: 'node', outfile })
      const server = `${postrider.config.http.public_url}/api/v1`
      const printed = await well(`${name}.mjs`, server, await postrider.tokenFor(owner, SCOPES), domain)
      assert.deepEqual(JSON.parse(printed), { ...STORY, campaign: ['Newer', [`ann@${domain}`]] })
    })
})
