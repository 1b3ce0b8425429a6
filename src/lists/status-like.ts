// Columns that look like a subscription status but are not in the table of titles (words.ts): an import that kept them
// as a custom field would resubscribe unsubscribed contacts. The table cannot cover every system, so such a column
// stops the import until it is mapped (D225).
import { forTerminal } from '../base/clean-text.ts'
import type { Standing } from '../campaigns/import-with-status.ts'
import { leavesOrJoins, plain, standingOf, standingsOf, yesOrNo } from './words.ts'

/** Titles about a status, if all cells are status values. */
const STATE = /status|^(?:is)?(?:active|enabled|aktiv)$/
/** "Status" in other languages: its values cannot all be known, so such a column always has to be mapped. */
const FOREIGN_STATE =
  /^(?:estado|estatus|situacao|situazione|situation|stato|statut|stan|stav|statusz|allapot|durum|tila|zustand|статус|состояние)$/
/** Last words of titles that describe a subscription but not its status. */
const DESCRIBES =
  /(?:^|[\s_.-])(?:plan|tier|level|id|ip|source|url|link|reason|campaign|title|count|price|name|names|language|note|notes|comment|score|rate)\W*$|(?:grund|quelle|preis|anzahl)\W*$/i
/** Titles about other channels. */
const ELSEWHERE = /(?:^|[\s_.-])(?:sms|whatsapp|phone|telephone|mobile|push)(?:[\s_.-]|$)/i
/** Longer cells are texts. */
const MAX_CELL = 60
/** Values with other meanings in columns that are not about email. */
const VAGUE = new Set(
  `active enabled confirmed express explicit implied regular aktiv transactional cancelled canceled removed blocked
  disabled suppressed banned gesperrt blockiert cleaned spam junk abuse undeliverable bounce`.split(/\s+/),
)

/** Whether a status value has no other meaning, such as "unsubscribed". */
export const isPlainStatus = (cell: string): boolean =>
  cell.length <= MAX_CELL && standingOf(cell) !== undefined && !VAGUE.has(plain(cell))

interface LikelyStatus {
  index: number
  title: string
  about: 'left' | 'joined' | 'state' | undefined
  /** The meanings of its cells so far. `other` is a cell without a status value. */
  standings: Set<Standing>
  flags: boolean
  other: boolean
  found: boolean
}

/** Returns the kind of status that a title suggests, or undefined. */
function aboutIn(title: string): LikelyStatus['about'] {
  if (DESCRIBES.test(title) || ELSEWHERE.test(title)) return undefined
  const word = plain(title)
  return leavesOrJoins(title) ?? (STATE.test(word) || FOREIGN_STATE.test(word) ? 'state' : undefined)
}

/** Whether a title alone can stop an import. */
export const looksLikeStatus = (title: string): boolean => aboutIn(title) !== undefined

export class StatusLike {
  readonly #open: LikelyStatus[]

  /** `open`: the columns without a chosen use. `known`: whether the list has a known status column. */
  constructor(titles: readonly string[], open: readonly number[], known: boolean) {
    this.#open = open
      .map((index) => ({ index, title: titles[index]! }))
      // In exports of Substack this is the paid subscription. The status is in email_disabled.
      .filter(({ title }) => title !== '' && !(known && plain(title) === 'activesubscription'))
      .map(({ index, title }) => ({
        index,
        title,
        about: aboutIn(title),
        standings: new Set<Standing>(),
        flags: false,
        other: false,
        found: standingsOf([title], '').columns.length > 0,
      }))
  }

  see(record: readonly string[]): void {
    for (const column of this.#open) if (!column.found) look(column, (record[column.index] ?? '').trim())
  }

  /** The columns that look like a status. */
  get found(): { index: number; title: string }[] {
    return this.#open.filter(({ about, found, flags, other, standings }) => {
      if (found || other) return found
      return about === 'state' ? flags || standings.size > 0 : standings.size > 1
    })
  }
}

function look(column: LikelyStatus, cell: string): void {
  if (cell === '') return
  const standing = cell.length <= MAX_CELL ? standingOf(cell) : undefined
  const flag = cell.length <= MAX_CELL && yesOrNo(cell) !== undefined
  if (standing) column.standings.add(standing)
  column.flags ||= flag
  column.other ||= !standing && !flag
  column.found =
    isPlainStatus(cell) ||
    FOREIGN_STATE.test(plain(column.title)) ||
    (column.about === 'left' && cell.length <= MAX_CELL) ||
    (column.about === 'joined' && (flag || standing !== undefined || /status/i.test(column.title)))
}

/** Lists the columns for a sentence. */
export const quotedTitles = (columns: readonly { title: string }[]): string =>
  columns.map(({ title }) => `"${forTerminal(title).slice(0, MAX_CELL)}"`).join(' and ')
