// Functions of the C library, by node:ffi, and of V8: the only file that uses them. The module is experimental. A
// function that the system or the C library lacks is skipped, so callers must not depend on it.
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Parameters of mallopt(3), from malloc.h of glibc. */
const M_MMAP_THRESHOLD = -3
const M_ARENA_MAX = -8
/** An allocation of this many bytes or more is a mapping of its own, which ends when it is freed. */
const OWN_MAPPING = 256 * 1024

interface CLibrary {
  malloc_trim(pad: bigint): number
  mallopt(parameter: number, value: number): number
  _exit(status: number): never
}

/** The C library, or undefined if it lacks these functions. */
function cLibrary(): CLibrary | undefined {
  if (process.platform !== 'linux') return undefined
  try {
    const { dlopen } = createRequire(import.meta.url)('node:ffi') as typeof import('node:ffi')
    const { functions } = dlopen('libc.so.6', {
      malloc_trim: { arguments: ['u64'], return: 'i32' },
      mallopt: { arguments: ['i32', 'i32'], return: 'i32' },
      _exit: { arguments: ['i32'], return: 'void' },
    })
    return functions as unknown as CLibrary
  } catch {
    return undefined
  }
}

/**
 * Makes malloc return large blocks to the system when they are freed. By default it raises the threshold for mmap up to
 * 32 MB with each large block that it frees, and keeps such blocks from then on. `arenas`: the most arenas that threads
 * allocate from.
 */
export function giveLargeBlocksBack(arenas?: number): void {
  const library = cLibrary()
  library?.mallopt(M_MMAP_THRESHOLD, OWN_MAPPING)
  if (arenas !== undefined) library?.mallopt(M_ARENA_MAX, arenas)
}

/**
 * Returns a function that releases unused memory of malloc to the system (malloc_trim(3)), in about a millisecond.
 * Undefined if the C library lacks it.
 */
export function trimmer(): (() => void) | undefined {
  const library = cLibrary()
  return library && (() => void library.malloc_trim(0n))
}

/**
 * Exits the process at once (_exit(2)). process.exit() waits for every thread, so forever for one in a blocking system
 * call. If the C library lacks the function, the process is stopped by SIGKILL.
 */
export function exitAtOnce(status: number): never {
  cLibrary()?._exit(status)
  process.kill(process.pid, 'SIGKILL')
  throw new Error('The process did not end.')
}

/**
 * Returns a function that collects all garbage of the JavaScript heap of this thread. It blocks the thread (about 50 ms
 * for a server that has just started).
 */
export function collector(): () => void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as (options: object) => void
  return () => gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

/** So many bytes of buffers are collected at a time. */
const GATHERED = 8 * 1024 * 1024

/**
 * Returns a function that counts the bytes that passed through streams, and collects their buffers every 8 MB, which
 * takes about a millisecond. V8 sees only a small part of a buffer in its heap, so it would let more than 50 MB
 * accumulate.
 */
export function bufferCollector(): (bytes: number) => void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as (options: object) => void
  let gathered = 0
  return (bytes) => {
    gathered += bytes
    if (gathered < GATHERED) return
    gathered = 0
    gc({ type: 'minor', execution: 'sync' })
  }
}
