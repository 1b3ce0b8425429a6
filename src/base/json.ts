/** The value of a text that the database holds as JSON; undefined where damage left no JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
