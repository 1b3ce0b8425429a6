// Simulates a reader: types the commands of a document, and publishes the printed records.

import assert from 'node:assert/strict'
import { basename } from 'node:path'
import { until } from '../rig/sandbox.ts'
import { commandsOf, WALKED, type Section } from './documents.ts'
import { HOME } from './machine.ts'
import { SERVER } from './network.ts'
import type { Package } from './package.ts'
import type { Server } from './server.ts'
import { ALL_PASS, judged, PROVIDER_DOMAIN, type World } from './world.ts'

/** The section that leads from a bare server to the first mail. */
export const SECTION = 'Production in ten minutes'
export const HOST = 'mx.example.org'
export const USER = 'you@example.org'

/** Lines of a zone file in what a command printed. */
export const zoneLines = (printed: string): string[] =>
  printed.split('\n').filter((line) => /^\S+\. \d+ IN (?:TXT|MX|CNAME) /.test(line))

/** The records of the domain that a reader has published, by the name server. */
const zones = new WeakMap<World['names'], readonly string[]>()
export const published = ({ names }: World): readonly string[] => zones.get(names) ?? []

/** The owner and the type of a line: what a reader changes instead of adding a second one. */
const slotOf = (line: string): string =>
  line
    .split(' ', 4)
    .filter((_, at) => at !== 1)
    .join(' ')

/**
 * Publishes the lines that were printed, each in place of the one of its name and type, and what the reader knows of
 * the server: its name and its address.
 */
export async function publish(world: World, lines: readonly string[], host = HOST): Promise<void> {
  const slots = new Set(lines.map(slotOf))
  await publishZone(world, [...published(world).filter((line) => !slots.has(slotOf(line))), ...lines], host)
}

/** Publishes exactly these records of the domain. */
export async function publishZone(world: World, lines: readonly string[], host = HOST): Promise<void> {
  const { names } = world
  const reverse = SERVER.split('.').toReversed().join('.')
  await names.publish('server', [`${host}. IN A ${SERVER}`, `${reverse}.in-addr.arpa. IN PTR ${host}.`])
  await names.publish('domain', lines)
  zones.set(names, lines)
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

/** Where commands are typed. */
export interface Typist {
  must: (command: string, options?: { timeout: number }) => Promise<string>
}

export interface Manner {
  /** The name of the server. */
  host?: string
  /** Placeholders of the documents, and what stands in their place here. All else is typed as it is written. */
  instead?: Readonly<Record<string, string>>
  /** Commands that are left out because others did their work, as they are written. */
  without?: readonly string[]
  /** What the reader waits for after a command. */
  wait?: (command: string) => Promise<void>
}

/** A token in what a command printed. */
const TOKEN = /\bpr_[\w-]{20,}/

const walked = new Set<Section>()

/**
 * Types the commands of a section, one after the other, and publishes the records that are printed; throws at the first
 * command that fails. Each is told as it ends.
 */
export async function follow(
  typist: Typist,
  world: World,
  section: Section,
  tell: (line: string) => void,
  { host = HOST, instead = {}, without = [], wait }: Manner = {},
): Promise<Step[]> {
  walked.add(section)
  const written = commandsOf(section)
  for (const text of [...Object.keys(instead), ...without])
    if (!written.some((command) => command.includes(text))) throw new Error(`"${section}" has no "${text}"`)
  const steps: Step[] = []
  for (const [text, other] of Object.entries(instead)) tell(`in place of ${text}: ${other}`)
  for (const each of written.filter((command) => !without.includes(command))) {
    const command = Object.entries(instead).reduce((line, [text, other]) => line.replaceAll(text, other), each)
    const began = performance.now()
    const printed = await typist.must(command, { timeout: 240 })
    const seconds = (performance.now() - began) / 1000
    steps.push({ command, seconds, printed })
    tell(`${seconds.toFixed(1).padStart(5)} s  # ${command}`)
    await wait?.(command)
    const lines = zoneLines(printed)
    if (lines.length > 0) await publish(world, lines, host)
  }
  return steps
}

/** The commands of the README that follow an installation, whatever way that was made. */
export const afterInstallation = ({ machine }: Server, world: World, tell: (line: string) => void): Promise<Step[]> =>
  follow(machine, world, SECTION, tell, { without: ['apt install -y ./postrider_*.deb'] })

/** Throws when a section that WALKED says a test file types was not typed. */
export function demandWalked(file: string): void {
  const promised: readonly Section[] = WALKED[basename(file) as keyof typeof WALKED]
  assert.deepEqual(
    promised.filter((section) => !walked.has(section)),
    [],
  )
}

/**
 * A mail sent over the API with the token that a walk made: what the API says became of it, and what its receiver makes
 * of it.
 */
export async function firstMail(server: Server, world: World, steps: readonly Step[]): Promise<void> {
  const printed = steps.find(({ command }) => command.includes('postrider token create'))?.printed ?? ''
  server.token = TOKEN.exec(printed)?.[0] ?? ''
  assert.notEqual(server.token, '', printed)
  const before = (await world.provider.maildir()).length
  const id = await server.post(`you@${PROVIDER_DOMAIN}`, 'By the API')
  let status = ''
  const delivered = async () => {
    status = (await server.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status
    return status === 'delivered'
  }
  await until(delivered, 30_000, () => `the mail is ${status}`)
  const letters = await world.provider.waitFor(before + 1)
  for (const letter of letters) assert.deepEqual(await judged(letter, world.names), ALL_PASS)
}
