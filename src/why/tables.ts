// All sources and all causes. Another subject is heard by one entry in each list.
import { MAIL_CAUSES } from './causes-mail.ts'
import { SENDER_CAUSES } from './causes-sender.ts'
import type { CauseEntry, EvidenceSource } from './evidence.ts'
import { MAIL_SOURCES } from './sources-mail.ts'
import { SENDER_SOURCES } from './sources-sender.ts'

export const SOURCES: readonly EvidenceSource[] = [...MAIL_SOURCES, ...SENDER_SOURCES]

export const CAUSES: readonly CauseEntry[] = [...MAIL_CAUSES, ...SENDER_CAUSES]
