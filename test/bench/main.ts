// `npm run bench [-- NAME …] [--count N]`: each figure is one line of JSON. `table` prints Markdown too, and takes
// `--rounds N` and `--only ROW`.
import { parseArgs } from 'node:util'
import { backlog } from './backlog.ts'
import { backup } from './backup.ts'
import { batch } from './batch.ts'
import { campaign } from './campaign.ts'
import { compat } from './compat.ts'
import { console_ } from './console.ts'
import { cores } from './cores.ts'
import { idle } from './idle.ts'
import { inbound } from './inbound.ts'
import { instances } from './instances.ts'
import { limits } from './limits.ts'
import { memory } from './memory.ts'
import { outbound } from './outbound.ts'
import { profile } from './profile.ts'
import { reports } from './reports.ts'
import { segments } from './segments.ts'
import { signups } from './signups.ts'
import { dane } from './spread.ts'
import { statements } from './statements.ts'
import { submission } from './submission.ts'
import { table } from './table.ts'
import { warmup } from './warmup.ts'
import { webhooks } from './webhooks.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: 'string', default: '3000' },
    rounds: { type: 'string', default: '5' },
    only: { type: 'string', multiple: true, default: [] },
    before: { type: 'string' },
    size: { type: 'string', default: '1' },
  },
})
const count = Number(values.count)
const benches: Record<string, () => Promise<void> | void> = {
  table: () => table({ count, rounds: Number(values.rounds) }, values.only),
  backup: () => backup(Number(values.size), values.only),
  idle: () => idle(values.before, Number(values.rounds)),
  instances: () => instances(values.count === '3000' ? 20_000 : count),
  limits,
  dane: () => dane(count),
  warmup: () => warmup(count, Number(values.rounds)),
  statements: () => statements(values.count === '3000' ? 500 : count),
  profile: () => profile(count),
  outbound: () => outbound(count),
  submission: () => submission(count),
  cores: () => cores(count, Number(values.rounds)),
  backlog: () => backlog(count),
  webhooks,
  batch,
  compat: () => compat(count, Number(values.rounds)),
  campaign: () => campaign(values.count === '3000' ? 100_000 : count),
  signups: () => signups(values.count === '3000' ? 30 : count, values.only),
  segments: () => segments(values.count === '3000' ? 100_000 : count),
  inbound: () => inbound(count),
  reports,
  memory: () => memory(values.count === '3000' ? 100_000 : count),
  console: () => console_(values.count === '3000' ? 1_000_000 : count),
}

for (const name of positionals.length > 0 ? positionals : Object.keys(benches)) {
  const bench = benches[name]
  if (!bench) throw new Error(`There is no bench "${name}"; there are ${Object.keys(benches).join(', ')}.`)
  await bench()
}
