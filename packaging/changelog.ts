// Converts CHANGELOG.md to a Debian changelog.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './node.ts'

export interface Release {
  version: string
  /** "2026-11-22" */
  date: string
  changes: string[]
}

/** Returns the releases, newest first. Throws unless the first one has this version. */
export function readChangelog(version: string, text = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')): Release[] {
  const releases = text
    .split(/^## /m)
    .slice(1)
    .map((section): Release => {
      const heading = /^(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)\n/.exec(section)
      if (!heading) throw new Error(`CHANGELOG.md: "## ${section.split('\n')[0]}" is not "## 1.2.3 (2026-12-31)"`)
      const changes = [...section.matchAll(/^- (.*(?:\n {2}.*)*)/gm)].map(([, change]) =>
        change!.replace(/\s*\n\s*/g, ' '),
      )
      return { version: heading[1]!, date: heading[2]!, changes }
    })
  if (releases[0]?.version !== version)
    throw new Error(`CHANGELOG.md begins with ${releases[0]?.version ?? 'no version'}, but the version is ${version}`)
  return releases
}

/** Wraps a change to 80 columns, with "  * " before the first line. */
function wrapped(change: string): string {
  const lines = ['']
  for (const word of change.replaceAll('`', '').split(' '))
    if (`${lines.at(-1)} ${word}`.length > 75) lines.push(word)
    else lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim()
  return `  * ${lines.join('\n    ')}\n`
}

export const debianChangelog = (releases: readonly Release[], maintainer: string): string =>
  releases
    .map(({ version, date, changes }) => {
      const day = new Date(`${date}T12:00:00Z`).toUTCString().replace('GMT', '+0000')
      return `postrider (${version}) stable; urgency=medium\n\n${changes.map(wrapped).join('')}\n -- ${maintainer}  ${day}\n`
    })
    .join('\n')
