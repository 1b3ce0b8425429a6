// serving.json in the data directory: the machine that serves it. A copy of the directory that starts elsewhere would
// send every queued email once more, so the queue of such a start is held until `postrider adopt` (D209). Only an
// administrator, or a fencing system, knows whether the former server is off. A standby takes over instead, because its
// volume can be attached to one machine at a time (docs/high-availability.md).
import { createHmac } from 'node:crypto'
import { existsSync, realpathSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { iso, SECOND } from '../base/clock.ts'
import { inContainer } from '../base/container.ts'
import { codeOf, TryAgain } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { KEY_FILE } from '../base/keyring.ts'
import { overwritePlain, readNamed, readNoted, replacePlain } from '../base/plain-file.ts'

/** Where a data directory was served, and when that was written last (RFC 3339). */
export interface ServedPlace {
  machine: string
  directory: string
  time: string
}

export interface ServingNote extends ServedPlace {
  /** The boot of that machine, by /proc/sys/kernel/random/boot_id, or ''. */
  boot: string
  /** Rises each time that another machine takes over. */
  term: number
  /** The host name of that machine, and since when it has been serving (RFC 3339). */
  name: string
  since: string
  /** Digests of the settings that must be the same on both machines of a failover pair, by name. */
  settings?: Record<string, string>
  /** True once that server has stopped cleanly. */
  stopped?: boolean
  /** True after `postrider handover`: a standby of the same machine does not start before the volume has moved. */
  handed_over?: boolean
  /** The former server, until it is confirmed to be off. Until then, the queue is held. */
  held?: ServedPlace
}

/** Postrider does not start if another machine wrote this recently, because that one serves. */
export const FRESH = 20 * SECOND

export const HELD =
  'The queue is held, because this data was last served elsewhere: when that server is off, run "postrider adopt".'
const HELD_UNKNOWN =
  'The queue is held, because serving.json is corrupt: if no other server has this data, run "postrider adopt".'

/** Of the texts in the file, such as a host name. */
const MAX_NAME = 255

const fileIn = (dataDir: string): string => join(dataDir, 'serving.json')

const UNKNOWN: ServedPlace = { machine: 'unknown', directory: 'unknown', time: iso(0) }
/** In place of a file that cannot be read: any machine may have written it, so the queue is held. */
const UNREADABLE: ServingNote = { ...UNKNOWN, boot: '', term: 0, name: 'unknown', since: iso(0), held: UNKNOWN }

/** Whether this represents a file that cannot be read. */
export const isUnknown = ({ machine }: ServedPlace): boolean => machine === UNKNOWN.machine

/** Why the queue is held, for clients of /health: without paths. */
export const whyHeld = (from: ServedPlace): string => (isUnknown(from) ? HELD_UNKNOWN : HELD)

/** Why the queue is held, with the former server, as the end of a sentence. */
export const heldDetail = (from: ServedPlace): string =>
  isUnknown(from)
    ? 'serving.json is corrupt, so the server that used this data last is unknown'
    : `this data was last served elsewhere (${from.machine}, ${from.directory}, until ${from.time})`

/** The content of the file, or undefined if it is missing, UNREADABLE when it is corrupt or cannot be read. */
export function readServing(dataDir: string): ServingNote | undefined {
  try {
    const read: unknown = JSON.parse(readNoted(fileIn(dataDir)).toString())
    if (!isObject(read) || !isPlace(read)) return UNREADABLE
    const { boot, held, name, since, term } = read
    const isOurs =
      [boot, name, since].every((text) => typeof text === 'string' && text.length <= MAX_NAME) &&
      Number.isSafeInteger(term) &&
      (held === undefined || isPlace(held))
    return isOurs ? (read as unknown as ServingNote) : UNREADABLE
  } catch (thrown) {
    return codeOf(thrown) === 'ENOENT' ? undefined : UNREADABLE
  }
}

const isPlace = (read: unknown): boolean =>
  isObject(read) &&
  ['machine', 'directory', 'time'].every((key) => typeof read[key] === 'string') &&
  Number.isFinite(Date.parse(String(read['time'])))

/**
 * The content for a server that starts on this data directory now. `held` is set if another machine, or another
 * existing directory, was served last. `takesOver`: this is the standby of a failover pair, which holds no queue when
 * the volume comes from the other machine.
 */
export function servingHere(dataDir: string, now: number, { takesOver = false } = {}): ServingNote {
  const found = readServing(dataDir)
  const time = iso(now)
  const self = { machine: machineOf(dataDir), directory: realpathSync(dataDir), boot: bootOf(), time, name: hostname() }
  if (!found) return { ...self, term: 1, since: time }
  if (takesOver && isOther(found, self) && !found.held) return { ...self, term: found.term + 1, since: time }
  const { directory, machine, since, term } = found
  const held = found.held ?? (isElsewhere(found, self) ? { machine, directory, time: found.time } : undefined)
  return { ...self, term, since: found.machine === self.machine ? since : time, ...(held && { held }) }
}

/** The former server of a data directory whose queue is held, or undefined if it is not. */
export const heldSince = (dataDir: string): ServedPlace | undefined => servingHere(dataDir, 0).held

/** Throws TryAgain while another machine serves the data directory. */
export function demandServedHere(dataDir: string, now: number): void {
  const found = readServing(dataDir)
  if (!found || found.held || found.stopped || found.machine === machineOf(dataDir)) return
  if (Math.abs(now - Date.parse(found.time)) < FRESH) throw servedElsewhere(dataDir, found)
}

/** The error of a start while another machine serves. */
export const servedElsewhere = (dataDir: string, { name, time }: ServingNote): TryAgain =>
  new TryAgain(
    `Another server (${name}) used ${dataDir} at ${time}; stop that server, and start this one ${FRESH / SECOND} s later.`,
  )

/** Whether another machine wrote the file. */
const isOther = (found: ServingNote, { machine }: Pick<ServedPlace, 'machine'>): boolean =>
  found.machine !== machine && !isUnknown(found)

/** Whether another machine had the directory, or it is a copy of one that is still there. */
const isElsewhere = (found: ServedPlace, self: ServedPlace): boolean =>
  found.machine !== self.machine ||
  (found.directory !== self.directory &&
    existsSync(join(found.directory, KEY_FILE)) &&
    inodeOf(found.directory) !== inodeOf(self.directory))

/**
 * Confirms that the former server is off and releases the queue, or withdraws a handover. Returns where it was served
 * before, or undefined if there was neither. Throws the system's error.
 */
export function adopt(
  dataDir: string,
  now: number,
): { from: ServedPlace; term: number; withdrawn: boolean } | undefined {
  const found = readServing(dataDir)
  const { held, ...here } = servingHere(dataDir, now)
  const from = held ?? (found?.handed_over ? found : undefined)
  if (!from) return undefined
  const term = here.term + 1
  // A server that runs here has named itself, and goes on under that name.
  const { boot, directory, machine, name } = found && !isElsewhere(found, here) ? found : here
  replacePlain(fileIn(dataDir), textOf({ ...here, machine, directory, boot, name, term }))
  return { from, term, withdrawn: !held }
}

/** Writes the file durably, in place of another one. Throws the system's error. */
export const beginServing = (dataDir: string, serving: ServingNote): void =>
  replacePlain(fileIn(dataDir), textOf(serving))

/** Writes the file of this server again, durably, over its own bytes: so that a full disk does not prevent it. */
export async function goOnServing(dataDir: string, serving: ServingNote): Promise<void> {
  try {
    await overwritePlain(fileIn(dataDir), textOf(serving))
  } catch (thrown) {
    if (codeOf(thrown) !== 'ENOENT') throw thrown
    beginServing(dataDir, serving)
  }
}

const SECTOR = 512

/** Padded, so that the same server always writes the same number of bytes. */
function textOf(serving: ServingNote): string {
  const text = JSON.stringify(serving)
  return `${text}${' '.repeat(SECTOR - 1 - (Buffer.byteLength(text) % SECTOR))}\n`
}

const inodeOf = (path: string): string => {
  const { dev, ino } = statSync(path, { bigint: true })
  return `${dev}:${ino}`
}

/**
 * The name of this machine in the file: its machine-id, hashed as machine-id(5) requires. A container's machine-id is
 * temporary or that of its image. So in a container, and without a machine-id, it is the volume: the inode and the
 * birth time of the data directory. They change in a copy, but stay the same for a new container on the same volume.
 */
export function machineOf(dataDir: string, container = inContainer()): string {
  const id = container ? undefined : machineId()
  if (id !== undefined) return `machine:${createHmac('sha256', id).update('postrider').digest('hex').slice(0, 32)}`
  const { birthtimeNs, ino } = statSync(dataDir, { bigint: true })
  return `volume:${ino}-${birthtimeNs}`
}

function machineId(): string | undefined {
  const id = lineOf('/etc/machine-id')
  return /^[0-9a-f]{32}$/.test(id) && !/^0+$/.test(id) ? id : undefined
}

/** Identifies the present boot of this machine, or ''. */
export const bootOf = (): string => lineOf('/proc/sys/kernel/random/boot_id')

function lineOf(file: string): string {
  try {
    return readNamed(file).toString().trim()
  } catch {
    return ''
  }
}
