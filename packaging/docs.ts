// Writes the documents that are made from the code: docs/states.md (the state tables) and docs/rfc.md (where each RFC
// is held). `npm run docs` writes them; a test holds that they are what the code says.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { agentMachine } from '../src/states/agent.ts'
import { campaignMachine } from '../src/states/campaign.ts'
import { deliveryMachine } from '../src/states/delivery.ts'
import { domainMachine } from '../src/states/domain.ts'
import type { Machine } from '../src/states/machine.ts'
import { emailMachine } from '../src/states/outbound-email.ts'
import { warmupMachine } from '../src/states/warmup.ts'
import { watchMachine } from '../src/states/watch.ts'
import { receiverAlarmMachine } from '../src/states/receiver-alarm.ts'
import { webhookDeliveryMachine } from '../src/states/webhook-delivery.ts'
import { webhookMachine } from '../src/states/webhook.ts'

const ROOT = join(import.meta.dirname, '..')

type Table = Pick<Machine<string, string>, 'rows' | 'table'>

const MACHINES: readonly [title: string, file: string, machine: Table][] = [
  ['A mail', 'outbound-email', emailMachine],
  ['The delivery to one recipient', 'delivery', deliveryMachine],
  ['A campaign', 'campaign', campaignMachine],
  ['A sending domain', 'domain', domainMachine],
  ['A webhook', 'webhook', webhookMachine],
  ['The delivery of one event', 'webhook-delivery', webhookDeliveryMachine],
  ['An agent', 'agent', agentMachine],
  ['The warm-up of a pair', 'warmup', warmupMachine],
  ['What is watched', 'watch', watchMachine],
  ['An alarm of a receiver', 'receiver-alarm', receiverAlarmMachine],
]

/** docs/states.md. */
export function statesPage(): string {
  const sections = MACHINES.map(([title, file, { rows, table }]) => {
    const edges = rows.map(({ from, on, to }) => `  ${from} --> ${to}: ${on}`)
    const lines = rows.map(
      ({ from, on, to, by, emits }) =>
        `| ${from} | ${on} | ${to} | ${by} | ${emits === undefined ? '' : `\`${emits}\``} |`,
    )
    return `## ${title}

\`${table}\`, [src/states/${file}.ts](../src/states/${file}.ts)

\`\`\`mermaid
stateDiagram-v2
${edges.join('\n')}
\`\`\`

| from | on | to | by | tells |
|---|---|---|---|---|
${lines.join('\n')}
`
  })
  return `# State machines

Made from the tables in \`src/states\` by \`npm run docs\`; a test holds that it is what they say. "by": the owner through the API, the operator at
the command line, or Postrider by itself (\`auto\`). "tells": the event of the log and of webhooks; empty: nobody is told.

${sections.join('\n')}`
}

/** What the RFCs that the code names are about. */
export const TITLES: Record<string, string> = JSON.parse(
  readFileSync(join(ROOT, 'packaging/rfc-titles.json'), 'utf8'),
) as Record<string, string>

/** RFC numbers with the files of src/ that name them. */
export function rfcPlaces(): Map<string, string[]> {
  const places = new Map<string, Set<string>>()
  for (const file of globSync('src/**/*.ts', { cwd: ROOT }).toSorted())
    for (const [, number] of readFileSync(join(ROOT, file), 'utf8').matchAll(/\bRFCs? (\d{3,5})\b/g))
      places.set(number!, (places.get(number!) ?? new Set()).add(file.replace(/^src\//, '')))
  return new Map([...places].toSorted(([a], [b]) => Number(a) - Number(b)).map(([rfc, files]) => [rfc, [...files]]))
}

/** docs/rfc.md. */
export function rfcPage(): string {
  const lines = [...rfcPlaces()].map(
    ([number, files]) =>
      `| [${number}](https://www.rfc-editor.org/rfc/rfc${number}) | ${TITLES[number] ?? '?'} | ${files.map((file) => `\`${file}\``).join(', ')} |`,
  )
  return `# Where each RFC is held

Made from the RFCs that the files of \`src\` name, by \`npm run docs\`; a test holds that it is up to date.

| RFC | about | files |
|---|---|---|
${lines.join('\n')}
`
}

if (import.meta.main) {
  writeFileSync(join(ROOT, 'docs/states.md'), statesPage())
  writeFileSync(join(ROOT, 'docs/rfc.md'), rfcPage())
}
