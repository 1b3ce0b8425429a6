// The version of this program, the same as in package.json; a test checks it.
export const version = '0.3.0'

declare const POSTRIDER_COMMIT: string | undefined

/** The commit that an executable was built from; null when it runs from its sources. */
export const commit: string | null = typeof POSTRIDER_COMMIT === 'string' ? POSTRIDER_COMMIT : null
