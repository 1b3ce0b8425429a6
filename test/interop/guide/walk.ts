// A reader at a machine: types what the README says, and publishes the records that are printed.

import { basename } from 'node:path'
import { HOME } from './machine.ts'
import { SERVER } from './network.ts'
import type { Package } from './package.ts'
import { commandsOf } from './documents.ts'
import type { Server } from './server.ts'
import type { World } from './world.ts'

/** The section that leads from a bare server to the first mail. */
export const SECTION = 'Production in ten minutes'
export const HOST = 'mx.example.org'
export const USER = 'you@example.org'

/** Lines of a zone file in what a command printed. */
export const zoneLines = (printed: string): string[] =>
  printed.split('\n').filter((line) => /^\S+\. \d+ IN (?:TXT|MX|CNAME) /.test(line))

/**
 * The records of the domain as they were printed, and what the reader knows of the server: its name and its address.
 */
export async function publish({ names }: World, lines: readonly string[], host = HOST): Promise<void> {
  const reverse = SERVER.split('.').toReversed().join('.')
  await names.publish('server', [`${host}. IN A ${SERVER}`, `${reverse}.in-addr.arpa. IN PTR ${host}.`])
  await names.publish('domain', lines)
}

export interface Step {
  command: string
  seconds: number
  printed: string
}

/** Puts a package where scp leaves it, in the place of those from before. */
export async function bring({ machine }: Server, { file }: Package): Promise<void> {
  await machine.must('rm -f postrider_*.deb')
  machine.copyIn(file, `${HOME}/${basename(file)}`)
}

/**
 * Types the commands of a section, one after the other, and publishes the records that are printed; throws at the first
 * command that fails. Each is told as it ends.
 */
export async function follow(
  { machine }: Server,
  world: World,
  section: string,
  tell: (line: string) => void,
  host = HOST,
): Promise<Step[]> {
  const steps: Step[] = []
  for (const command of commandsOf(section)) {
    const began = performance.now()
    const printed = await machine.must(command, { timeout: 240 })
    const seconds = (performance.now() - began) / 1000
    steps.push({ command, seconds, printed })
    tell(`${seconds.toFixed(1).padStart(5)} s  # ${command}`)
    const lines = zoneLines(printed)
    if (lines.length > 0) await publish(world, lines, host)
  }
  return steps
}
