// A backup destination: a directory, an S3 bucket or a command, behind one interface. A stored object is complete or
// does not exist. Every failure is a DestinationFault.
import { createHash } from 'node:crypto'
import { isAbsolute } from 'node:path'
import { targetOf } from '../../base/backup-target.ts'
import { SECOND, type Clock } from '../../base/clock.ts'
import { authoritiesOf, type Config } from '../../base/config.ts'
import { counted } from '../../base/text.ts'
import { readAuthorities } from '../../base/tls.ts'
import type { Backend, DestinationDeps } from './backend.ts'
import { CommandBackend } from './command.ts'
import { DirectoryBackend } from './directory.ts'
import { DestinationFault } from './fault.ts'
import { openS3, type S3Options } from './s3-settings.ts'

export interface Destination extends Omit<Backend, 'put'> {
  /** As `put` of a backend. Verifies the stored size before it returns. */
  put(name: string, bytes: AsyncIterable<Uint8Array>): Promise<{ size: number; sha256: string }>
}

export interface DestinationOptions {
  s3?: S3Options | undefined
  /** Bytes per second. 0 or undefined means no limit. */
  bandwidth?: number | undefined
}

const OBJECT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/

/** Opens a target of "backup.to", without a request. Throws an OperatorError if a setting is wrong. */
export function openDestination(target: string, options: DestinationOptions, deps: DestinationDeps): Destination {
  const backend = backendOf(target, options, deps)
  const { bandwidth } = options
  const checked = (name: string): string => {
    if (!OBJECT_NAME.test(name)) throw new Error(`"${name}" is not the name of a backup.`)
    return name
  }
  return {
    title: backend.title,
    async put(name, bytes) {
      checked(name)
      const hash = createHash('sha256')
      let size = 0
      const measured = async function* (): AsyncIterable<Uint8Array> {
        for await (const piece of paced(bytes, bandwidth, deps.clock)) {
          hash.update(piece)
          size += piece.length
          yield piece
        }
      }
      await backend.put(name, measured())
      const stored = await backend.sizeOf(name)
      if (stored !== size)
        throw new DestinationFault(
          'damaged',
          backend.title,
          `${name} has ${stored === undefined ? 'no bytes' : counted(stored, 'byte')} instead of ${size}`,
        )
      return { size, sha256: hash.digest('hex') }
    },
    async *list() {
      for await (const found of backend.list()) if (OBJECT_NAME.test(found.name)) yield found
    },
    sizeOf: async (name) => backend.sizeOf(checked(name)),
    get: (name) => paced(backend.get(checked(name)), bandwidth, deps.clock),
    remove: async (name) => backend.remove(checked(name)),
    close: () => backend.close(),
  }
}

/** Opens a target with the settings of the configuration. */
export function destinationOf(
  config: Pick<Config, 'backup' | 'tls' | 'webhooks'>,
  target: string,
  clock: Clock,
): Destination {
  const files = authoritiesOf(config)
  return openDestination(target, config.backup, { clock, authorities: () => readAuthorities(files) })
}

function backendOf(text: string, { s3 = {} }: DestinationOptions, deps: DestinationDeps): Backend {
  const target = targetOf(text)
  if (target.kind === 'directory') return new DirectoryBackend(target.path, deps)
  return target.kind === 'command' ? new CommandBackend(target.words, deps) : openS3(text, target, s3, deps)
}

export const isDirectory = (target: string): boolean => isAbsolute(target)

/** Whether an argument of a command is a target instead of a path. */
export const isTarget = (text: string): boolean => /^(?:s3:\/\/|exec:)/.test(text)

/** Limits a stream to this number of bytes per second. */
async function* paced(
  bytes: AsyncIterable<Uint8Array>,
  bandwidth: number | undefined,
  clock: Clock,
): AsyncIterable<Uint8Array> {
  if (!bandwidth) return yield* bytes
  // Elapsed time, because the date can be set back.
  let free = clock.elapsed()
  for await (const piece of bytes) {
    const wait = free - clock.elapsed()
    if (wait > 0) await new Promise<void>((done) => clock.wake(clock.now() + wait, done))
    free = Math.max(free, clock.elapsed()) + (piece.length / bandwidth) * SECOND
    yield piece
  }
}
