// Durations ("5m") and sizes ("40MB") as people write them in the configuration.
import { DAY, HOUR, MINUTE, SECOND } from './clock.ts'

const DURATIONS: Record<string, number> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY }
const SIZES: Record<string, number> = { '': 1, B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 }

/** Milliseconds of "250ms", "5s", "5m", "2h", "5d" or "0"; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text.trim()) ?? []
  if (amount !== undefined && unit !== undefined) return Number(amount) * DURATIONS[unit]!
  return text.trim() === '0' ? 0 : undefined
}

/** Bytes of "512", "64KB", "40MB", "1GB" (powers of 1024); undefined for anything else. */
export function parseSize(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,9})\s*(B|KB|MB|GB|)$/i.exec(text.trim()) ?? []
  return amount === undefined ? undefined : Number(amount) * SIZES[unit!.toUpperCase()]!
}
