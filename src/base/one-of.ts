// A check for texts from outside against a list of the texts that a type allows.

/** Whether a text is one of a list; afterwards its type is that of the list. */
export const isOneOf = <Text extends string>(list: readonly Text[], text: string): text is Text =>
  list.some((each) => each === text)
