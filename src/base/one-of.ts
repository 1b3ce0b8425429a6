// Texts from outside, checked against the texts that a type allows.

/** Whether a text is in a list. Afterwards its type is that of the list. */
export const isOneOf = <Text extends string>(list: readonly Text[], text: string): text is Text =>
  list.some((each) => each === text)

/** The names of a table whose type lists all of them. */
export const namesIn = <Name extends string>(table: Readonly<Record<Name, unknown>>): Name[] =>
  // Object.keys returns string[], because an object may have more names than its type.
  Object.keys(table) as Name[]

/** Whether a text is a name of a table. Inherited names such as "constructor" do not count. */
export const isNameIn = <Name extends string>(table: Readonly<Record<Name, unknown>>, text: string): text is Name =>
  Object.hasOwn(table, text)
