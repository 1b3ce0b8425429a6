// What the whole HTTP application works with: what every resource may use, and what single subjects need besides.
import type { StoredDeps } from '../inbound/stored.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { DomainParts } from '../domains/api.ts'
import type { MailParts } from '../mail/api.ts'
import type { ReportParts } from '../reports/api.ts'
import type { Samples } from './samples.ts'
import type { StateParts } from '../checks/api.ts'

export interface AppDeps extends ApiDeps, MailParts, Pick<StoredDeps, 'inboundReader'>, Pick<DomainParts, 'followers'> {
  operations: (DomainParts & ReportParts & StateParts)['operations']
  samples: Samples
}
