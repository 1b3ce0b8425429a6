// How a target of "backup.to" is called in rows, metrics and sentences: without what may be secret.

/** The titles of targets, in their order; each once. */
export function titlesOf(targets: readonly string[]): string[] {
  const titles: string[] = []
  for (const target of targets) {
    const plain = plainTitle(target)
    let title = plain
    for (let n = 2; titles.includes(title); n++) title = `${plain} (${n})`
    titles.push(title)
  }
  return titles
}

/** Whether a target is a command that only takes: what it stored is listed, drilled and removed by itself. */
export const storesOnly = (target: string): boolean => target.startsWith('exec:') && !target.includes('{action}')

/** A URL without its parameters and its password; a command by its first word. */
function plainTitle(target: string): string {
  if (target.startsWith('exec:')) return target.trim().split(/\s/, 1)[0] ?? target
  return /^[a-z0-9+]+:\/\//i.test(target)
    ? target.replace(/\?.*$/s, '').replace(/^([a-z0-9+]+:\/\/[^/@:]*):[^/@]*@/i, '$1@')
    : target
}
