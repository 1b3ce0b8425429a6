// The dependencies of the HTTP application: those of every resource, and those of single subjects.
import type { StoredDeps } from '../inbound/stored.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { DomainParts } from '../domains/api.ts'
import type { MailParts } from '../mail/api.ts'
import type { DeliveryGate } from '../parts/gate.ts'
import type { PartDeps, ServerPart } from '../parts/part.ts'
import type { Samples } from './samples.ts'
import type { StateParts } from '../checks/api.ts'
import type { SettingsParts } from '../checks/api-settings.ts'
import type { UserParts } from '../users/parts.ts'
import type { TokenRequests } from '../users/requests.ts'

export interface AppDeps
  extends
    ApiDeps,
    UserParts,
    MailParts,
    Pick<StoredDeps, 'inboundReader'>,
    Pick<DomainParts, 'followers'>,
    SettingsParts {
  operations: (DomainParts & StateParts)['operations']
  samples: Samples
  requests: TokenRequests
  gate: DeliveryGate
  partDeps: PartDeps
  /** The parts of this server (server/parts.ts). */
  subjects: readonly ServerPart<AppDeps>[]
  /** Settings that were changed by a reload and need a restart, such as "smtp.listen". */
  restart: ReadonlySet<string>
}
