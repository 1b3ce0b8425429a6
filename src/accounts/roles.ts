// The roles of people in words: what each may do.

/** The roles that can be given, each with what it may do. */
export const ROLES = [
  ['operator', 'Operator', 'Sees and changes everything: every account, the people, the queue and the server.'],
  ['owner', 'Account owner', 'Has an account of their own with domains, mail and newsletters. Sees no other account.'],
  ['reader', 'Reader', 'Looks at one account and changes nothing in it. Sees neither tokens nor privacy requests.'],
] as const

/** A role in a few words. */
export const roleInWords = (operator: boolean, reads: string | null): string =>
  operator ? 'Operator' : reads === null ? 'Account owner' : `Reader of ${reads}`
