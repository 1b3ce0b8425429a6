// The version of Postrider, the same as in package.json (a test checks it), and its commit.

export const version = '0.3.0'

declare const POSTRIDER_COMMIT: string | undefined

/** The commit that an executable was built from, or null if it runs from its sources. */
export const commit: string | null = typeof POSTRIDER_COMMIT === 'string' ? POSTRIDER_COMMIT : null
