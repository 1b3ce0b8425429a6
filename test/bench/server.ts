// The child process of a benchmark: the server as `postrider serve` starts it, with metrics that only its own process
// has. Over IPC it sends {ready}, replies to 'report' with its metrics and exits on 'stop'.
import { rmSync } from 'node:fs'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { systemClock } from '../../src/base/clock.ts'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { createLog } from '../../src/base/log.ts'
import { SCOPES } from '../../src/jsonapi/scopes.ts'
import { createToken } from '../../src/users/tokens.ts'
import { addUser } from '../../src/users/users.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { checkDomain } from '../../src/domains/check.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { recordsOf } from '../../src/domains/records.ts'
import { sandboxZone } from '../../src/server/sandbox/zone.ts'
import type { Zone } from '../../src/server/sandbox/dns.ts'
import { resolverOf } from '../../src/net/validated.ts'
import type { Store } from '../../src/store/database.ts'
import { profiled, type Profile } from './profile.ts'
import { TARPIT, type Report } from './rig.ts'
import { signedDns } from './signed-dns.ts'

const input = JSON.parse(process.argv[2]!) as ConfigInput
const opened: { store?: Store } = {}
const known = sandboxZone(() => opened.store)
const zone: Zone = {
  lookUp(name, type) {
    if (name === TARPIT && type === 'MX') return [`10 mx.${TARPIT}`]
    return name === `mx.${TARPIT}` && type === 'A' ? ['127.0.0.2'] : known.lookUp(name, type)
  },
}
// The figures of the other benches are those of a server without a resolver that validates.
const delivery = { dane: false, ...input.delivery }
const config = parseConfig({ ...input, delivery, dns: { servers: [`127.0.0.1:${await signedDns(zone)}`] } })
const resolver = resolverOf(config, systemClock)
// A server writes its log, so this one does too, but discards it.
const log = createLog({ clock: systemClock, level: 'info', form: 'json', write: () => {} })
const appliance = await startAppliance({ config, clock: systemClock, log, resolver })
const { store } = appliance.deps
opened.store = store
const { deps } = appliance
const user = await addUser(deps, { email: 'bench@bench.example' })
const domain = await registerDomain({ ...deps, ring: () => {} }, user.key, { name: 'bench.example', purpose: 'both' })
await checkDomain({ ...deps, log }, domain.key)
const { plaintext } = await createToken(deps, user.key, { name: 'bench', scopes: SCOPES, duration: '1_month' })
const statements: Report['statements'] = {}
store.watch((sql, read, written) => {
  const cost = (statements[sql] ??= { calls: 0, read: 0, written: 0 })
  cost.calls++
  cost.read += read
  cost.written += written
})
let endProfile: (() => Promise<Profile>) | undefined
const delay = monitorEventLoopDelay({ resolution: 1 })

process.on('message', (message) => {
  if (message === 'reset') {
    delay.reset()
    delay.enable()
    for (const sql of Object.keys(statements)) delete statements[sql]
    process.send!({ reset: true })
  } else if (message === 'report') {
    const { user: us, system } = process.cpuUsage()
    const main = process.threadCpuUsage()
    process.send!({
      cpuMs: (us + system) / 1000,
      mainCpuMs: (main.user + main.system) / 1000,
      mainBusyMs: performance.eventLoopUtilization().active,
      loopP99Ms: delay.percentile(99) / 1e6,
      loopMaxMs: delay.max / 1e6,
      rssMb: process.memoryUsage.rss() / 1e6,
      memory: process.memoryUsage(),
      peakRssMb: process.resourceUsage().maxRSS / 1000,
      uptimeMs: performance.now(),
      statements,
    })
  } else if (message === 'profile') {
    void profiled().then((end) => {
      endProfile = end
      process.send!({ profiling: true })
    })
  } else if (message === 'top') void endProfile!().then((profile) => process.send!({ profile }))
  else if (message === 'stop') void appliance.stop().then(() => process.exit(0))
})
// The parent was killed, so this process has to stop itself.
process.on('disconnect', () => {
  rmSync(config.data_dir, { recursive: true, force: true })
  process.exit(1)
})
process.send!({
  ready: true,
  port: appliance.http.port,
  smtpPort: appliance.smtp[0]!.port,
  tlsPort: appliance.https[0]?.port,
  submissionPort: appliance.submissions[0]?.port,
  token: plaintext,
  records: recordsOf(store, domain.key).length,
})
