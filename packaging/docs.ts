// Writes the documents that are generated from the code: docs/development/states.md (the state tables),
// docs/development/rfc.md (where each RFC is implemented), docs/commands.md (the help), docs/configuration.md
// (config/postrider.toml), docs/roles.md (what each role may do) and docs/compatibility-fields.md (the endpoints and
// fields of the compatibility APIs). Run it with `npm run docs`. A test fails if one is out of date.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandsPage } from './docs-commands.ts'
import { compatibilityPage } from './docs-compatibility.ts'
import { rolesPage } from './docs-roles.ts'
import { configurationPage } from './docs-configuration.ts'
import { agentMachine } from '../src/store/states/agent.ts'
import { campaignMachine } from '../src/store/states/campaign.ts'
import { consentMachine } from '../src/store/states/consent.ts'
import { deliveryMachine } from '../src/store/states/delivery.ts'
import { domainMachine } from '../src/store/states/domain.ts'
import { formMachine } from '../src/store/states/form.ts'
import type { Machine } from '../src/store/states/machine.ts'
import { emailMachine } from '../src/store/states/outbound-email.ts'
import { warmupMachine } from '../src/store/states/warmup.ts'
import { watchMachine } from '../src/store/states/watch.ts'
import { receiverAlarmMachine } from '../src/store/states/receiver-alarm.ts'
import { webhookDeliveryMachine } from '../src/store/states/webhook-delivery.ts'
import { webhookMachine } from '../src/store/states/webhook.ts'

const ROOT = join(import.meta.dirname, '..')

type Table = Pick<Machine<string, string>, 'rows' | 'table'>

const MACHINES: readonly [title: string, file: string, machine: Table][] = [
  ['Outbound email', 'outbound-email', emailMachine],
  ['Delivery to one recipient', 'delivery', deliveryMachine],
  ['Campaign', 'campaign', campaignMachine],
  ['Consent', 'consent', consentMachine],
  ['Sign-up form', 'form', formMachine],
  ['Sending domain', 'domain', domainMachine],
  ['Webhook', 'webhook', webhookMachine],
  ['Webhook delivery', 'webhook-delivery', webhookDeliveryMachine],
  ['Agent', 'agent', agentMachine],
  ['Warm-up of a sending IP address at a receiver', 'warmup', warmupMachine],
  ['Blocklist and reverse DNS check', 'watch', watchMachine],
  ['Receiver alarm', 'receiver-alarm', receiverAlarmMachine],
]

/** docs/development/states.md. */
export function statesPage(): string {
  const sections = MACHINES.map(([title, file, { rows, table }]) => {
    const edges = rows.map(({ from, on, to }) => `  ${from} --> ${to}: ${on}`)
    const lines = rows.map(
      ({ from, on, to, by, emits }) =>
        `| ${from} | ${on} | ${to} | ${by} | ${emits === undefined ? '' : `\`${emits}\``} |`,
    )
    return `## ${title}

\`${table}\`, [src/store/states/${file}.ts](../../src/store/states/${file}.ts)

\`\`\`mermaid
stateDiagram-v2
${edges.join('\n')}
\`\`\`

| from | event | to | by | emits |
|---|---|---|---|---|
${lines.join('\n')}
`
  })
  return `# State machines

Generated from the tables in \`src/states\` by \`npm run docs\`. A test fails if this page is out of date.

- **by:** who causes the change: the \`owner\` through the API, the \`operator\` at the command line, or Postrider automatically (\`auto\`).
- **emits:** the webhook event that the change sends. Empty if the change sends none.

${sections.join('\n')}`
}

/** Titles of the RFCs that the code cites, by number. */
export const TITLES: Record<string, string> = JSON.parse(
  readFileSync(join(ROOT, 'packaging/rfc-titles.json'), 'utf8'),
) as Record<string, string>

/** Returns the RFC numbers that src/ cites, each with the files that cite it. */
export function rfcPlaces(): Map<string, string[]> {
  const places = new Map<string, Set<string>>()
  for (const file of globSync('src/**/*.ts', { cwd: ROOT }).toSorted())
    for (const [, number] of readFileSync(join(ROOT, file), 'utf8').matchAll(/\bRFCs? (\d{3,5})\b/g))
      places.set(number!, (places.get(number!) ?? new Set()).add(file.replace(/^src\//, '')))
  return new Map([...places].toSorted(([a], [b]) => Number(a) - Number(b)).map(([rfc, files]) => [rfc, [...files]]))
}

/** docs/development/rfc.md. */
export function rfcPage(): string {
  const lines = [...rfcPlaces()].map(
    ([number, files]) =>
      `| [${number}](https://www.rfc-editor.org/rfc/rfc${number}) | ${TITLES[number] ?? '?'} | ${files.map((file) => `\`${file}\``).join(', ')} |`,
  )
  return `# RFCs and the files that implement them

Generated from the RFC numbers in the comments of \`src\` by \`npm run docs\`. A test fails if this page is out of date.

| RFC | title | files |
|---|---|---|
${lines.join('\n')}
`
}

if (import.meta.main) {
  writeFileSync(join(ROOT, 'docs/development/states.md'), statesPage())
  writeFileSync(join(ROOT, 'docs/development/rfc.md'), rfcPage())
  writeFileSync(join(ROOT, 'docs/commands.md'), commandsPage())
  writeFileSync(join(ROOT, 'docs/configuration.md'), configurationPage())
  writeFileSync(join(ROOT, 'docs/roles.md'), await rolesPage())
  writeFileSync(join(ROOT, 'docs/compatibility-fields.md'), compatibilityPage())
}
