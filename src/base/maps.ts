// Helpers for maps: counting, and dropping the oldest entries.

/** Changes the count of a name, and returns it. A count of 0 is deleted. */
export function count<Name>(counts: Map<Name, number>, name: Name, by: number): number {
  const now = (counts.get(name) ?? 0) + by
  if (now === 0) counts.delete(name)
  else counts.set(name, now)
  return now
}

/** Drops the oldest entry of a map that holds more than `most`. */
export function keepNewest(kept: Map<unknown, unknown>, most: number): void {
  if (kept.size <= most) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
