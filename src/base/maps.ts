// What maps of counts and of remembered things do: count up and down, and forget the oldest.

/** Changes the count of a name, and returns it; a count of 0 is not kept. */
export function count<Name>(counts: Map<Name, number>, name: Name, by: number): number {
  const now = (counts.get(name) ?? 0) + by
  if (now === 0) counts.delete(name)
  else counts.set(name, now)
  return now
}

/** Forgets what has been in a map for longest when it holds more than `most`. */
export function keepNewest(kept: Map<unknown, unknown>, most: number): void {
  if (kept.size <= most) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
