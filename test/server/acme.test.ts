// The operator sees each required certificate in doctor, /metrics and alert emails, and no certificate that is not
// required any more.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { listNotices } from '../../src/users/notices.ts'
import { DAY, HOUR, SECOND, systemClock } from '../../src/base/clock.ts'
import { makeCertificate } from '../../src/base/certificate.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { Commands, NOWHERE } from '../commands/command.ts'
import { ManualClock } from '../kit/clock.ts'

const HOST = 'mx.postrider.test'
const WANTED = [HOST, 'api.postrider.test', 'www.postrider.test']
/** As makeCertificate gives it. */
const LIFETIME = 3650 * DAY
/** An ACME server that does not respond. */
const ACME = {
  enabled: true,
  accept_terms: true,
  directory: 'https://127.0.0.1:1/directory',
  listen: ['127.0.0.1:0'],
  names: ['www.postrider.test'],
}
const dataDir = temporaryDirectory('acme')
const now = systemClock.now()
let commands: Commands

function keep(name: string, left: number): void {
  const { cert, key } = makeCertificate(name, now + left - LIFETIME)
  writeFileSync(join(dataDir, 'acme', `${name}.crt`), cert)
  writeFileSync(join(dataDir, 'acme', `${name}.key`), key)
}

setUp(() => {
  mkdirSync(join(dataDir, 'acme'), { recursive: true })
  keep('gone.example', 2 * DAY)
  keep('api.postrider.test', 2 * DAY)
  keep(HOST, 3000 * DAY)
})
const postrider = ofFile(() =>
  startTestAppliance({
    dataDir,
    clock: new ManualClock(now),
    config: { http: { public_url: 'https://api.postrider.test' }, acme: ACME, notices: { operator: 'op@there.test' } },
  }),
)
setUp(async () => {
  const { acme } = postrider.config
  commands = Commands.beside(
    postrider,
    `${NOWHERE}[acme]\nenabled = true\naccept_terms = true\ndirectory = "${acme.directory}"\n[dns]\nservers = ["127.0.0.1:${postrider.dns.port}"]\n`,
  )
  for (const time of [SECOND, HOUR + SECOND]) postrider.clock.leap(time)
  await until(() => listNotices(postrider.appliance.deps.store).length > 0, 'the notice')
})
after(async () => {
  await commands.close()
})

test('the alert email reports a required certificate that expires soon or is missing, and no other one', () => {
  const [notice, ...more] = listNotices(postrider.appliance.deps.store)
  assert.deepEqual([notice?.subject, more], ['Problem on mx.postrider.test: certificate', []])
  const text = notice?.text ?? ''
  assert.match(text, /^Certificate of api\.postrider\.test: .* (?:expires in 1 day|was not renewed)/m)
  assert.match(text, /^Certificate of www\.postrider\.test: .* has not issued one/m)
  assert.match(text, /^Fix: Make port 80 or 443 of www\.postrider\.test reach this server/m)
  assert.doesNotMatch(text, /gone\.example|Certificate: /)
})

test('/metrics: the expiry of each required name, 0 without a certificate, and the failures', async () => {
  const text = await (await fetch(`http://127.0.0.1:${postrider.appliance.http.port}/metrics`)).text()
  const values = (figure: string): Record<string, number> =>
    Object.fromEntries(
      [...text.matchAll(new RegExp(`^${figure}\\{(.*)\\} (.*)$`, 'gm'))].map(([, labels, value]) => [
        labels,
        Number(value),
      ]),
    )
  const ends = values('postrider_certificate_expiry_timestamp_seconds')
  assert.deepEqual(Object.keys(ends).toSorted(), [...WANTED.map((name) => `name="${name}"`).toSorted(), 'use="smtp"'])
  assert.equal(ends['name="www.postrider.test"'], 0)
  assert.equal(ends[`name="${HOST}"`], ends['use="smtp"'])
  // The authority does not respond, so no other names are ordered at once.
  assert.deepEqual(Object.keys(values('postrider_certificate_failures_total')), ['name="api.postrider.test"'])
})

test('doctor and the console: a finding for each required name', async () => {
  const { stdout } = await commands.run(['--json', 'doctor', '--time-server', '127.0.0.1:1', '--probe', 'probe.test'])
  const shown = JSON.parse(stdout) as { check: string; status: string; detail: string }[]
  const state = await postrider.appliance.deps.operations.state()
  for (const findings of [shown, state.findings]) {
    const of = (check: string) => findings.find((each) => each.check === check)!
    assert.equal(of('certificate').status, 'ok')
    assert.equal(of('certificate of api.postrider.test').status, 'warn')
    assert.match(of('certificate of api.postrider.test').detail, /was not renewed: 127\.0\.0\.1:1 does not answer/)
    assert.equal(of('certificate of www.postrider.test').status, 'fail')
    assert.equal(findings.filter(({ check }) => check.startsWith('certificate')).length, WANTED.length)
  }
})
