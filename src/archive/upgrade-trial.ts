// What a version that is tried (upgrade-check.ts) says of a copy of an installation, on its stdout: the check of an
// older version reads it.
import { isObject } from '../base/json.ts'

export interface Trial {
  version: string
  from: number
  schema: number
  /** How long the upgrade took. */
  seconds: number
  faults: string[]
  /** The reads of the API that were not answered as they should be. */
  failed: string[]
  /** Its list of changes, the newest version first. */
  releases: ChangesOf[]
}

export interface ChangesOf {
  version: string
  changes: string[]
}

/** More than this is not shown of a list of changes. */
const MOST = 200

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')

export function isTrial(value: unknown): value is Trial {
  return (
    isObject(value) &&
    typeof value['version'] === 'string' &&
    ['from', 'schema', 'seconds'].every((name) => typeof value[name] === 'number') &&
    isTexts(value['faults']) &&
    isTexts(value['failed']) &&
    Array.isArray(value['releases']) &&
    value['releases'].every((each) => isObject(each) && typeof each['version'] === 'string' && isTexts(each['changes']))
  )
}

/** The releases in a list of changes in Markdown ("## 1.2.3 (2026-12-31)", "- a change"). */
export function releasesIn(changelog: string): ChangesOf[] {
  return changelog
    .split(/^## /m)
    .slice(1)
    .map((section) => ({
      version: section.split(/\s/, 1)[0] ?? '',
      changes: [...section.matchAll(/^- (.*(?:\n {2}.*)*)/gm)].map(([, change = '']) =>
        change.replace(/\s*\n\s*/g, ' '),
      ),
    }))
}

/** The changes of versions after one, each with its version. */
export function newerThan(than: string, releases: readonly ChangesOf[]): string[] {
  const number = (text: string): number =>
    text.split('.').reduce((sum, part) => sum * 1000 + Math.min(999, Number(part) || 0), 0)
  const all = releases
    .filter((each) => number(each.version) > number(than))
    .flatMap(({ changes, version }) => changes.map((change) => `${version}: ${change}`))
  return all.length <= MOST ? all : [...all.slice(0, MOST), `and ${all.length - MOST} more, in its list of changes`]
}
