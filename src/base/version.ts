// The version of this program, the same as in package.json (a test checks it), its commit and its list of changes.
import { readFileSync } from 'node:fs'

export const version = '0.3.0'

declare const POSTRIDER_CHANGELOG: string | undefined
declare const POSTRIDER_COMMIT: string | undefined

/** The commit that an executable was built from; null when it runs from its sources. */
export const commit: string | null = typeof POSTRIDER_COMMIT === 'string' ? POSTRIDER_COMMIT : null

/** The list of changes, CHANGELOG.md. */
export const changelog = (): string =>
  typeof POSTRIDER_CHANGELOG === 'string'
    ? POSTRIDER_CHANGELOG
    : readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8')
