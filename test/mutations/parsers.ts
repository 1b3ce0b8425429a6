// Every parser of octets that strangers write, as one call each: what it is given to begin with, and what it may throw.
// test/house/parsers.test.ts holds that none is missing.
import { ANSWERED } from './answers.ts'
import { BACKUPS } from './backups.ts'
import { COMPAT } from './compat.ts'
import { KEPT } from './kept.ts'
import { LISTS } from './lists.ts'
import { MAIL } from './mail.ts'
import { PAGES } from './pages.ts'
import type { Parser } from './parser.ts'
import { PICTURE } from './pictures.ts'
import { RELEASES } from './releases.ts'
import { REPORTS } from './reports.ts'
import { REQUESTS } from './requests.ts'
import { SUBMITTED } from './submitted.ts'

export const PARSERS: Record<string, Parser> = {
  ...MAIL,
  ...SUBMITTED,
  ...PAGES,
  ...ANSWERED,
  ...REQUESTS,
  ...COMPAT,
  ...LISTS,
  ...PICTURE,
  ...REPORTS,
  ...RELEASES,
  ...BACKUPS,
  ...KEPT,
}
