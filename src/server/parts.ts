// The list of the server's parts, one line per part. Every run of the executable loads the commands, but only a server
// loads the rest.
import type { Command } from 'commander'
import type { Invocation } from '../views/command/open.ts'
import type { Finder } from '../parts/findings/finding.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { OPEN_GATE, type DeliveryGate } from '../parts/gate.ts'
import type { ServerPart, PartDeps } from '../parts/part.ts'
import { NO_REPORTS, type ReportReceiver } from '../parts/received.ts'
import { domainCommand } from '../domains/command.ts'
import { inboxCommand } from '../inbound/command.ts'
import { suppressionCommand } from '../suppressions/command.ts'
import { consentCommand } from '../campaigns/command-consents.ts'
import { formCommand } from '../forms/command.ts'
import { segmentCommand } from '../campaigns/command.ts'
import { contactsCommand, suppressionListCommands } from '../lists/command.ts'
import { queueCommand } from '../delivery/command.ts'
import { mailCommand } from '../mail/command.ts'
import { webhookCommand } from '../webhooks/command.ts'
import { exportCommand } from '../privacy/command.ts'
import { agentCommand } from '../reputation/command.ts'
import { domainReportCommands } from '../reports/command-domain.ts'
import { reportCommand } from '../reports/command-read.ts'
import { sourceCommand } from '../watch/command-sources.ts'
import { watchCommand } from '../watch/command.ts'
import { whyCommand } from '../why/command.ts'
import { warmupCommand } from '../warmup/command.ts'
import { DOMAIN_FOLLOWERS } from './domain-followers.ts'

type AddCommand = (program: Command, invocation: () => Invocation) => void

export interface ListedPart {
  commands: readonly AddCommand[]
  load: () => Promise<ServerPart<AppDeps>>
}

const listed = (load: ListedPart['load'], ...commands: AddCommand[]): ListedPart => ({ load, commands })

const CORE: readonly ListedPart[] = [
  listed(async () => (await import('../checks/part.ts')).checksPart),
  listed(
    async () => (await import('../domains/part.ts')).domainsPart,
    (program, invocation) => domainCommand(program, invocation, DOMAIN_FOLLOWERS),
  ),
  listed(async () => (await import('../inbound/part.ts')).inboundPart, inboxCommand),
  listed(async () => (await import('../suppressions/part.ts')).suppressionsPart, suppressionCommand),
  listed(async () => (await import('../campaigns/part.ts')).campaignsPart, consentCommand, segmentCommand),
  listed(async () => (await import('../lists/part.ts')).listsPart, contactsCommand, suppressionListCommands),
  listed(async () => (await import('../delivery/part.ts')).deliveryPart, queueCommand),
  listed(async () => (await import('../mail/part.ts')).mailPart, mailCommand),
  listed(async () => (await import('../submission/part.ts')).submissionPart),
  listed(async () => (await import('../webhooks/part.ts')).webhooksPart, webhookCommand),
  listed(async () => (await import('../privacy/part.ts')).privacyPart, exportCommand),
  listed(async () => (await import('../reputation/part.ts')).reputationPart, agentCommand),
  listed(async () => (await import('../recipients/part.ts')).recipientsPart),
]

/** A server starts without any of these. */
export const OPTIONAL: readonly ListedPart[] = [
  listed(async () => (await import('../warmup/part.ts')).warmupPart, warmupCommand),
  listed(async () => (await import('../reports/part.ts')).reportsPart, domainReportCommands, reportCommand),
  listed(async () => (await import('../watch/part.ts')).watchPart, sourceCommand, watchCommand),
  listed(async () => (await import('../forms/part.ts')).formsPart, formCommand),
  listed(async () => (await import('../images/part.ts')).imagesPart),
  listed(async () => (await import('../why/part.ts')).whyPart, whyCommand),
  listed(async () => (await import('../mcp/part.ts')).mcpPart),
  listed(async () => (await import('../compat/part.ts')).mailgunPart),
  listed(async () => (await import('../compat/part.ts')).resendPart),
]

export const PARTS: readonly ListedPart[] = [...CORE, ...OPTIONAL]

export const loadParts = (parts: readonly ListedPart[] = PARTS): Promise<ServerPart<AppDeps>[]> =>
  Promise.all(parts.map(({ load }) => load()))

/** The checks of this server, in the order of the parts. */
export const findersOf = (parts: readonly ServerPart<AppDeps>[]): Finder[] =>
  parts.flatMap(({ findings = [] }) => findings)

/** The receiver of the part that has one. */
export const reportsOf = (parts: readonly ServerPart<AppDeps>[], deps: PartDeps): ReportReceiver =>
  parts.find(({ reports }) => reports)?.reports?.(deps) ?? NO_REPORTS

/** The gate of the part that has one. */
export const gateOf = (parts: readonly ServerPart<AppDeps>[], deps: PartDeps): DeliveryGate =>
  parts.find(({ gate }) => gate)?.gate?.(deps) ?? OPEN_GATE
