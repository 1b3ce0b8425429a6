/** The value of a JSON text from the database, or undefined if the text is corrupt and no longer JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether a value that was read from JSON is an object, and neither null nor a list. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The texts of a JSON list, as stored in the database. Throws a SyntaxError or TypeError for other values. */
export function textsOf(json: string): string[] {
  const list: unknown = JSON.parse(json)
  if (Array.isArray(list) && list.every((each) => typeof each === 'string')) return list
  throw new TypeError('The JSON is not a list of strings.')
}
