// Detects a clock that jumped ahead (D120). The server writes the time into a small file in the data directory every
// minute, and compares it with the clock at the next start.
import { span } from './text.ts'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DAY, iso, MINUTE } from './clock.ts'
import { readNoted, replacePlain } from './plain-file.ts'

export const SIGN_FILE = 'last-seen'

/** A start this long after the last recorded time is reported. Deletions are postponed until the date is accepted. */
export const GAP = DAY
/** The date is accepted after this time, unless the clock is set back. */
export const BELIEVED_AFTER = DAY
/** systemd-timesyncd touches this file whenever it sets the clock from a time server. */
export const TIME_MARKER = '/run/systemd/timesync/synchronized'

export interface Sign {
  /** The last time that the server ran, in ms since the epoch. */
  seen: number
  /** Since when the date is doubted, and when the server ran before that, or null if the date is accepted. */
  doubted: { since: number; before: number } | null
}

/** Reads the file in a data directory, or undefined if it is missing or unreadable. */
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

/** Writes the file. If the disk rejects it, the older one stays: the next start then doubts the date needlessly. */
export function writeSign(dataDir: string, { doubted, seen }: Sign): void {
  const file = join(dataDir, SIGN_FILE)
  const state = doubted && { doubted_since: iso(doubted.since), before_at: iso(doubted.before) }
  try {
    replacePlain(file, `${JSON.stringify({ seen_at: iso(seen), ...state })}\n`, { lasting: false })
  } catch {
    // The older file is good enough.
  }
}

/** Whether the system’s marker file shows that a time server set the clock after the server last ran. */
export function isSynchronised(marker: string | undefined, { before }: { before: number }, now: number): boolean {
  if (marker === undefined) return false
  const at = statSync(marker, { throwIfNoEntry: false })?.mtimeMs ?? 0
  return at > before && at <= now + MINUTE
}

/** The sentence about a doubted date in /health, the log and `postrider doctor`. */
export const sentenceOf = ({ before, since }: NonNullable<Sign['doubted']>): string =>
  `The clock is ${span(since - before)} ahead of the last time the server ran. Until the date is accepted, Postrider deletes no expired data and starts no scheduled campaigns.`
