// The interface that each kind of backup destination implements.
import type { LookupFunction } from 'node:net'
import type { Clock } from '../../base/clock.ts'

export interface StoredObject {
  name: string
  /** In bytes. */
  size: number
}

/** Implemented by each kind of destination. All methods throw a DestinationFault. */
export interface Backend {
  /** The target as configured, without secrets. */
  readonly title: string
  /**
   * Stores the stream under this name and replaces an object of this name. The object is durable when this returns. If
   * the stream fails, no object is stored, except by a command whose server mistakes the end of its input for the end
   * of the stream.
   */
  put(name: string, bytes: AsyncIterable<Uint8Array>): Promise<void>
  /** All objects, in any order. Files of other programs may be among them. */
  list(): AsyncIterable<StoredObject>
  /** The size of an object, or undefined if it does not exist. */
  sizeOf(name: string): Promise<number | undefined>
  get(name: string): AsyncIterable<Uint8Array>
  remove(name: string): Promise<void>
  close(): Promise<void>
}

export interface DestinationDeps {
  clock: Clock
  /** Certificate authorities (PEM) that are trusted in addition to the well-known ones. */
  authorities?: () => string | undefined
  /** Resolves host names. Default: the system's resolver. */
  lookup?: LookupFunction
  /** How long no data may be transferred, in ms. Default: a minute for a server, an hour for a command. */
  patience?: number
}
