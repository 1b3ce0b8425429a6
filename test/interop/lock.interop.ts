// Scripts that use the registry, with npm and a registry on loopback: npm run lock -- --node VERSION changes all Node
// packages or leaves the file unchanged. npm run audit fails for a known vulnerability, and is skipped if the registry
// has no audit service.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { withPrograms } from './rig/need.ts'

const ROOT = join(import.meta.dirname, '../..')
const FILES = ['package.json', 'package-lock.json']
// oxlint-disable-next-line typescript/no-explicit-any
const json = (file: string): any => JSON.parse(readFileSync(file, 'utf8'))
const PINNED = json(join(ROOT, FILES[0]!)).optionalDependencies as Record<string, string>
const NAMES = Object.keys(PINNED)
const NOW = PINNED[NAMES[0]!]!
const NEXT = '99.1.0'
/** One package of the four has it. */
const HALF = '99.2.0'

const place = mkdtempSync(join(tmpdir(), 'postrider-lock-'))

/** What the registry answers to an audit: a status, and the advisories by package. */
let audit: [status: number, advisories: object] = [405, {}]

const registry = createServer(({ headers, method, url = '' }, response) => {
  if (method === 'POST') {
    response.writeHead(audit[0], { 'Content-Type': 'application/json' }).end(JSON.stringify(audit[1]))
    return
  }
  const name = decodeURIComponent(url.slice(1))
  if (!NAMES.includes(name)) return void response.writeHead(404).end('{}')
  const versions = [NOW, NEXT, ...(name === NAMES[0] ? [HALF] : [])].map((version) => [
    version,
    {
      name,
      version,
      engines: { node: '>=99' },
      dist: { tarball: `http://${headers.host}/${name}-${version}.tgz`, integrity: `sha512-${btoa(name + version)}` },
    },
  ])
  response.setHeader('Content-Type', 'application/json')
  response.end(JSON.stringify({ name, 'dist-tags': { latest: NEXT }, versions: Object.fromEntries(versions) }))
})

let copies = 0
/** Runs a script in a copy of both files. */
async function ran(script: string, args: readonly string[], port = (registry.address() as AddressInfo).port) {
  const folder = join(place, String(copies++))
  for (const file of FILES) cpSync(join(ROOT, file), join(folder, file))
  const env = {
    ...process.env,
    npm_config_registry: `http://127.0.0.1:${port}/`,
    npm_config_cache: join(place, 'cache'),
    npm_config_fetch_retries: '0',
    no_proxy: '127.0.0.1',
  }
  const result = await new Promise<{ code: number; said: string }>((resolve) => {
    const command = [join(ROOT, 'packaging', script), ...args]
    execFile(process.execPath, command, { cwd: folder, env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), said: stdout + stderr }),
    )
  })
  const text = (of: string, file: string): string => readFileSync(join(of, file), 'utf8')
  return { ...result, folder, changed: FILES.filter((file) => text(folder, file) !== text(ROOT, file)) }
}
const locked = (version: string, port?: number) => ran('lock.ts', ['--node', version], port)

const absent = ['npm'].filter((program) => spawnSync(program, ['--version']).error)

withPrograms('packages of the registry', absent, () => {
  before(() => new Promise<void>((resolve) => void registry.listen(0, '127.0.0.1', resolve)))
  after(() => {
    registry.close()
    rmSync(place, { recursive: true, force: true })
  })

  test('npm run lock only sets all Node packages to a version that the registry has for each', async () => {
    const { changed, code, folder, said } = await locked(NEXT)
    assert.equal(code, 0, said)
    assert.deepEqual(changed, FILES)
    const [project, lock] = FILES.map((file) => json(join(folder, file)))
    const [former, formerLock] = FILES.map((file) => json(join(ROOT, file)))
    assert.deepEqual(project.optionalDependencies, Object.fromEntries(NAMES.map((name) => [name, NEXT])))
    for (const name of NAMES) {
      const { engines, integrity, version } = lock.packages[`node_modules/${name}`]
      assert.deepEqual([version, integrity, engines], [NEXT, `sha512-${btoa(name + NEXT)}`, undefined])
      delete lock.packages[`node_modules/${name}`]
      delete formerLock.packages[`node_modules/${name}`]
    }
    for (const each of [project, former, lock.packages[''], formerLock.packages['']]) delete each.optionalDependencies
    assert.deepEqual(project, former)
    assert.deepEqual(lock, formerLock)
  })

  test('npm run lock keeps the file if a package lacks the version, and names the package and the newest common version', async () => {
    const { changed, code, said } = await locked(HALF)
    assert.deepEqual([code, changed], [1, []], said)
    const lacking = NAMES.slice(1).join(', ')
    assert.ok(
      said.includes(`no ${HALF} of ${lacking}: nothing is changed; the last version that all have is ${NEXT}.`),
      said,
    )
  })

  test('npm run lock keeps the file if the registry does not respond', async () => {
    const { changed, code, said } = await locked(NEXT, 1)
    assert.deepEqual([code, changed], [1, []], said)
    assert.match(said, /ECONNREFUSED/)
  })

  test('npm run audit fails and names the package if a package has a known vulnerability', async () => {
    const fault = {
      id: 1,
      title: 'Eats mail',
      url: 'https://advisories.test/1',
      severity: 'high',
      vulnerable_versions: '*',
    }
    audit = [200, { hono: [fault] }]
    const found = await ran('audit.ts', [])
    assert.equal(found.code, 1)
    assert.match(found.said, /^audit: hono .*high: Eats mail \(https:\/\/advisories\.test\/1\)$/m)
    audit = [200, {}]
    const none = await ran('audit.ts', [])
    assert.deepEqual([none.code, none.said], [0, 'audit: no package has a known vulnerability\n'])
  })

  test('npm run audit prints that it skipped the check, and succeeds, if the registry has no audit service', async () => {
    audit = [405, {}]
    const { code, said } = await ran('audit.ts', [])
    assert.equal(code, 0, said)
    assert.match(said, /^audit: SKIPPED because the registry has no audit service \(405 Method Not Allowed.*\)\n$/)
  })
})
