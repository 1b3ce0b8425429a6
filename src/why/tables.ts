// All sources and all causes. Another subject is heard by one entry in each list.
import { MAIL_CAUSES } from './causes-mail.ts'
import { SENDER_CAUSES } from './causes-sender.ts'
import { SERVER_CAUSES } from './causes-server.ts'
import type { CauseEntry, EvidenceSource } from './evidence.ts'
import { MAIL_SOURCES } from './sources-mail.ts'
import { REPORT_SOURCES } from './sources-reports.ts'
import { SENDER_SOURCES } from './sources-sender.ts'
import { SERVER_SOURCES } from './sources-server.ts'

export const SOURCES: readonly EvidenceSource[] = [
  ...MAIL_SOURCES,
  ...SENDER_SOURCES,
  ...SERVER_SOURCES,
  ...REPORT_SOURCES,
]

export const CAUSES: readonly CauseEntry[] = [...MAIL_CAUSES, ...SENDER_CAUSES, ...SERVER_CAUSES]
