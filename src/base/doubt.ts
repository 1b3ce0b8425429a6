// Whether the date of this machine is believed (D120), and the sign of life that the next start compares it with. The
// sign is a small file in the data directory, written every minute.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DAY, iso, MINUTE } from './clock.ts'
import { readNoted, replacePlain } from './plain-file.ts'

export const SIGN_FILE = 'last-seen'

/** A start this long after the last sign of life says so, and ends nothing until the date is believed. */
export const GAP = DAY
/** After this time without being set back the date is believed. */
export const BELIEVED_AFTER = DAY
/** systemd-timesyncd touches it each time that a time server has set the clock. */
export const TIME_MARKER = '/run/systemd/timesync/synchronized'

export interface Sign {
  /** The last sign of life; ms since the epoch. */
  seen: number
  /** Since when the date is doubted, and the sign of life before that; null: it is believed. */
  doubted: { since: number; before: number } | null
}

/** The sign of life in a data directory; undefined when there is none that can be read. */
export function readSign(dataDir: string): Sign | undefined {
  try {
    const { before_at, doubted_since, seen_at } = JSON.parse(readNoted(join(dataDir, SIGN_FILE)).toString()) as Record<
      string,
      string | undefined
    >
    const [seen = NaN, since = NaN, before = NaN] = [seen_at, doubted_since, before_at].map((text) =>
      Date.parse(text ?? ''),
    )
    if (!Number.isFinite(seen)) return undefined
    const doubted = Number.isFinite(since) && Number.isFinite(before) ? { since, before } : null
    return { seen, doubted }
  } catch {
    return undefined
  }
}

/** Writes the sign of life. A disk that takes no file keeps the older one: the next start then only doubts too much. */
export function writeSign(dataDir: string, { doubted, seen }: Sign): void {
  const file = join(dataDir, SIGN_FILE)
  const said = doubted && { doubted_since: iso(doubted.since), before_at: iso(doubted.before) }
  try {
    replacePlain(file, `${JSON.stringify({ seen_at: iso(seen), ...said })}\n`, { lasting: false })
  } catch {
    // See above.
  }
}

/** Whether a time server has set the date after the last sign of life, as a marker file of the system says. */
export function isSynchronised(marker: string | undefined, { before }: { before: number }, now: number): boolean {
  if (marker === undefined) return false
  const at = statSync(marker, { throwIfNoEntry: false })?.mtimeMs ?? 0
  return at > before && at <= now + MINUTE
}

/** How long a span of ms is, for people: days, or hours. */
export const shownSpan = (ms: number): string =>
  ms >= 2 * DAY ? `${Math.round(ms / DAY)} days` : `${Math.round(ms / (60 * MINUTE))} hours`

/** What is said of a doubted date in /health, the log and `postrider doctor`. */
export const sentenceOf = ({ before, since }: NonNullable<Sign['doubted']>): string =>
  `The date of this machine is ${shownSpan(since - before)} after the last sign of life: nothing is deleted for its age, and no scheduled campaign begins, until the date is believed.`
