// What a kind of place implements; place.ts makes a BackupPlace of it.
import type { LookupFunction } from 'node:net'
import type { Clock } from '../../base/clock.ts'

export interface BackupObject {
  name: string
  /** In octets. */
  size: number
  /** When it was written, in ms; undefined when the place does not say. */
  at: number | undefined
}

/** Names are checked before they come here (`OBJECT_NAME`). Everything throws a PlaceFault. */
export interface Backend {
  /** The target as it is configured, without secrets. */
  readonly title: string
  /** Whether it has only `put`: the rest is the affair of a command. */
  readonly writesOnly?: true
  /** Whether an upload that a kill ended leaves a part (`partName`), which is removed after a day. */
  readonly leavesParts?: true
  /** Stores the whole stream under this name, durably and at once, or nothing. */
  put(name: string, octets: AsyncIterable<Uint8Array>): Promise<void>
  /** Everything that lies there under names that may be ours, unfinished parts included, in any order. */
  entries(): AsyncIterable<BackupObject>
  head(name: string): Promise<BackupObject | undefined>
  get(name: string, from: number): AsyncIterable<Uint8Array>
  /** Succeeds too where there is none. */
  remove(name: string): Promise<void>
  close(): Promise<void>
}

export interface PlaceDeps {
  clock: Clock
  /** Certificate authorities (PEM) that are trusted beside the well-known ones. */
  authorities?: () => string | undefined
  /** Finds the addresses of hosts; the system's way when absent. */
  lookup?: LookupFunction
  /** How long a server may stand still, in ms; a minute when absent. */
  patience?: number
}

/** Names of objects. A name that begins with a dot is an unfinished one of a place without another way. */
export const OBJECT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/

/** The name of an upload that is under way, where a place shows what is not finished. */
export const partName = (name: string): string => `.${name}.part`
/** How the names of all backups begin: others may keep files at the same place. */
export const OURS = 'postrider-'
/** Whether a name is one of an upload of ours that did not end. */
export const isPart = (name: string): boolean => name.startsWith(`.${OURS}`) && name.endsWith('.part')
